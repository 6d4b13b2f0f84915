"""Good submissions of the scenarios the harness has not: real LoadGen logs, with traces, of a SUT
of a few lines (loadgen_run).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compliance import logs, rules
from compliance.audit_tests import speed, test01
from tests.support.tree import ROOT, SUBMITTER, SYSTEM, describe

BENCHMARK, OFFICIAL = "detector", "yolo-99"
_LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")


@dataclass(frozen=True)
class Kind:
    """What one submission is of.

    Attributes:
        folder: the scenario it is submitted as.
        scenario: LoadGen's.
        conf: user.conf, but for counts of samples.
        loaded: of the samples. Those of a set are whole queries of MultiStream's eight: a rest
            would be filled up with others again.
        tests: compliance tests that come with it.
    """

    folder: str
    scenario: str
    conf: Mapping[str, float]
    busy_s: float = 0.0005
    threads: int = 0
    tokens: int = False
    total: int = 40
    loaded: int = 40
    tests: tuple[str, ...] = ()


_SERVER = {
    "min_duration": 700,
    "min_query_count": 10,
    "target_qps": 987.654321,
    "target_latency": 5000,
}
_TOKENS = {
    "use_token_latencies": 1,
    "ttft_latency": 5000,
    "tpot_latency": 5000,
    "target_latency": 0,
}
_MULTI = {"min_duration": 700, "min_query_count": 662, "target_latency": 0.9123456789}
_SINGLE = {"min_duration": 300, "min_query_count": 100, "target_latency": 0.6123456789}


def _kind(scenario, conf, *busy_s, folder="", **more):
    return Kind(folder or scenario, scenario, conf, *busy_s, **more)


_EQUAL, _LATENCIES = {"sample_concatenate_permutation": 1}, {"use_token_latencies": 1}
_COALESCED = _SERVER | {"coalesce_queries": 1, "target_qps": 400}
_FEW_QUERIES = _SERVER | {"min_duration": 200, "target_qps": 100}
_LATE = _SERVER | _TOKENS | {"ttft_latency": 2}
_FEW_OF_EIGHT = _MULTI | {"min_query_count": 10, "target_latency": 3}
_OTHER_PERCENTILE = _SINGLE | {"target_latency_percentile": 95}
KINDS = {
    "Server": _kind("Server", _SERVER, threads=2, tests=("TEST01",)),
    "Server, equal issue": _kind("Server", _SERVER | _EQUAL, threads=2, loaded=24),
    "Server, coalesced": _kind("Server", _COALESCED, 0.003),
    "Server, too slow": _kind("Server", _SERVER | {"target_latency": 20}, 0.003, threads=1),
    "Server, too few": _kind("Server", _FEW_QUERIES, threads=1),
    "Interactive": _kind("Server", _SERVER | _TOKENS, folder="Interactive", threads=2, tokens=True),
    "Interactive, too slow": _kind(
        "Server", _LATE, 0.004, folder="Interactive", threads=1, tokens=True
    ),
    "MultiStream": _kind("MultiStream", _MULTI, tests=("TEST01", "TEST04")),
    "MultiStream, equal issue": _kind("MultiStream", _MULTI | _EQUAL, loaded=16),
    "MultiStream, tokens": _kind("MultiStream", _MULTI | _LATENCIES, tokens=True),
    "MultiStream, too few": _kind("MultiStream", _FEW_OF_EIGHT, 0.002),
    "MultiStream, queries of four": _kind("MultiStream", _MULTI | {"samples_per_query": 4}),
    "MultiStream of SingleStream": _kind("SingleStream", _SINGLE, folder="MultiStream"),
    "Offline of SingleStream": _kind("SingleStream", _SINGLE, folder="Offline"),
    "Offline of MultiStream": _kind("MultiStream", _MULTI, folder="Offline"),
    "SingleStream, tokens": _kind("SingleStream", _SINGLE | _LATENCIES, tokens=True),
    "SingleStream, the 95th percentile": _kind("SingleStream", _OTHER_PERCENTILE),
}


@dataclass(frozen=True)
class Built:
    """A submission. `folder`: of the scenario."""

    root: Path
    kind: Kind
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "folder", self.base / "results" / SYSTEM / BENCHMARK / self.kind.folder
        )

    @property
    def base(self) -> Path:
        return self.root / "open" / SUBMITTER

    @property
    def detail(self) -> Path:
        return self.folder / "performance" / "run_1" / "mlperf_log_detail.txt"


def build(
    root: Path, kind: Kind, of: rules.Rules | None = None, python: str = sys.executable
) -> Built:
    """Two LoadGen processes of a second, and one for each compliance test."""
    built, of = Built(root, kind), of or rules.load()
    measure(root / "performance", kind, "PerformanceOnly", {}, python)
    measure(root / "accuracy", kind, "AccuracyOnly", {}, python)
    accuracy, performance = built.folder / "accuracy", built.folder / "performance" / "run_1"
    for source, target, names in (
        (root / "performance", performance, (*_LOGS, "mlperf_log_trace.json")),
        (root / "accuracy", accuracy, (*_LOGS, "mlperf_log_accuracy.json")),
    ):
        target.mkdir(parents=True)
        for name in names:
            shutil.copy(source / name, target / name)
    _write_answers(root / "accuracy", accuracy, of)
    shutil.copy(root / "performance" / "user.conf", built.folder / "user.conf")
    describe(built.folder, OFFICIAL, "How to repeat it.\n")
    shutil.copy(ROOT / "tests" / "support" / "loadgen_run.py", built.base / "src" / BENCHMARK)
    for name in kind.tests:
        settings = of.compliance_tests[name].settings(OFFICIAL)
        measure(root / name, kind, "PerformanceOnly", settings, python)
        _submit_test(built, name, of)
    for raw in ("performance", "accuracy", *kind.tests):
        shutil.rmtree(root / raw)
    return built


def measure(
    folder: Path,
    kind: Kind,
    mode: str,
    audit: Mapping[str, int],
    python: str = sys.executable,
) -> None:
    """Run one LoadGen process that writes its logs and its user.conf into a new folder."""
    folder.mkdir(parents=True)
    own = {f"{BENCHMARK}.{kind.scenario}.{key}": value for key, value in kind.conf.items()}
    _settings(folder / "user.conf", own)
    if audit:
        _settings(folder / "audit.config", {f"*.*.{key}": value for key, value in audit.items()})
    spec = {
        "folder": str(folder),
        "scenario": kind.scenario,
        "mode": mode,
        "model": BENCHMARK,
        "total": kind.total,
        "loaded": kind.loaded,
        "busy_s": kind.busy_s,
        "threads": kind.threads,
        "tokens": kind.tokens,
        "audit": str(folder / "audit.config"),
    }
    subprocess.run(
        [python, "-m", "tests.support.loadgen_run", json.dumps(spec)],
        cwd=ROOT,
        check=True,
        timeout=120,
    )


def _settings(path: Path, values: Mapping[str, object]) -> None:
    path.write_text("".join(f"{key} = {value}\n" for key, value in values.items()))


def _write_answers(raw: Path, target: Path, of: rules.Rules) -> None:
    whole = (raw / "mlperf_log_accuracy.json").read_bytes()
    (target / "mlperf_log_accuracy.json").write_bytes(of.truncation.cut(whole))
    (target / "accuracy.txt").write_text(f"mAP=52.1\nhash={hashlib.sha256(whole).hexdigest()}\n")


def _submit_test(built: Built, name: str, of: rules.Rules) -> None:
    raw, target, rule = built.root / name, built.folder / name, of.compliance_tests[name]
    (target / "performance" / "run_1").mkdir(parents=True)
    for log in _LOGS:
        shutil.copy(raw / log, target / "performance" / "run_1" / log)
    compared_speed = speed.compare(
        rule,
        built.kind.scenario,
        of,
        logs.read_detail(built.detail),
        logs.read_detail(raw / _LOGS[1]),
    )
    (target / "verify_performance.txt").write_text(speed.verify_text(compared_speed))
    if rule.sampling_target:
        (target / "accuracy").mkdir()
        _write_answers(raw, target / "accuracy", of)
        answers = logs.read_accuracy(built.folder / "accuracy" / "mlperf_log_accuracy.json")
        compared = test01.compare(
            logs.read_logged(raw / "mlperf_log_accuracy.json").rows, answers.payloads
        )
        (target / "verify_accuracy.txt").write_text(
            test01.verify_text(compared, len(answers.payloads))
        )
