"""What the harness costs: over LoadGen alone with the same settings, and over a bare loop on the
same SUT.

    PYTHONPATH=. .cache/environments/core/bin/python -P benchmarks/overhead.py \\
        [--rounds N] [--seconds S]

The first `./run.sh list` creates that environment. All figures of a row come from one run in which
the rivals take turns, because the machine's own speed drifts. A figure is the median of the rounds,
followed by the least and the most. The program prints the first two tables of docs/overhead.md.

There are three kinds of child process, each with at most one LoadGen test:
  harness    our callbacks, data set, answers and heartbeat around a SUT that does nothing
  alone      LoadGen and callbacks that complete every sample with one constant, nothing else
  turns      a real SUT: bare loop, LoadGen through the harness, bare loop again
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from formats.cell import Cell
from formats.job import Job, Limits, read_job
from formats.writing import write_json
from scenarios.table import SCENARIOS
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.qsl import Qsl
from scenarios.worker.warm_up import warm_up
from scenarios.worker.watch import Watch
from sut.contract import Batch
from sut.registry import load_module

ROOT = Path(__file__).resolve().parent.parent
_QSL = 1024
# So many queries that the start and the end of a test do not matter: 1–2 s of LoadGen each.
_QUERIES = {"SingleStream": 300_000, "Offline": 2_000_000}
_BUDGET_US = {"SingleStream": 3.0, "Offline": 0.5}
_TURNS = (
    (
        "mock, 10 ms of work",
        "--sut mock --scenario SingleStream --model bert --size tiny --sut-option latency-ms=10",
        0.999,
    ),
    (
        "keras3-jax mistral tiny",
        "--sut keras3-jax --scenario Offline --model mistral --size tiny --device cpu",
        0.99,
    ),
    (
        "native-torch-eager bert tiny",
        "--sut native-torch-eager --scenario SingleStream --model bert --size tiny --device cpu",
        0.99,
    ),
)
"""Name of a cell, its flags, and its least speed over that of the bare loop."""


class Nothing:
    """A SUT with prepared answers of the right shape, so that a query's time is only LoadGen's and
    ours.
    """

    in_flight = 1

    def __init__(self, batch_size: int):
        self.answers = {"logits": np.ones((batch_size, 2), np.float32)}

    def prepare(self, inputs: Batch) -> Batch:
        return inputs

    def predict(self, batch: Batch) -> Batch:
        return self.answers

    def to_host(self, outputs: Batch) -> Batch:
        return outputs


class Timed:
    """A SUT, and the nanoseconds spent inside it. The rest of a test's time is LoadGen's and ours.
    Unlike a ratio of two loops, this share does not change if the machine's speed drifts between
    them. It adds 0.3 µs a batch, outside of the SUT.
    """

    def __init__(self, sut: Any):
        self.sut = sut
        self.ns = 0
        self.in_flight = sut.in_flight

    def predict(self, batch: Batch) -> Any:
        start = time.perf_counter_ns()
        outputs = self.sut.predict(batch)
        self.ns += time.perf_counter_ns() - start
        return outputs

    def to_host(self, outputs: Any) -> Batch:
        start = time.perf_counter_ns()
        answers = self.sut.to_host(outputs)
        self.ns += time.perf_counter_ns() - start
        return answers


# Child processes


def child(kind: str, job_path: Path) -> None:
    job = read_job(job_path)
    result = {"harness": _harness, "alone": _alone, "turns": _turns}[kind](job)
    write_json(job.log_dir / "child.json", result)


def _harness(job: Job) -> dict[str, float]:
    sut = Nothing(job.workload.batch_size)
    qsl = Qsl(job.inputs, sut.prepare)
    _loadgen(job, sut, qsl)
    return {"bare_us": _bare_us(sut, job)}


def _bare_us(sut: Nothing, job: Job) -> float:
    """Return the microseconds a sample of `predict` and `to_host` of the SUT that does nothing."""
    size = job.workload.batch_size
    batch = {"x": np.zeros((size, 1))}
    calls = 200_000
    start = time.perf_counter_ns()
    for _ in range(calls):
        sut.to_host(sut.predict(batch))
    spent_ns = time.perf_counter_ns() - start
    return spent_ns / 1e3 / calls / size


def _alone(job: Job) -> dict[str, float]:
    import mlperf_loadgen as lg

    payload = np.ones((1, 2), np.float32)
    address = payload.ctypes.data
    size = payload.nbytes
    response = lg.QuerySampleResponse
    send = lg.QuerySamplesComplete

    def issue(ids: Sequence[int], indices: Sequence[int]) -> None:
        send([response(i, address, size) for i in ids])

    _run(job, Qsl(job.inputs, lambda inputs: inputs), issue, lambda: None)
    return {}


def _turns(job: Job) -> dict[str, float]:
    sut = load_module(job.sut, job.architecture).load(job.workload)
    warm_up(job, sut, Heartbeat(job.log_dir / "heartbeat"))
    seconds = job.limits.min_duration_ms / 1e3
    _bare_rate(job, sut, seconds / 2)  # the first seconds of a process are unlike the rest
    before = _bare_rate(job, sut, seconds)
    timed = Timed(sut)
    samples = _loadgen(job, timed, Qsl(job.inputs, sut.prepare), 1e9 / before)
    return {
        "before": before,
        "after": _bare_rate(job, sut, seconds),
        "inside_s": timed.ns / 1e9,
        "samples": samples,
    }


def _bare_rate(job: Job, sut: Any, seconds: float) -> float:
    """Return the samples a second of `predict` and `to_host`, in the order of the data set."""
    size = job.workload.batch_size
    qsl = Qsl(job.inputs, sut.prepare)
    batches = list(qsl.in_turn(size))
    calls = 0
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        sut.to_host(sut.predict(batches[calls % len(batches)]))
        calls += 1
    return calls * size / spent


def _loadgen(job: Job, sut: Any, qsl: Qsl, sample_ns: float = 1e3) -> int:
    """Run LoadGen, and return how many samples were answered."""
    from scenarios.worker import loadgen

    scenario = SCENARIOS[job.scenario].load()
    watch = Watch(_QUERIES[job.scenario], qsl.count)
    respond = loadgen.responder(Heartbeat(job.log_dir / "heartbeat"), watch)
    issue, flush = scenario.callbacks(sut, qsl, respond, job, watch)
    _run(job, qsl, issue, flush, sample_ns)
    return watch.samples


def _run(
    job: Job,
    qsl: Qsl,
    issue: Callable[..., None],
    flush: Callable[[], None],
    sample_ns: float = 1e3,
) -> None:
    """Run LoadGen with the harness' settings, for every caller."""
    from scenarios.worker import loadgen

    scenario = SCENARIOS[job.scenario].load()
    calibration = {"fastest_sample_ns": sample_ns, "median_sample_ns": sample_ns}
    conf = scenario.user_conf(job, calibration, in_flight=1)
    settings = loadgen.settings(job, conf)
    loadgen.write_user_conf(job, settings)
    loadgen.run(job, settings, qsl, issue, flush, trace=False)


