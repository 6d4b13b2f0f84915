"""A good run directory of the mock SUT: real LoadGen logs from the real worker, and the tree around
them. And what mutations of it need.
"""

import gzip
import hashlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from compliance import logs, rules
from compliance.audit_tests import compliance_tests
from compliance.logs import files
from compliance.scoring import accuracy
from compliance.subject import LoadGenRun
from formats.cell import Cell
from formats.job import read_job
from formats.writing import write_json
from harness.execution import loadgen_run
from harness.execution.process import Worker, read_outcome
from harness.submission import compliance_folders, inference
from scenarios.worker.qsl import Qsl
from scenarios.worker.reference import write_reference
from sut import mock
from tests.support import jobs
from tests.support.files import edit_json, read_json  # noqa: F401
from tests.support.synthetic_runs import record_json

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
_CONFIG = {
    "model": {"vocab_size": _VOCABULARY},
    "prompt_buckets": [_WIDTH],
    "new_token_buckets": [_NEW],
}


class WorkerFailed(Exception):
    """A test's worker ended with another status than ok; the message is its reason."""


_LOCK = "0" * 64


def build(
    directory, scenario="Offline", task="predict", worker=HONEST, milliseconds=300, **options
):
    """Two tests of about a second in one worker. `options`: the mock's, with _ for -.

    Raises WorkerFailed.
    """
    directory.mkdir(parents=True)
    model, official = _MODEL[task]
    batch = 4 if scenario == "Offline" else 1
    cell = Cell(
        sut="mock",
        size="tiny",
        scenario=scenario,
        model=model,
        task=task,
        precision="float32",
        batch_size=batch,
        device="cpu",
        options={key.replace("_", "-"): value for key, value in options.items()},
    )
    answer = ("logits",) if task == "predict" else ("tokens",)
    inputs, synthetic, fresh = (
        directory.with_name(f"{directory.name}-{name}.npz")
        for name in ("inputs", "synthetic", "fresh")
    )
    for seed, (path, rows) in enumerate(((inputs, _SAMPLES[task]), (synthetic, 33), (fresh, 32))):
        np.savez(path, **_inputs(task, rows, seed))
    pace = {"min_duration_ms": milliseconds, "calibration_seconds": 0.1}
    both = [
        jobs.job(
            cell,
            directory / "raw" / test,
            architecture="any",
            config=_CONFIG,
            test=test,
            benchmark=f"{model}-tiny",
            answer=answer,
            inputs=inputs,
            synthetic=synthetic,
            fresh=fresh,
            limits=jobs.limits(_SAMPLES[task], equal_issue=task == "generate", **pace),
            made_with={"environment": _LOCK, "source": ""},
            logits_rows=_LOGITS_ROWS if task == "generate" else 0,
        )
        for test in ("performance", "accuracy")
    ]
    reference = _reference(directory, both[0].workload, inputs)
    run_jobs([replace(job, reference=reference) for job in both], worker)
    record = _record(directory, cell, inputs)
    write_json(directory / "record.json", record)
    _submit(directory, record)
    return directory


def _inputs(task, rows, seed):
    ids = np.random.default_rng(seed).integers(3, _VOCABULARY, (rows, _WIDTH)).astype(np.int32)
    if task == "predict":
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {
        "input_ids": ids,
        "prompt_length": np.full(rows, _WIDTH, np.int32),
        "max_new_tokens": np.full(rows, _NEW, np.int32),
    }


def _reference(directory, workload, inputs):
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


def performance_run(folder, detail):
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


def _packed(trace):
    """As the harness keeps it; → its sha256."""
    content = trace.read_bytes()
    trace.with_name(trace.name + ".gz").write_bytes(gzip.compress(content))
    trace.unlink()
    return hashlib.sha256(content).hexdigest()


def comply(run, worker=HONEST, names=(), of=None):
    """Compliance tests after `build`, in one worker, and their folders in the tree. Raises
    WorkerFailed.
    """
    of, record = of or rules.load(), files.record(run / "record.json")
    performance, outcome = (
        read_job(run / "raw" / "performance" / "job.json"),
        read_outcome(run / "raw" / "performance"),
    )
    assert outcome is not None
    performance = replace(performance, calibration=outcome.calibration)
    official = record.benchmark.official
    jobs = [
        loadgen_run.compliance_job(name, performance, of, official)
        for name in names or compliance_tests.applicable(performance, of)
    ]
    run_jobs(jobs, worker)
    for job in jobs:
        _packed(job.log_dir / "mlperf_log_trace.json")
    resubmit_compliance(run, of)
    return run


def resubmit_compliance(run, of=None):
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


def run_jobs(jobs, module=HONEST):
    """Run jobs in one worker, as a cell does. Raises WorkerFailed."""
    with Worker(Path(sys.executable), {}) as worker:
        worker.module = module
        for job in jobs:
            job.log_dir.mkdir(parents=True, exist_ok=True)
            outcome = worker.run(job, lambda beat: None)
            if outcome.status != "ok":
                raise WorkerFailed(f"{job.test}: {outcome.reason}")


