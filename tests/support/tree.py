"""A good run directory of the mock SUT: real LoadGen logs from the real worker, and the tree around
them. And what mutations of it need.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs, rules
from compliance.audit_tests import compliance_tests
from compliance.logs import files
from compliance.scoring import accuracy
from compliance.subject import LoadGenRun
from formats.cell import Cell
from formats.job import Job, Limits, read_job
from formats.writing import write_json
from harness.execution import loadgen_run
from harness.execution.process import Worker, read_outcome
from harness.submission import compliance_folders, inference
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.reference import write_reference
from sut import mock
from sut.contract import Workload
from tests.support.files import read_json
from tests.support.synthetic_runs import cell, job, record_json

KINDS = {
    "Offline": ("Offline", "predict"),
    "SingleStream": ("SingleStream", "predict"),
    "tokens": ("Offline", "generate"),
    "tokens one by one": ("SingleStream", "generate"),
}
"""Name → (scenario, task) of a run directory that the tests build."""
ROOT = Path(__file__).resolve().parents[2]
SUBMITTER, SYSTEM = "nobody", "a-machine-mock"
_WIDTH, _VOCABULARY, _NEW, _LOGITS_ROWS = 8, 1000, 4, 4
# 256 answers make a log longer than the truncation limit, 32 do not.
_SAMPLES = {"predict": 256, "generate": 32}
_MODEL = {"predict": ("bert", "bert-99"), "generate": ("mistral", "llama3.1-8b-edge")}
HONEST = ("scenarios.worker",)
_TOLERANCE = {
    "predict": {"logit_error": 1e-3},
    "generate": {
        "logit_error": 1e-3,
        "logit_gap": 1e-3,
        "compared_fraction": 0.9,
        "argmax_fraction": 0.999,
        "rounding_step": 2e-5,
    },
}
_CONFIG: dict[str, Any] = {
    "model": {"vocab_size": _VOCABULARY},
    "prompt_buckets": [_WIDTH],
    "new_token_buckets": [_NEW],
}


class WorkerFailed(Exception):
    """A test's worker ended with another status than ok; the message is its reason."""


_LOCK = "0" * 64


def build(
    directory: Path,
    scenario: str = "Offline",
    task: str = "predict",
    worker: Sequence[str] = HONEST,
    milliseconds: int = 300,
    **options: Any,
) -> Path:
    """Two tests of about a second in one worker. `options`: the mock's, with _ for -.

    Raises WorkerFailed.
    """
    directory.mkdir(parents=True)
    model, _ = _MODEL[task]
    own = cell(
        "mock",
        size="tiny",
        scenario=scenario,
        model=model,
        task=task,
        batch_size=4 if scenario == "Offline" else 1,
        seq_len=None,
        weights="seeded",
        options={key.replace("_", "-"): value for key, value in options.items()},
    )
    paths = {
        name: directory.with_name(f"{directory.name}-{name}.npz")
        for name in ("inputs", "synthetic", "fresh")
    }
    for seed, (path, rows) in enumerate(zip(paths.values(), (_SAMPLES[task], 33, 32), strict=True)):
        np.savez(path, **_inputs(task, rows, seed))
    limits = Limits(
        min_duration_ms=milliseconds,
        min_query_count=1,
        performance_sample_count=_SAMPLES[task],
        equal_issue=task == "generate",
        calibration_seconds=0.1,
    )
    timed = replace(
        job(own, directory, **_CONFIG),
        architecture="any",
        benchmark=f"{model}-tiny",
        answer=("logits",) if task == "predict" else ("tokens",),
        limits=limits,
        made_with={"environment": _LOCK, "source": ""},
        logits_rows=_LOGITS_ROWS if task == "generate" else 0,
        **paths,
    )
    timed = replace(timed, reference=_reference(directory, timed.workload, timed.inputs))
    accuracy_folder = directory / "raw" / "accuracy"
    run_jobs([timed, replace(timed, test="accuracy", log_dir=accuracy_folder)], worker)
    record = _record(directory, own, timed.inputs)
    write_json(directory / "record.json", record)
    _submit(directory, record)
    return directory


def _inputs(task: str, rows: int, seed: int) -> dict[str, np.ndarray]:
    ids = np.random.default_rng(seed).integers(3, _VOCABULARY, (rows, _WIDTH)).astype(np.int32)
    if task == "predict":
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {
        "input_ids": ids,
        "prompt_length": np.full(rows, _WIDTH, np.int32),
        "max_new_tokens": np.full(rows, _NEW, np.int32),
    }