# The parent


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=7, help="how often the rivals take turns (default 7)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="of each part with a real SUT (default 5)"
    )
    flags = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        print(
            "| our code over LoadGen alone and a SUT that does nothing | LoadGen alone | with the"
            " harness | our cost | goal |"
        )
        print("|---|---|---|---|---|")
        for scenario, batch in (("SingleStream", 1), ("Offline", 32), ("Offline", 1)):
            folder = Path(scratch, f"{scenario}-{batch}")
            print(_cost_row(folder, scenario, batch, flags.rounds), flush=True)
        print(
            "\n| LoadGen and the harness over a bare loop | bare loop | with LoadGen | ratio | time"
            " inside the SUT | goal |"
        )
        print("|---|---|---|---|---|---|")
        for name, words, goal in _TURNS:
            folder = Path(scratch, name.replace(" ", "-"))
            print(_ratio_row(folder, words.split(), name, goal, flags), flush=True)
    return 0


def _nothing_job(scratch: Path, scenario: str, batch: int) -> Job:
    """Return the job of a SUT that computes nothing."""
    np.savez(
        scratch / "inputs.npz",
        input_ids=np.ones((_QSL, 32), np.int32),
        attention_mask=np.ones((_QSL, 32), np.int32),
    )
    cell = Cell(
        sut="nothing",
        size="tiny",
        scenario=scenario,
        model="nothing",
        task="predict",
        precision="float32",
        batch_size=batch,
        device="cpu",
    )
    return Job(
        cell=cell,
        architecture="none",
        config={},
        checkpoint=scratch,
        backend=None,
        execution="eager",
        test="performance",
        benchmark="nothing-tiny",
        answer=("logits",),
        inputs=scratch / "inputs.npz",
        synthetic=scratch / "inputs.npz",
        warmup_rows=1,
        limits=Limits(
            min_duration_ms=1, min_query_count=_QUERIES[scenario], performance_sample_count=_QSL
        ),
        log_dir=scratch,
    )