def _record(directory, cell, inputs):
    model, official = _MODEL[cell.task]
    task, count = cell.task, _SAMPLES[cell.task]
    outcome = read_json(directory / "raw" / "performance" / "outcome.json")
    eos = "ignore" if task == "generate" else None
    return record_json(replace(cell, eos=eos)) | {
        "end_tokens": [],
        "round": rules.CURRENT,
        "command": f"./run.sh --sut mock --scenario {cell.scenario} --model {model}",
        "benchmark": {"name": f"{model}-tiny", "official": official},
        "architecture": "any",
        "execution": "eager",
        "qsl": {"samples": count, "performance_sample_count": count, "synthetic": True},
        "accuracy": {
            "score": "logits" if task == "predict" else "tokens",
            "keys": ["logits" if task == "predict" else "tokens"],
            "tolerance": _TOLERANCE[task],
        },
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
        "new_tokens_per_sample": _NEW if task == "generate" else None,
    }


def _submit(run, record):
    """A small writer of the v6.1 tree."""
    name, cell = record["benchmark"]["name"], record["cell"]
    base = run / "open" / SUBMITTER
    scenario = base / "results" / SYSTEM / name / cell["scenario"]
    for test, folder in (
        ("performance", scenario / "performance" / "run_1"),
        ("accuracy", scenario / "accuracy"),
    ):
        folder.mkdir(parents=True)
        for log in ("mlperf_log_summary.txt", "mlperf_log_detail.txt"):
            (folder / log).write_bytes((run / "raw" / test / log).read_bytes())
    (scenario / "user.conf").write_bytes((run / "raw" / "performance" / "user.conf").read_bytes())
    setting = f"{cell['precision']}, batch {cell['batch_size']}, device {cell['device']}"
    (scenario / "README.md").write_text(f"{record['command']}\n{setting}\n")
    write_json(
        scenario / "measurements.json",
        {
            "input_data_types": "int32",
            "retraining": "no",
            "starting_weights_filename": "none",
            "weight_data_types": "float32",
            "weight_transformations": "none",
        },
    )
    write_json(base / "model_mapping.json", {name: record["benchmark"]["official"]})
    (base / "systems").mkdir()
    write_json(base / "systems" / f"{SYSTEM}.json", _system())
    (base / "src" / name).mkdir(parents=True)
    (base / "src" / name / "README.md").write_text("The source.\n")
    resubmit_answers(run)


def _system():
    from compliance.checks.submission import metadata

    required = read_json(Path(metadata.__file__).parents[2] / "schemas" / "system.json")["required"]
    return dict.fromkeys(required, "N/A") | {
        "division": "open",
        "submitter": SUBMITTER,
        "status": "rdi",
        "system_type": "edge",
        "number_of_nodes": "1",
        "accelerators_per_node": "0",
        "host_processors_per_node": "1",
    }


def resubmit_answers(run):
    """accuracy.txt and the truncated log, made again from raw/."""
    record, log = (
        read_json(run / "record.json"),
        run / "raw" / "accuracy" / "mlperf_log_accuracy.json",
    )
    whole = log.read_bytes()
    with np.load(run / "reference.npz") as reference:
        forced, own = (run / "raw" / "accuracy" / name for name in ("logits.npy", "own_logits.npy"))
        judged = record["accuracy"]
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
    (target / "accuracy.txt").write_text(
        f"{found.line()}\nhash={hashlib.sha256(whole).hexdigest()}\n"
    )
    short = whole if len(whole) <= 10240 else whole[:4096] + b"\n\n...\n\n" + whole[-4096:]
    (target / "mlperf_log_accuracy.json").write_bytes(short)


def whole(found):
    """No part of the audit broke off over what it read: such a part is a failed check, which must
    not count as having seen the damage.
    """
    assert not [c.line() for c in found if c.id == "audit"]
    return found


# What mutations are made of.


def base(run):
    return run / "open" / SUBMITTER


def scenario_folder(run):
    return next(p.parent for p in base(run).glob("results/*/*/*/accuracy"))


def both(run, test, name):
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


def change(run, test, name, how):
    for path in both(run, test, name):
        before = path.read_text()
        after = how(before)
        assert after != before, f"the mutation of {name} changes nothing"
        path.write_text(after)


def detail(run, test, **values):
    """Set keys of the detail log; `__` in a name stands for a dot. A function gets the old value;
    None removes the line.
    """
    wanted = {key.replace("__", "."): value for key, value in values.items()}

    def rewritten(line):
        entry = json.loads(line.removeprefix(":::MLLOG "))
        value = (
            wanted.get(entry["key"], entry["value"]) if entry["key"] in wanted else entry["value"]
        )
        entry["value"] = value(entry["value"]) if callable(value) else value
        return ":::MLLOG " + json.dumps(entry) + "\n"

    def how(text):
        lines = [line for line in text.splitlines() if (wanted.get(_key(line), "kept")) is not None]
        return "".join(rewritten(line) if _key(line) in wanted else line + "\n" for line in lines)

    change(run, test, "mlperf_log_detail.txt", how)


def _key(line):
    return str(json.loads(line.removeprefix(":::MLLOG "))["key"])


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
