"""The command line as a user meets it: run.sh in a process of its own, exit codes, one sentence for each mistake."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from harness.execution.environments import ROOT


def run_sh(*arguments, cwd=ROOT, timeout=120):
    return subprocess.run([ROOT / "run.sh", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


def mock(out, *arguments, scenario="SingleStream"):
    return run_sh("--sut", "mock", "--scenario", scenario, "--model", "bert", "--duration", "0.5", "--out", out, *arguments)


MOCK = ["--sut", "mock", "--scenario", "Offline", "--model", "bert"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--sut", "keras3-jacks", "--scenario", "Offline", "--model", "mistral"],
            "--sut keras3-jacks: unknown (did you mean keras3-jax?)",
        ),
        (["--sut", "mock", "--scenario", "Offlin", "--model", "bert"], "did you mean Offline?"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "mistrl"], "did you mean mistral?"),
        (
            ["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--size", "huge"],
            "--size huge: unknown; there are tiny, base, full",
        ),
        (["--sut", "mock", "--scenario", "Offline"], "the following arguments are required: --model"),
        (["--sut", "mock", "--scenario", "SingleStream", "--model", "bert", "--batch-size", "8"], "SingleStream issues one sample a query"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--batch-size", "0"], "--batch-size 0: at least 1"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--dataset", "nowhere.txt"], "nowhere.txt: there is no such file"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--sut-option", "latancy-ms=2"], "did you mean latency-ms?"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--sut-option", "latency-ms=fast"], "the value is a number"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--precision", "bfloat16"], "mock computes in float32"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--device", "cuda"], "mock runs on cpu"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--submitter", "../up"], "names a folder"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "mistral", "--seq-len", "9"], "models that predict"),
        ([*MOCK, "--sut-option", "wrong=foo"], "there are swap-rows, zero-position"),
        ([*MOCK, "--duration", "nan"], "--duration nan: more than 0"),
        ([*MOCK, "--duration", "5", "--mode", "valid"], "is for --mode quick"),
        ([*MOCK, "--python", "python3"], "leave it out"),
        ([*MOCK, "--eos", "stop"], "--eos stop: is for models that generate"),
        ([*MOCK, "--eos", "halt"], "--eos halt: unknown; there are stop, ignore"),
        (["--sut", "mock", "--scenario", "Offline", "--model", "mistral", "--eos", "stop"], "no end token is known: it takes --weights"),
        ([*MOCK, "--precision", "fp32"], "did you mean float32?"),
        ([*MOCK, "--dataset", "."], "is a directory; give one file"),
        ([*MOCK, "--dataset", "prompts.json"], "there is no such file"),
        ([*MOCK, "--sut", "keras3-jax"], "--sut keras3-jax: given twice"),
        (["aduit", "runs"], "there is no command 'aduit' (did you mean audit?)"),
        (["audit", "nowhere"], "there is no such directory"),
        (["audit", "README.md"], "it is a file; an audit takes a directory"),
        (["audit", ".", "--mode", "gold"], "--mode gold: unknown; there are quick, valid"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(arguments, words):
    done = run_sh(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_an_output_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = mock(tmp_path / "file")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr and "choose a directory" in done.stderr


def test_a_cell_is_measured_audited_and_told(tmp_path):
    done = mock(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    schema = json.loads((ROOT / "compliance/schemas/result.json").read_text())
    jsonschema.validate(document, schema)
    cell = document["cells"][0]
    assert (cell["status"], cell["reason"], cell["levels"]) == ("ok", "", ["quick"])
    assert cell["loadgen"] == "VALID"
    assert cell["metric"]["value"] == pytest.approx(1.0, rel=0.5)  # the mock's millisecond
    assert cell["accuracy"]["passed"]
    assert not cell["ranked"]
    assert json.loads((tmp_path / cell["directory"] / "result.json").read_text()) == cell
    audited = run_sh("audit", cell["directory"], "--json")
    assert audited.returncode == 0
    assert {c["verdict"] for c in json.loads(audited.stdout)["checks"]} <= {"PASS", "MANUAL", "N/A"}
    assert run_sh("audit", cell["directory"], "--level", "valid").returncode == 1  # half a second is not ten minutes


def test_the_same_command_again_is_a_new_measurement(tmp_path):
    first, second = (json.loads(mock(tmp_path, "--json").stdout)["cells"][0]["directory"] for _ in range(2))
    assert (first[-7:], second[-7:]) == ("quick-1", "quick-2")


def test_a_failed_test_is_told_and_the_same_command_tries_it_again_in_the_same_place(tmp_path):
    failed, again = (mock(tmp_path, "--sut-option", "raise-at=100", scenario="Offline") for _ in range(2))
    for done in (failed, again):
        assert done.returncode == 1
        assert "RuntimeError: told to raise at batch 100" in done.stdout
        assert "the same command goes on from here" in done.stdout
    run = next(tmp_path.rglob("quick-1"))
    assert json.loads((run / "result.json").read_text())["status"] == "error"
    assert "Traceback" in (run / "raw/performance.attempt-1/worker.log").read_text()
    assert not list(tmp_path.rglob("quick-2"))


def test_wrong_answers_are_invalid_and_cost_exit_code_1(tmp_path):
    done = mock(tmp_path, "--json", "--sut-option", "wrong=swap-rows", "--batch-size", "4", scenario="Offline")
    cell = json.loads(done.stdout)["cells"][0]
    assert done.returncode == 1
    assert (cell["status"], cell["cause"]) == ("invalid", "accuracy")
    assert not cell["accuracy"]["passed"]


def test_a_users_prompts_are_measured_all(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "one", "max_new_tokens": 3}\n{"prompt": "and another one"}\n')
    done = run_sh(
        "--sut",
        "mock",
        "--scenario",
        "Offline",
        "--model",
        "mistral",
        "--duration",
        "0.3",
        "--out",
        "out",
        "--json",
        "--dataset",
        "prompts.jsonl",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    cell = json.loads(done.stdout)["cells"][0]
    assert cell["status"] == "ok"
    assert cell["cell"]["dataset"] != "synthetic"
    assert (tmp_path / "out").exists()
    performance = Path(cell["directory"]) / "raw" / "performance"
    answered = json.loads((performance / "outcome.json").read_text())["answered"]
    # LoadGen goes round the set, so one of the two may have been asked once more than the other.
    assert abs(answered["payload_bytes"] / 4 - answered["samples"] * (3 + 45) / 2) <= (45 - 3) / 2
    assert cell["metrics"]["tokens_per_second"] / cell["metrics"]["samples_per_second"] == pytest.approx(
        answered["payload_bytes"] / 4 / answered["samples"]
    )


def test_a_dry_run_says_what_no_framework_needs_to_be_asked_for(tmp_path):
    plan = ["--sut", "native-torch", "--scenario", "Offline", "--model", "gemma", "--size", "tiny", "--device", "cpu", "--dry-run"]
    told = json.loads(run_sh(*plan, "--precision", "tf32", "--json").stdout)
    assert told["sut"] == "native-torch-compile"  # the alias is that name
    assert told["refused"].startswith("--precision tf32: a format of NVIDIA GPUs")
    lacking = run_sh(*plan, "--python", "/usr/bin/nopython")
    assert (lacking.returncode, "there is no such interpreter" in lacking.stderr) == (3, True)


def test_a_dry_run_makes_nothing(tmp_path):
    done = mock(tmp_path / "out", "--dry-run", "--cache", tmp_path / "cache")
    assert done.returncode == 0
    assert "mapped to bert-99" in done.stdout
    assert not (tmp_path / "out").exists() and not (tmp_path / "cache").exists()


def test_list_and_help_import_no_framework_nor_numpy(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    for arguments in (["list"], ["--help"], ["list", "--json"]):
        done = run_sh(*arguments)
        assert done.returncode == 0
        imported = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines() if line.startswith("import time:")}
        assert "argparse" in imported
        assert not imported & {"numpy", "scipy", "torch", "jax", "keras", "transformers"}
    assert {s["name"] for s in json.loads(done.stdout)["suts"]} >= {"mock", "keras3-jax", "native-torch-eager"}


def test_doctor_names_every_thing_it_looks_at():
    done = run_sh("doctor", "--json")
    checks = json.loads(done.stdout)["checks"]
    assert {c["name"] for c in checks} >= {
        "interpreter",
        "C++ compiler",
        "disk",
        "memory",
        "frequency scaling",
        "other load",
        "accelerator",
    }
    assert done.returncode == (1 if any(c["verdict"] == "FAIL" for c in checks) else 0)


def test_too_few_queries_for_loadgen_are_told_with_the_seconds_that_do(tmp_path):
    done = mock(tmp_path, "--sut-option", "latency-ms=100")
    assert done.returncode == 0, done.stderr
    assert "INVALID: Only processed" in done.stdout
    assert "ranked     no, because LoadGen does not call it VALID" in done.stdout
    assert "--duration 0.8  (LoadGen had too few queries to call it VALID)" in done.stdout