def _cost_row(scratch: Path, scenario: str, batch: int, rounds: int) -> str:
    scratch.mkdir()
    job = _nothing_job(scratch, scenario, batch)
    alone: list[float] = []
    ours: list[float] = []
    cost: list[float] = []
    for turn in range(rounds):
        us: dict[str, float] = {}
        bare_us = 0.0
        for kind in sorted(("alone", "harness"), reverse=turn % 2 == 0):
            folder = scratch / f"{kind}-{turn}"
            its_job = dataclasses.replace(job, log_dir=folder)
            report = _child(kind, its_job, Path(sys.executable), {})
            us[kind] = 1e6 / _rate(folder, scenario)
            bare_us = report.get("bare_us", bare_us)
        alone.append(us["alone"])
        ours.append(us["harness"])
        cost.append(us["harness"] - us["alone"] - bare_us)
    unit = "query" if SCENARIOS[scenario].one_sample_a_query else "sample"
    figures = " | ".join(_spread(values, "µs") for values in (alone, ours, cost))
    return f"| {scenario}, batch {batch} | {figures} a {unit} | ≤ {_BUDGET_US[scenario]:g} µs |"


def _ratio_row(
    scratch: Path, cell: Sequence[str], name: str, goal: float, flags: argparse.Namespace
) -> str:
    """Return a row of the second table. The cell is measured first, to prepare its inputs and to
    check its answers. The turns then use its job.
    """
    from compliance.rules import CURRENT
    from harness.execution import environments
    from sut.registry import SUTS

    process = subprocess.run(
        [ROOT / "run.sh", *cell, "--duration", "1", "--out", scratch, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if not process.stdout:
        why = process.stderr.strip().splitlines()[-1]
        return f"| {name} | | | not measured: {why} | | ≥ {goal} |"
    result = json.loads(process.stdout)["cells"][0]
    if result["status"] != "ok":
        why = f"{result['status']}: {result['reason']}"
        return f"| {name} | | | not measured: {why} | | ≥ {goal} |"
    job = read_job(Path(result["directory"]) / "raw" / "performance" / "job.json")
    spec = SUTS[job.sut]
    environment = environments.ensure(
        ROOT / ".cache", spec.environment, "cpu", CURRENT, environments.say_on_stderr
    )
    limits = dataclasses.replace(
        job.limits, min_duration_ms=int(flags.seconds * 1e3), min_query_count=1
    )
    bare: list[float] = []
    ours: list[float] = []
    ratios: list[float] = []
    inside: list[float] = []
    for turn in range(flags.rounds):
        folder = scratch / f"turn-{turn}"
        its_job = dataclasses.replace(job, log_dir=folder, limits=limits)
        report = _child("turns", its_job, environment.python, spec.process_env)
        bare_rate = (report["before"] + report["after"]) / 2
        rate = _rate(folder, job.scenario)
        bare.append(bare_rate)
        ours.append(rate)
        ratios.append(rate / bare_rate)
        inside.append(report["inside_s"] * rate / report["samples"])
    columns = (_spread(bare, "/s"), _spread(ours, "/s"), _spread(ratios, ""), _spread(inside, ""))
    figures = " | ".join(columns)
    return f"| {name}, {job.scenario} | {figures} | ≥ {goal} |"


def _child(kind: str, job: Job, python: Path, process_env: Mapping[str, str]) -> dict[str, float]:
    job.log_dir.mkdir(parents=True)
    write_json(job.log_dir / "job.json", job)
    env = {**os.environ, **process_env, "PYTHONPATH": str(ROOT)}
    command = [str(python), "-P", __file__, "--child", kind, str(job.log_dir / "job.json")]
    subprocess.run(command, env=env, cwd=job.log_dir, check=True)
    return dict(json.loads((job.log_dir / "child.json").read_text(encoding="utf-8")))


def _rate(folder: Path, scenario: str) -> float:
    """Return the queries or samples a second of the whole test, with LoadGen's time between
    queries.
    """
    from compliance import logs

    key = "result_qps_with_loadgen_overhead"
    if SCENARIOS[scenario].one_query:
        key = "result_samples_per_second"
    return float(logs.read_detail(folder / "mlperf_log_detail.txt").get(key))


_DIGITS = {"µs": 2, "/s": 1, "": 4}
_UNIT = {"µs": " µs", "/s": "/s", "": ""}


def _spread(values: list[float], unit: str) -> str:
    """Return the median, and the least and the most in brackets. `unit`: a key of `_DIGITS`."""
    digits = _DIGITS[unit]
    middle = f"{statistics.median(values):,.{digits}f}"
    least = f"{min(values):,.{digits}f}"
    most = f"{max(values):,.{digits}f}"
    return f"{middle}{_UNIT[unit]} [{least}, {most}]"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