def _reference(directory: Path, workload: Workload, inputs: Path) -> Path:
    sut = mock.load(workload)
    qsl = Qsl(inputs, sut.prepare)
    qsl.load(range(qsl.count))
    path = directory / "reference.npz"
    batches = [qsl.batch(range(i, min(i + 32, qsl.count)), 32) for i in range(0, qsl.count, 32)]
    write_reference(
        path,
        sut,
        qsl.arrays,
        prepared=batches,
        batch_size=32,
        logits_rows=_LOGITS_ROWS,
        on_batch=lambda: None,
    )
    return path


def performance_run(folder: Path, detail: logs.Detail) -> LoadGenRun:
    """A performance test of which only the detail log is there."""
    return LoadGenRun(
        name="performance",
        folder=folder,
        detail=detail,
        summary=logs.Summary({}, "", ()),
        user_conf=None,
        outcome=None,
        job=None,
        faults={},
    )


def _packed(trace: Path) -> str:
    """As the harness keeps it; → its sha256."""
    content = trace.read_bytes()
    trace.with_name(trace.name + ".gz").write_bytes(gzip.compress(content))
    trace.unlink()
    return hashlib.sha256(content).hexdigest()


def comply(
    run: Path,
    worker: Sequence[str] = HONEST,
    names: Sequence[str] = (),
    of: rules.Rules | None = None,
) -> Path:
    """Compliance tests after `build`, in one worker, and their folders in the tree. Raises
    WorkerFailed.
    """
    of, record = of or rules.load(), files.record(run / "record.json")
    performance = read_job(run / "raw" / "performance" / "job.json")
    outcome = read_outcome(run / "raw" / "performance")
    assert outcome is not None
    performance = replace(performance, calibration=outcome.calibration)
    official = record.benchmark.official
    jobs = [
        loadgen_run.compliance_job(name, performance, of, official)
        for name in names or compliance_tests.applicable(performance, of)
    ]
    run_jobs(jobs, worker)
    for each in jobs:
        _packed(each.log_dir / "mlperf_log_trace.json")
    resubmit_compliance(run, of)
    return run


def resubmit_compliance(run: Path, of: rules.Rules | None = None) -> None:
    """The TESTxx folders, made again from raw/."""
    of, record = of or rules.load(), files.record(run / "record.json")
    answers = inference.answers(run)
    score = inference.score(run, record, answers)
    made = compliance_folders.Run(run, record, of, score, answers)
    for name in of.compliance_tests:
        folder, outcome = scenario_folder(run) / name, read_outcome(run / "raw" / name)
        shutil.rmtree(folder, ignore_errors=True)
        if outcome and outcome.status == "ok":
            compliance_folders.write(made, name, folder)


def run_jobs(jobs: Iterable[Job], module: Sequence[str] = HONEST) -> None:
    """Run jobs in one worker, as a cell does. Raises WorkerFailed."""
    with Worker(Path(sys.executable), {}) as worker:
        worker.module = module
        for each in jobs:
            each.log_dir.mkdir(parents=True, exist_ok=True)
            outcome = worker.run(each, lambda beat: None)
            if outcome.status != "ok":
                raise WorkerFailed(f"{each.test}: {outcome.reason}")


def _record(directory: Path, own: Cell, inputs: Path) -> dict[str, Any]:
    official = _MODEL[own.task][1]
    count = _SAMPLES[own.task]
    generates = own.task == "generate"
    outcome = read_json(directory / "raw" / "performance" / "outcome.json")
    score = "tokens" if generates else "logits"
    record = record_json(own) | {
        "end_tokens": [],
        "command": f"./run.sh --sut mock --scenario {own.scenario} --model {own.model}",
        "benchmark": {"name": f"{own.model}-tiny", "official": official},
        "architecture": "any",
        "execution": "eager",
        "qsl": {"samples": count, "performance_sample_count": count, "synthetic": True},
        "accuracy": {"score": score, "keys": [score], "tolerance": _TOLERANCE[own.task]},
        "digests": {
            "weights": "0" * 64,
            "weights_source": "user",
            "inputs": sha256(inputs),
            "reference": sha256(directory / "reference.npz"),
            "trace": _packed(directory / "raw" / "performance" / "mlperf_log_trace.json"),
        },
        "machine": {"cpu": "a processor"},
        "git": {"revision": None, "dirty": None},
        "environment": {"name": "core", "lock_sha256": _LOCK, "versions": outcome["versions"]},
        "answers": outcome["answers"],
        "new_tokens_per_sample": _NEW if generates else None,
    }
    stated = {name: value for name, value in record["cell"].items() if value is not None}
    record["cell"] = stated | {"eos": "ignore" if generates else None}
    return record


