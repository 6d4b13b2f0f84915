"""Files of a run directory that agree with each other and with nothing else."""

import json
import shutil
from pathlib import Path

import pytest

from compliance import audit
from formats.checks import Verdict
from harness.measurement import run
from harness.result import HARNESS
from tests.support import audits
from tests.support.cells import Reporter, request
from tests.support.files import edit_json
from tests.support.synthetic_runs import CALM

RECORD, RESULT, OUTCOME = "record.json", "result.json", "raw/performance/outcome.json"
BOTH = (RECORD, RESULT)
JOBS = ("raw/performance/job.json", "raw/accuracy/job.json")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    found = run.run(request(tmp_path_factory.mktemp("runs")), Reporter(), 0)
    assert found.status == "ok", found.reason
    return Path(found.directory)


@pytest.fixture
def copy(measured, tmp_path):
    return shutil.copytree(measured, tmp_path / "quick-1")


def failed(directory):
    found = audits.failed(directory, "quick", harness=HARNESS)
    return {key: check.detail for key, check in found.items()}


def put(value, *path, files=(RESULT,)):
    """Set a value in each of these files."""

    def change(document):
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return document

    return [(file, change) for file in files]


def of_cell(field, value):
    return put(value, "cell", field, files=BOTH)


RANKED = [*put(True, "ranked"), *put([], "unranked")]
VERSIONS = [
    *put("9.9", "environment", "versions", "python", files=(RECORD,)),
    *put("9.9", "versions", "python"),
]
OFFICIAL = {"benchmark": "bert-99", "values": {"F1": 91.0}, "limits": {}, "line": ""}
OFFICIAL |= {"passed": True, "closed": True}
CAUGHT = {
    "ranked": RANKED,
    "another size": [*of_cell("size", "mid"), *RANKED],
    "a size that is none": [*of_cell("size", "huge"), *RANKED],
    "no reasons against the ranking": put([], "unranked"),
    "another length": of_cell("seq_len", 64),
    "another data set": of_cell("dataset", "0123456789ab"),
    "other weights": of_cell("weights", "0123456789ab"),
    "another precision": of_cell("precision", "bfloat16"),
    "another batch": of_cell("batch_size", 64),
    "another SUT": of_cell("sut", "keras3-jax"),
    "another model": of_cell("model", "distilbert"),
    "another task": of_cell("task", "generate"),
    "options": of_cell("options", {"latency-ms": 0.0}),
    "end tokens": of_cell("eos", "stop"),
    "LoRA": of_cell("lora", "own"),
    "a limit": of_cell("max_latency_ms", 10.0),
    "a rate": of_cell("rate", 10.0),
    "a wait": of_cell("max_wait_ms", 10.0),
    "streaming": of_cell("stream", True),
    "replicas": of_cell("replicas", "2"),
    "a cluster": of_cell("cluster", "slurm"),
    "threads": of_cell("threads", 1),
    "packages": of_cell("packages", ["numpy==1.0"]),
    "versions": VERSIONS,
    "parameters": put(10**9, "parameters", files=(RECORD,)),
    "facts of the model": put("24 layers", "model_facts", files=BOTH),
    "another execution": put("compile", "execution", files=(RECORD,)),
    "another architecture": put("resnet", "architecture", files=(RECORD,)),
    "more inputs": put(9999, "qsl", "samples", files=(RECORD,)),
    "another mode": put("valid", "mode", files=BOTH),
    "levels": put(["quick", "valid", "submission"], "levels"),
    "no failures": put({"FAIL": 7}, "audit"),
    "no warnings": put([], "warnings"),
    "another unit": put("samples/h", "metric", "unit"),
    "a figure more": put(1.0, "metrics", "joules_per_sample_gpu"),
    "a shorter phase": put(0.001, "seconds", "load"),
    "another score": put(0.5, "accuracy", "value"),
    "a wider limit": put(1.0, "accuracy", "threshold"),
    "another status": put("unsupported", "status"),
    "an official score": put(OFFICIAL, "official"),
    "no kept answers": put(0, "answered", "samples", files=(OUTCOME,)),
    "other reasons": put(["the machine was quiet", "so it is"], "unranked"),
    "one reason less": put(["size tiny only shows that a cell works"], "unranked"),
    "another sentence": put("1 graph, none new while measuring; float32", "evidence", "sentence"),
    "passed checks": put({"PASS": 680, "FAIL": 0, "MANUAL": 0, "N/A": 0}, "audit"),
    "no reference": [
        *put("", "digests", "reference", files=(RECORD,)),
        *put("there was too little memory", "accuracy", "reason", files=(RECORD,)),
    ],
    "another lock": put("1" * 64, "environment", "lock_sha256", files=(RECORD,)),
    "another environment": put("native-torch", "environment", "name", files=(RECORD,)),
    "another source": put("1" * 64, "git", "worker_source_sha256", files=(RECORD,)),
    "another revision": put("0" * 40, "git", "revision", files=(RECORD,)),
    "another LoadGen": put("mlcommons-loadgen==9.0.0", "loadgen", files=(RECORD,)),
    "another command": put("./run.sh --sut native-jax", "command", files=(RECORD,)),
    "other answers": put({}, "answers", files=(RECORD,)),
    "another SUT in every file": put("keras3-torch", "cell", "sut", files=(*BOTH, *JOBS)),
    "a longer time of fresh inputs": put(1e12, "fresh", "fresh_ns", files=(OUTCOME,)),
    "other threads after the test": put(
        7, "evidence_after", "detail", "processors", files=(OUTCOME,)
    ),
    "a test of another run": put("/elsewhere/raw/accuracy", "log_dir", files=JOBS[1:]),
}


