"""This program measures the time and memory of an audit, on a run directory of a million samples
with real LoadGen logs.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m tests.scale.audit_scale [--samples N] [--keep DIR]

The first `./run.sh list` makes that environment. LoadGen's Offline performance and accuracy tests
run once each, each in its own process. Their answers of eight bytes lie ready. Beside LoadGen's
logs lies what the heavy checks read: trace, reference, record, truncated log. The audit runs in a
process of its own. The goal is 10 s of CPU time and 300 MB for a million samples.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from compliance import rules
from compliance.scoring import accuracy
from tests.support.synthetic_runs import cell, record_json

_GOAL_S, _GOAL_MB = 10.0, 300.0
_TREE = Path("open/nobody/results/a-machine/bert-tiny/Offline")
# The checks that read every sample: each must pass, or it may have ended early.
_HEAVY = (
    "performance-sample-set",
    "accuracy-sample-set",
    "performance-loaded-set",
    "accuracy-loaded-set",
    "trace-samples",
    "trace-figures",
    "trace-times",
    "performance-order",
    "accuracy-hash",
    "accuracy-log",
    "accuracy-order",
    "accuracy-score",
    "trace",
)
_AUDIT = """
import json, sys
from pathlib import Path
from compliance import audit
print(json.dumps({c.key: [c.verdict, c.detail] for c in audit.audit(Path(sys.argv[1])).checks}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument(
        "--keep",
        type=Path,
        help="make the run directory here and leave it; one that is there is audited as it is",
    )
    # A child of this program.
    parser.add_argument(
        "--test", choices=("PerformanceOnly", "AccuracyOnly"), help=argparse.SUPPRESS
    )
    flags = parser.parse_args()
    if flags.test:
        _loadgen(flags.keep, flags.test, flags.samples)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        run = flags.keep or Path(scratch) / "run"
        if not (run / "record.json").exists():
            _make(run, flags.samples)
        return _measure(run)


def _measure(run: Path) -> int:
    """Prints a line of figures; 0 if every heavy check passes and the goals are met."""
    start = time.monotonic()
    child = subprocess.Popen([sys.executable, "-P", "-c", _AUDIT, str(run)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    verdicts = json.loads(child.stdout.read())
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds, megabytes = time.monotonic() - start, used.ru_maxrss * 1024 / 1e6
    for name in _HEAVY:
        if verdicts[name][0] != "PASS":
            print(f"{name}: {verdicts[name]}")
    print(
        f"{verdicts['trace-samples'][1]}: {seconds:.1f} s on the clock, {used.ru_utime:.1f} s user"
        f" + {used.ru_stime:.1f} s system of CPU, {megabytes:.0f} MB at most (goal: {_GOAL_S:g} s,"
        f" {_GOAL_MB:g} MB)"
    )
    good = all(verdicts[name][0] == "PASS" for name in _HEAVY)
    return 0 if good and used.ru_utime + used.ru_stime <= _GOAL_S and megabytes <= _GOAL_MB else 1


def _answers(samples: int) -> np.ndarray:
    """What every sample is answered, float32 [samples, 2]."""
    return np.random.default_rng(0).standard_normal((samples, 2)).astype(np.float32)


def _loadgen(folder: Path, mode: str, samples: int) -> None:
    """One LoadGen test whose answers lie ready."""
    import mlperf_loadgen as lg

    answers = _answers(samples)
    start, size = answers.ctypes.data, answers.strides[0]

    def issue(ids: list[int], indices: list[int]) -> None:
        lg.QuerySamplesComplete(
            [
                lg.QuerySampleResponse(i, start + index * size, size)
                for i, index in zip(ids, indices, strict=True)
            ]
        )

    settings = lg.TestSettings()
    settings.scenario, settings.mode = lg.TestScenario.Offline, getattr(lg.TestMode, mode)
    assert settings.FromConfig(str(folder / "user.conf"), "bert-tiny", "Offline") == 0
    log = lg.LogSettings()
    log.log_output.outdir = str(folder)
    log.enable_trace = mode == "PerformanceOnly"
    sut = lg.ConstructFastSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, log, str(folder / "no-audit.config"))


def _make(run: Path, samples: int) -> None:
    conf = {
        "min_duration": 100,
        "min_query_count": samples,
        "performance_sample_count_override": samples,
        "target_qps": 1000,
    }
    for test, mode in (("performance", "PerformanceOnly"), ("accuracy", "AccuracyOnly")):
        folder = run / "raw" / test
        folder.mkdir(parents=True)
        (folder / "user.conf").write_text(
            "".join(f"bert-tiny.Offline.{key} = {value}\n" for key, value in conf.items())
        )
        command = [
            sys.executable,
            "-P",
            "-m",
            "tests.scale.audit_scale",
            "--test",
            mode,
            "--keep",
            str(folder),
            "--samples",
            str(samples),
        ]
        subprocess.run(command, check=True)
        submitted = run / _TREE / ("performance/run_1" if test == "performance" else "accuracy")
        submitted.mkdir(parents=True)
        for name in ("mlperf_log_summary.txt", "mlperf_log_detail.txt"):
            (submitted / name).write_bytes((folder / name).read_bytes())
    logits = _answers(samples)
    np.savez(run / "reference.npz", allow_pickle=False, logits=logits)
    judged: dict[str, Any] = {
        "score": "logits",
        "keys": ["logits"],
        "tolerance": {"logit_error": 1e-3},
    }
    _submit_answers(
        run,
        accuracy.Accuracy(
            "logit_error", 0.0, 1e-3, True, {"samples": samples, "same_class_fraction": 1.0}
        ),
    )
    digests = {
        "weights": "0" * 64,
        "inputs": "0" * 64,
        "reference": _sha256(run / "reference.npz"),
        "trace": _pack(run / "raw/performance/mlperf_log_trace.json"),
    }
    qsl = {"samples": samples, "performance_sample_count": samples, "synthetic": True}
    record = record_json(cell(size="tiny"))
    record |= {"round": rules.CURRENT, "qsl": qsl, "accuracy": judged, "digests": digests}
    (run / "record.json").write_text(json.dumps(record))


def _submit_answers(run: Path, score: accuracy.Accuracy) -> None:
    log = run / "raw/accuracy/mlperf_log_accuracy.json"
    with log.open("rb") as f:
        head = f.read(4096)
        f.seek(-4096, os.SEEK_END)
        tail = f.read()
    (run / _TREE / "accuracy/mlperf_log_accuracy.json").write_bytes(head + b"\n\n...\n\n" + tail)
    (run / _TREE / "accuracy/accuracy.txt").write_text(f"{score.line()}\nhash={_sha256(log)}\n")


def _pack(trace: Path) -> str:
    """As the harness keeps it; → sha256 of its content."""
    digest = _sha256(trace)
    with trace.open("rb") as plain, gzip.open(f"{trace}.gz", "wb", compresslevel=1) as packed:
        while block := plain.read(1 << 20):
            packed.write(block)
    trace.unlink()
    return digest


def _sha256(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