def _submit(run: Path, record: Mapping[str, Any]) -> None:
    """A small writer of the v6.1 tree."""
    cell = record["cell"]
    systems = run / "open" / SUBMITTER / "results" / SYSTEM
    scenario = systems / record["benchmark"]["name"] / cell["scenario"]
    for test, folder in (
        ("performance", scenario / "performance" / "run_1"),
        ("accuracy", scenario / "accuracy"),
    ):
        folder.mkdir(parents=True)
        for log in ("mlperf_log_summary.txt", "mlperf_log_detail.txt"):
            shutil.copy(run / "raw" / test / log, folder)
    shutil.copy(run / "raw" / "performance" / "user.conf", scenario)
    setting = f"{cell['precision']}, batch {cell['batch_size']}, device {cell['device']}"
    describe(scenario, record["benchmark"]["official"], f"{record['command']}\n{setting}\n")
    resubmit_answers(run)


def describe(scenario: Path, official: str, readme: str) -> None:
    """Write the documents of a submission of one scenario, whose folder this is."""
    *_, system, name, _ = scenario.parts
    submitter = scenario.parents[3]
    (scenario / "README.md").write_text(readme)
    types = {"input_data_types": "int32", "weight_data_types": "float32", "retraining": "no"}
    none = dict.fromkeys(("starting_weights_filename", "weight_transformations"), "none")
    write_json(scenario / "measurements.json", types | none)
    write_json(submitter / "model_mapping.json", {name: official})
    (submitter / "systems").mkdir()
    write_json(submitter / "systems" / f"{system}.json", _system())
    (submitter / "src" / name).mkdir(parents=True)
    (submitter / "src" / name / "README.md").write_text("The source.\n")


def _system() -> dict[str, str]:
    from compliance.checks.submission import metadata

    schema = Path(metadata.__file__).parents[2] / "schemas" / "system.json"
    own = {"division": "open", "submitter": SUBMITTER, "status": "rdi", "system_type": "edge"}
    counts = {"number_of_nodes": "1", "accelerators_per_node": "0", "host_processors_per_node": "1"}
    return dict.fromkeys(read_json(schema)["required"], "N/A") | own | counts


def resubmit_answers(run: Path) -> None:
    """accuracy.txt and the truncated log, made again from raw/."""
    judged = read_json(run / "record.json")["accuracy"]
    log = run / "raw" / "accuracy" / "mlperf_log_accuracy.json"
    whole = log.read_bytes()
    with np.load(run / "reference.npz") as reference:
        forced, own = (run / "raw" / "accuracy" / name for name in ("logits.npy", "own_logits.npy"))
        found = accuracy.score(
            judged["score"],
            logs.read_accuracy(log).payloads,
            dict(reference),
            judged["tolerance"],
            judged["keys"],
            np.load(forced) if forced.exists() else None,
            np.load(own) if own.exists() else None,
        )
    target = scenario_folder(run) / "accuracy"
    (target / "accuracy.txt").write_text(f"{found.line()}\nhash={sha256(log)}\n")
    short = whole if len(whole) <= 10240 else whole[:4096] + b"\n\n...\n\n" + whole[-4096:]
    (target / "mlperf_log_accuracy.json").write_bytes(short)


# What mutations are made of.


def base(run: Path) -> Path:
    return run / "open" / SUBMITTER


def scenario_folder(run: Path) -> Path:
    return next(p.parent for p in base(run).glob("results/*/*/*/accuracy"))


def both(run: Path, test: str, name: str) -> list[Path]:
    """The raw file and the submitted one: a forger changes both."""
    folder = scenario_folder(run)
    logged = (
        "accuracy"
        if test == "accuracy" or name == "mlperf_log_accuracy.json"
        else "performance/run_1"
    )
    submitted = folder / (test if test.startswith("TEST") else "") / logged / name
    if name == "user.conf":
        return [run / "raw" / test / name, *([folder / name] if test == "performance" else [])]
    return [run / "raw" / test / name, submitted]


def change(run: Path, test: str, name: str, how: Callable[[str], str]) -> None:
    for path in both(run, test, name):
        before = path.read_text()
        after = how(before)
        assert after != before, f"the mutation of {name} changes nothing"
        path.write_text(after)


def detail(run: Path, test: str, **values: Any) -> None:
    """Set keys of the detail log; `__` in a name stands for a dot. A function gets the old value;
    None removes the line.
    """
    change(run, test, "mlperf_log_detail.txt", lambda text: with_entries(text, **values))


def with_entries(text: str, **values: Any) -> str:
    """The text of a detail log with other values (`detail`)."""
    wanted = {key.replace("__", "."): value for key, value in values.items()}
    lines = []
    for line in text.splitlines():
        entry = json.loads(line.removeprefix(":::MLLOG "))
        if entry["key"] in wanted:
            value = wanted[entry["key"]]
            if value is None:
                continue
            entry["value"] = value(entry["value"]) if callable(value) else value
            line = ":::MLLOG " + json.dumps(entry)
        lines.append(line)
    return "\n".join([*lines, ""])


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
