"""Estimates of a run's cost before anything is prepared, from earlier runs of the cell or else by a
rule.
"""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path

import psutil

from formats import reading
from formats.cell import STANDARD_INPUTS, Cell, fields_with
from formats.job import Job
from formats.outcome import TOO_SHORT
from formats.result import Result, Status
from harness.execution import rundir
from harness.execution.loadgen_run import SHORT_TEST
from harness.execution.pins import Pin, is_made, words
from harness.inputs.dataset import digest_of
from harness.request.plan import is_uneven
from harness.request.request import LONGEST_TIMES, Request
from harness.request.serving import OFFICIAL_S, USUAL_TRIALS
from scenarios.offline import LEAST_BATCHES
from scenarios.table import SCENARIOS
from sut.devices import DEVICES
from sut.registry import spec_of

RULE = "no earlier run of this cell: by its size and how fast this machine multiplies"
# (seconds, bytes) to make an environment, and to start one worker with a framework. Roughly
# measured on two cores.
_ENVIRONMENT = {False: (150.0, 1_500_000_000), True: (300.0, 6_000_000_000)}
_STARTS, _FRAMEWORK_START = {"core": (1.0, 60_000_000)}, (8.0, 600_000_000)
_COMPILE_S_A_LAYER = {"eager": 0.05, "graph": 0.5, "xla": 0.7, "compile": 4.0, "runtime": 1.0}
# The share of the machine's rate that a model's matrix products reach. Products for one token are
# small.
_EFFICIENCY = 0.3
_GENERATING_EFFICIENCY = 0.15
_PARAMETERS_A_SECOND = 50e6  # to draw and write them
_COPIED_A_SECOND = 300e6  # bytes
_LOGS = {"quick": 3_000_000, "valid": 300_000_000, "submission": 600_000_000}
_LEAST_REQUESTS = 100  # of a trial of Server, about
_SETUP = ("waiting", "inputs", "checkpoint", "reference")
REFERENCE_BATCH = 32
"""The most inputs of a batch of a reference."""
_FORCED = 0.5  # the candidates' forward pass as a share of the time of generated answers
_COUNTING_S = 10.0
_SUMS = ("until_measuring", "total")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one measurement.

    Attributes:
        seconds: without the time for files that are made once.
        disk_bytes: size of its run directory.
        memory_bytes: most memory of its worker.
        basis: the origin of these figures, in words.
        once: things that are made once, such as `environment keras3-jax` → (seconds, bytes on
            disk).
    """

    seconds: float
    disk_bytes: int
    memory_bytes: int
    basis: str
    once: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def all_seconds(self) -> float:
        """The seconds, including all that is made once."""
        return self.seconds + sum(seconds for seconds, _ in self.once.values())


def of(request: Request) -> Cost:
    """The cost of one measurement of a cell. Reads files below --out and --cache, and
    writes none.
    """
    earlier = [
        r
        for r in earlier_results(request)
        if r.status is Status.OK and "total" in r.seconds and _alike(request, r.cell)
    ]
    if not earlier:
        return _by_rule(request)
    directories = [Path(result.directory) for result in earlier]
    count = (
        f"{len(earlier)} earlier run{'s' * (len(earlier) > 1)} of this cell below"
        f" {request.options.out}"
    )
    return Cost(
        seconds=statistics.median(_seconds_again(request, result) for result in earlier),
        disk_bytes=max(map(_bytes_below, directories)),
        memory_bytes=max(result.peak_host_bytes for result in earlier),
        basis=f"by {count}",
        once=dict(_environments(request)),
    )


def earlier_results(request: Request) -> Iterator[Result]:
    """The readable results of the cell in this mode below --out, with any inputs and weights."""
    for folder in sorted(request.options.out.glob(f"{request.cell().stem}*")):
        for attempt in rundir.attempts(folder, request.options.mode):
            try:
                result = reading.from_file(attempt / "result.json", Result)
            except (OSError, ValueError):
                continue
            if result.cell.device == request.device:
                yield replace(result, directory=str(attempt))  # it may have been moved


def _alike(request: Request, cell: Cell) -> bool:
    """Return whether a cell of the same name does as much work as the request. Its inputs and
    weights may differ.
    """
    wanted = request.cell()
    others = {"variables", *fields_with("inputs")}
    same = all(
        getattr(wanted, each.name) == getattr(cell, each.name)
        for each in fields(cell)
        if each.name not in others
    )
    own = cell.dataset not in STANDARD_INPUTS
    same_inputs = own if request.options.dataset else cell.dataset == wanted.dataset
    # --seq-len replaces this length.
    length = None if request.options.dataset else request.size.inputs.get("sequence_length")
    return same and same_inputs and (request.options.seq_len or length) in (None, cell.seq_len)


def _samples(request: Request) -> int:
    """The number of inputs."""
    return request.samples if request.trains else request.count or request.samples


def _seconds_again(request: Request, result: Result) -> float:
    """Return the seconds that a run would take again, without steps that are done once, and with
    the duration that is requested now.
    """
    kept = {
        k: s
        for k, s in result.seconds.items()
        if k not in (*_SETUP, *_SUMS) and not k.startswith(("environment ", "reference "))
    }
    if request.options.mode == "quick" and not request.trains:
        kept["performance"] = max(request.duration, 3e-3 * result.metrics.get("ms_per_step", 0))
    return sum(kept.values())


def _bytes_below(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _by_rule(request: Request) -> Cost:
    """Estimate the cost of a worker that starts, loads, compiles, and runs both tests. A training
    has one worker for each test.
    """
    spec = request.spec
    start_s, start_bytes = _STARTS.get(spec.environment, _FRAMEWORK_START)
    precision = request.precision
    weights = request.size.weight_bytes(precision) if spec.reads_weights else 0
    sample_s = _sample_seconds(request)
    layers = request.size.config.get("num_hidden_layers", 12)
    samples = _samples(request)
    limits = request.limits(samples)
    performance_s = max(
        limits.planned_ms / 1e3, limits.min_duration_ms / 1e3, limits.min_query_count * sample_s
    )
    trains = request.trains
    batch_size = request.batch_size
    if trains:  # one pass over all samples
        performance_s = samples * sample_s
    elif not SCENARIOS[request.options.scenario].one_sample_a_query:
        performance_s = max(performance_s, 3 * batch_size * sample_s)
    serving = request.serving
    if serving:
        performance_s = max(performance_s, _LEAST_REQUESTS * sample_s)
        if serving.rate is None:
            trial_s = performance_s if limits.quick else OFFICIAL_S
            performance_s += USUAL_TRIALS * trial_s
    worker_s = (
        start_s
        + weights / 200e6
        + layers * _COMPILE_S_A_LAYER.get(spec.execution, 1.0) * len(request.batch_sizes)
        + 2 * batch_size * sample_s
    )
    compliance_s = 0.0
    if request.options.mode == "submission" and not trains:
        # At most: whether a test applies follows from the answers' task.
        tests = [name for name in request.rules.compliance_tests if name != SHORT_TEST]
        compliance_s = len(tests) * performance_s
    workers = 2 if trains else 1
    answers_s = max(samples, batch_size) * sample_s
    return Cost(
        seconds=workers * worker_s
        + limits.calibration_seconds
        + performance_s
        + compliance_s
        + 1.5 * answers_s
        + 1,
        disk_bytes=_LOGS[request.options.mode],
        memory_bytes=int(
            start_bytes
            + 0.5 * weights
            + (request.state_bytes(precision) if weights else 0)
            + request.batch_bytes(precision)
        ),
        basis=RULE,
        once=dict(_made_once(request, weights)),
    )


def too_short(request: Request) -> str | None:
    """Return a sentence if a quick test takes longer than --duration allows: as an earlier run of
    the cell found, or by the rule. None: it does not.
    """
    if request.options.mode != "quick" or request.trains or request.serving or request.spec.remote:
        return None
    earlier = [r for r in earlier_results(request) if _alike(request, r.cell)]
    refused = [r.refused[TOO_SHORT] for r in earlier if TOO_SHORT in r.refused]
    if refused:
        needed_s = max(refused)
    elif earlier:
        return None
    else:
        needed_s = float(f"{_least_test_seconds(request) / LONGEST_TIMES:.2g}")
    duration = request.duration
    if needed_s <= duration:
        return None
    basis = "an earlier run" if refused else "an estimate"
    return (
        f"a quick {request.options.scenario} test takes at least"
        f" {LONGEST_TIMES * needed_s:.3g} s ({basis}), and --duration {duration:g}"
        f" allows {LONGEST_TIMES * duration:g} s: give --duration {needed_s:g}"
    )


def _least_test_seconds(request: Request) -> float:
    """Estimate the seconds of the shortest quick test. If inputs are uneven, it makes whole passes
    over them.
    """
    samples = _samples(request)
    least = 1
    if request.options.scenario == "Offline":
        least = LEAST_BATCHES * request.batch_size
    if request.end_tokens or is_uneven(request.options, request.model):
        whole = math.lcm(request.batch_size, samples)
        least = whole * math.ceil(least / whole)
    return least * _sample_seconds(request)


def _made_once(request: Request, weights: int) -> Iterator[tuple[str, tuple[float, int]]]:
    yield from _environments(request)
    stem = f"{request.model.name}-{request.size.name}"
    if (
        weights
        and not (request.weights or request.model.file)
        and not any((request.options.cache / "checkpoints").glob(f"{stem}-*"))
    ):
        drawing_s = request.size.parameters / _PARAMETERS_A_SECOND
        yield f"weights of {request.benchmark}", (drawing_s, weights)
    if weights and request.weights and request.weights.names:
        stored = request.size.weight_bytes(request.size.precision)
        yield "copy of the weights", (stored / _COPIED_A_SECOND, stored)
    reference_s = sum(_reference_seconds(request, name) for name in request.references)
    if reference_s:
        yield f"reference of {request.benchmark}", (reference_s, 1_000_000)


def _reference_seconds(request: Request, name: str) -> float:
    """The seconds that making a reference takes, by rule. 0 if there is one of these inputs and
    weights.
    """
    for path in request.options.cache.glob(f"references/{request.benchmark}-*/reference.npz"):
        try:
            job = reading.from_file(path.with_name("job.json"), Job)
        except (OSError, ValueError):
            continue
        if job.sut == name and _is_reference_of(request, job):
            return 0.0
    samples = _samples(request)
    start_s, _ = _STARTS.get(spec_of(name).environment, _FRAMEWORK_START)
    batch_size = request.batch_size if request.trains else min(REFERENCE_BATCH, samples)
    answers_s = samples * _sample_seconds(replace(request, batch_size=batch_size))
    if not request.trains and request.architecture.generates_tokens:
        return start_s + (1 + _FORCED) * answers_s + min(_COUNTING_S, answers_s)
    return start_s + answers_s


def _is_reference_of(request: Request, job: Job) -> bool:
    """Return whether a reference was made of the inputs and the weights of a request. The contents
    of weights are not read, so a folder is known by its path.
    """
    if request.given and digest_of(request.given.arrays)[:12] not in job.inputs.parent.name:
        return False
    if not request.weights:
        return True
    files = job.workload.checkpoint.glob("*.safetensors")
    return any(file.resolve().parent == request.weights.path.resolve() for file in files)


def _environments(request: Request) -> Iterator[tuple[str, tuple[float, int]]]:
    """Yield the environments that do not exist yet, with their costs."""
    if request.options.python:
        return
    for name in to_make(request):
        yield f"environment {name}", environment_cost(request.device)


def environment_cost(device: str) -> tuple[float, int]:
    """(seconds, bytes on disk) to make an environment for a device."""
    return _ENVIRONMENT[DEVICES[device].accelerator]


def to_make(request: Request) -> list[str]:
    """The environments of the SUT and its references that do not exist yet."""
    cache = request.options.cache
    own = request.spec.environment
    needed: list[tuple[str, tuple[Pin, ...]]] = [(own, request.pins)]
    needed += [(spec_of(name).environment, ()) for name in request.references]
    if request.options.python:
        needed = [each for each in needed[1:] if each[0] != own]
    lacking = []
    for name, pins in dict.fromkeys(needed):
        is_core = name == "core" and not pins  # it runs this program
        if not is_core and not is_made(cache, name, request.device, pins):
            lacking.append(f"{name} with {words(pins)}" if pins else name)
    return lacking


def _sample_seconds(request: Request) -> float:
    """The seconds of one sample in a batch. On an accelerator they are not known, and tiny compared
    with the rest.

    A model that generates reads its weights once for each new token of a batch. That may take
    longer than computing.
    """
    if DEVICES[request.device].accelerator or not request.spec.reads_weights:
        return 1e-3
    size = request.size
    least_flops = request.architecture.least_flops
    trains = request.trains
    given = request.given.arrays if request.given and not trains else {}
    flops = size.weight_bytes("float32") / 2 * size.inputs.get("sequence_length", 1)
    if least_flops:
        flops = least_flops(size, given or request.architecture.synthetic(size, 1, 0))
    if trains:  # forward and backward; with LoRA the weights have no gradients
        flops *= 2 if request.lora else 3
    generated = 0 if trains else size.inputs.get("new_tokens", 0)
    if "max_new_tokens" in given:
        generated = given["max_new_tokens"].mean()
    computing_s = (
        flops / flops_per_second() / (_GENERATING_EFFICIENCY if generated else _EFFICIENCY)
    )
    return float(
        max(
            computing_s,
            generated
            * size.weight_bytes(request.precision)
            / bytes_per_second()
            / request.batch_size,
        )
    )


@cache
def flops_per_second() -> float:
    """Measure how fast this machine multiplies float32 matrices, in floating-point operations a
    second: the best of three products.
    """
    import numpy as np

    matrix = np.ones((1024, 1024), np.float32)
    return 2 * 1024**3 / _best_s(lambda: matrix @ matrix)


@cache
def bytes_per_second() -> float:
    """Measure how fast this machine multiplies a matrix by a vector, as for one new token, in bytes
    of the matrix a second: the best of three products.
    """
    import numpy as np

    matrix = np.ones((8192, 4096), np.float32)
    vector = np.ones(4096, np.float32)
    return matrix.nbytes / _best_s(lambda: matrix @ vector)


def _best_s(call: Callable[[], object]) -> float:
    """The seconds of the fastest of three calls."""
    return min(timeit.repeat(call, repeat=3, number=1))


def disk_shortage(request: Request) -> str | None:
    """Return a sentence if a run's files would not fit on the disk of --out. None: they fit."""
    need_bytes = of(request).disk_bytes
    out = request.options.out
    folder = next(path for path in (out, *out.parents) if path.exists())
    free_bytes = psutil.disk_usage(str(folder)).free
    if need_bytes <= free_bytes:
        return None
    return (
        f"--out {out}: the files of this run need about {need_bytes / 1e6:,.0f} MB and"
        f" {free_bytes / 1e6:,.0f} MB are free: free some space, or choose another --out"
    )


def together(costs: Iterable[Cost]) -> Cost:
    """The cost of all, one after the other. Seconds and bytes on disk add up, things that are made
    once count once, and memory is the largest.
    """
    costs = list(costs)
    once = {name: value for cost in costs for name, value in cost.once.items()}
    return Cost(
        seconds=sum(cost.seconds for cost in costs),
        disk_bytes=sum(cost.disk_bytes for cost in costs),
        memory_bytes=max((cost.memory_bytes for cost in costs), default=0),
        basis="; ".join(dict.fromkeys(cost.basis for cost in costs)),
        once=once,
    )