@pytest.mark.parametrize("name", CAUGHT)
def test_files_that_agree_only_with_each_other_are_seen(copy, name):
    for file, change in CAUGHT[name]:
        edit_json(copy / file, change)
    assert failed(copy)


def without_disturbances(result):
    """Leave out the sentences on disturbances."""
    return {
        **result,
        "unranked": [each for each in result["unranked"] if "other programs" not in each],
        "warnings": [each for each in result["warnings"] if "other programs" not in each],
    }


UNKNOWABLE = {
    "disturbances": [
        *put(CALM | {"seconds": 1.0}, "disturbance", files=(OUTCOME, RESULT)),
        (RESULT, without_disturbances),
    ],
    "memory": put(1, "peak_host_bytes", files=(OUTCOME, RESULT)),
    "the beginning": put("2020-01-01T00:00:00+0000", "started", files=BOTH),
}
"""Values that the worker or the harness measured, and that follow from nothing else."""


@pytest.mark.parametrize("name", UNKNOWABLE)
def test_a_value_that_follows_from_nothing_is_believed_if_its_copies_agree(copy, name):
    for file, change in UNKNOWABLE[name]:
        edit_json(copy / file, change)
    assert not failed(copy)


def test_an_honest_run_follows_from_its_files_and_a_moved_one_does(measured, copy):
    assert not failed(measured)
    assert not failed(copy)


def test_the_command_says_what_the_cell_does(copy):
    for path in (copy / RECORD, *copy.glob("open/*/results/*/*/*/README.md")):
        path.write_text(path.read_text().replace("--sut mock", "--sut native-jax"))
    assert "command: --sut is 'native-jax'" in failed(copy)["derived-files"]


def test_a_copy_of_a_run_beside_it_is_seen(measured, tmp_path):
    for name in ("quick-1", "quick-2"):
        shutil.copytree(measured, tmp_path / "cell" / name)
    checks = audit.audit(tmp_path, harness=HARNESS).checks_for("quick")
    (copied,) = (check for check in checks if check.verdict is Verdict.FAIL)
    assert (copied.id, copied.place) == ("copied-run", "cell/quick-2")
    assert copied.detail == "its trace is that of cell/quick-1: one of them is a copy"


def test_the_fault_names_field_value_and_what_follows(copy):
    edit_json(copy / RESULT, lambda d: d | {"ranked": True})
    assert failed(copy)["derived-files"] == ("result.json: ranked is True; it follows that False")
    edit_json(copy / RESULT, lambda d: d | {"ranked": False})
    for file, change in of_cell("size", "mid"):
        edit_json(copy / file, change)
    words = "cell.size is 'mid'; the harness and the other files give 'tiny'"
    assert words in failed(copy)["derived-files"]
    assert json.loads((copy / RESULT).read_text())["cell"]["size"] == "mid"
