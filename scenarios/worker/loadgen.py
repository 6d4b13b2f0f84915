"""The only module that imports mlperf_loadgen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_char
from itertools import repeat
from time import perf_counter_ns

import mlperf_loadgen as lg
import numpy as np

from formats.figures import TOKEN_BYTES
from formats.job import ACCURACY, Job, Settings
from scenarios.table import SCENARIOS
from scenarios.worker import failures
from scenarios.worker.heartbeat import COMPLETED, Heartbeat
from scenarios.worker.queries.answers import Ids, Indices, Payload
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Responder
from scenarios.worker.watch import Watch

_OPEN_ONLY = {
    "use_token_latencies": ("use_token_latencies", 1),
    "ttft_latency": ("ttft_latency", 1_000_000),
    "tpot_latency": ("tpot_latency", 1_000_000),
}
"""Key of user.conf that makes a result eligible only for the open division
(test_settings_internal.cc) → LoadGen's attribute, and its units in one unit of the key.
"""
_LIMITS = {
    "target_latency": "server_target_latency_ns",
    "ttft_latency": "ttft_latency",
    "tpot_latency": "tpot_latency",
}
"""Server's keys of user.conf that LoadGen reads as whole milliseconds: a fraction is cut off
(test_settings_internal.cc) → LoadGen's attribute, in nanoseconds.
"""


_MISFIT = (
    "the SUT answered {height} rows of {stride} bytes for {count} samples, or counts more tokens"
    " than a row has"
)


def responder(
    heartbeat: Heartbeat, watch: Watch, dry: bool = False, counts_tokens: bool = False
) -> Responder:
    """Return the functions that report first tokens and complete answers. Each completes the
    samples of a batch in one call.

    With `dry` it builds the responses and sends none (calibration). With `counts_tokens` LoadGen
    also gets the number of tokens of each answer.

    The time between a SUT's answer and LoadGen's clock is spent here, mostly with cold caches. So
    every attribute look-up costs time.
    """
    send: Callable[..., object] = _nothing if dry else lg.QuerySamplesComplete
    response = lg.QuerySampleResponse
    from_buffer = c_char.from_buffer
    cells = heartbeat.cells
    append_time = watch.times.append
    append_indices = watch.indices.extend
    next_kept = watch.next_kept

    def complete(ids: Ids, payload: Payload, indices: Indices) -> None:
        nonlocal next_kept
        rows, lengths = payload
        count = len(ids)
        height = len(rows)
        stride = rows.nbytes // height if height else 0
        if height < count or not stride or not _fit(lengths, count, stride):
            raise ValueError(_MISFIT.format(height=height, stride=stride, count=count))
        try:
            # An array is a buffer, but numpy's stubs do not declare it.
            start = addressof(from_buffer(rows))  # type: ignore[arg-type]
        # The array is read-only, or not C-contiguous. This takes five times as long.
        except TypeError:
            rows = np.ascontiguousarray(rows)
            start = rows.ctypes.data
        if count == 1:  # a shorter way for SingleStream and batches of one
            sent = stride if lengths is None else lengths[0]
            if counts_tokens:
                send([response(ids[0], start, sent, sent // TOKEN_BYTES)])
            else:
                send([response(ids[0], start, sent)])
        else:
            sent = count * stride if lengths is None else sum(lengths[:count])
            columns = [ids, range(start, start + count * stride, stride), lengths or repeat(stride)]
            if counts_tokens and lengths is not None:
                columns.append([length // TOKEN_BYTES for length in lengths])
            send(list(map(response, *columns)))
        append_indices(indices)
        append_time(perf_counter_ns())
        watch.payload_bytes += sent
        completed = cells[COMPLETED] + count
        cells[COMPLETED] = completed
        if next_kept < completed:
            next_kept = watch.keep(rows, lengths, count)

    return Responder(complete, _first(dry))


def _fit(lengths: Sequence[int] | None, count: int, stride: int) -> bool:
    """Whether there is a length for each sample, and none is more than a row has."""
    return lengths is None or (len(lengths) >= count and max(lengths) <= stride)


def _first(dry: bool) -> Callable[[Ids, np.ndarray], None]:
    """The function that reports first tokens."""
    send: Callable[..., object] = _nothing if dry else lg.FirstTokenComplete
    response = lg.QuerySampleResponse

    def first(ids: Ids, tokens: np.ndarray) -> None:
        start = tokens.ctypes.data
        starts = range(start, start + tokens.nbytes, TOKEN_BYTES)
        send([response(each, at, TOKEN_BYTES) for each, at in zip(ids, starts, strict=True)])

    return first


def _nothing(responses: object) -> None:
    """Send no response."""


def settings(job: Job, conf: Settings) -> Settings:
    """The settings of the whole user.conf. `conf` is the scenario's part of it.

    Duration and counts are always stated, because LoadGen's embedded configuration has its own for
    names that it knows. A key of the open division is stated only if it changes that configuration.
    """
    embedded = test_settings(job)
    limits = job.limits
    values = {
        "min_duration": limits.min_duration_ms,
        "min_query_count": limits.min_query_count,
        "performance_sample_count_override": limits.performance_sample_count,
        "sample_concatenate_permutation": int(limits.equal_issue),
        "use_token_latencies": int(job.stream),
        **conf,
    }
    for key, (name, units) in _OPEN_ONLY.items():
        if key in values and values[key] * units == getattr(embedded, name):
            del values[key]
    return values


def _logged_as(job: Job) -> str:
    """LoadGen's name of the scenario."""
    scenario = SCENARIOS[job.scenario]
    return scenario.logged_as or scenario.name


def write_user_conf(job: Job, values: Settings) -> None:
    """Write user.conf into the job's folder: one `model.scenario.key = value` a line.

    A limit of Server with a fraction of a millisecond has no line, because LoadGen would read
    another number. Only a quick test has such a limit, and `run` sets it.
    """
    lines = []
    for key, value in values.items():
        if float(value).is_integer():
            value = int(value)
        elif key in _limits(job):
            continue
        lines.append(f"{job.benchmark}.{_logged_as(job)}.{key} = {value}\n")
    (job.log_dir / "user.conf").write_text("".join(lines), encoding="utf-8")


def _limits(job: Job) -> Mapping[str, str]:
    """`_LIMITS` if the scenario has them."""
    return _LIMITS if SCENARIOS[job.scenario].serves else {}


def write_audit_config(job: Job) -> None:
    """Write audit.config if the job is a compliance test. Other tests must have none."""
    if job.audit:
        job.audit_config.write_text(
            "".join(f"*.*.{key} = {value}\n" for key, value in job.audit.items()), encoding="utf-8"
        )


def test_settings(job: Job) -> lg.TestSettings:
    """LoadGen's embedded settings of the benchmark, which have the seeds of the round."""
    settings = lg.TestSettings()
    settings.FromConfig("", job.benchmark, _logged_as(job), 0)
    return settings


def run(
    job: Job,
    values: Settings,
    qsl: Qsl,
    issue: Callable[..., None],
    flush: Callable[[], None],
    trace: bool,
) -> None:
    """Run one LoadGen test that writes into job.log_dir. A process may run several, one after
    another, unless a callback raised an error.

    `values`: the settings of user.conf, and limits of Server that it can't state.

    Raises ValueError for a user.conf that LoadGen rejects, and any error of a callback.
    """
    settings = test_settings(job)
    # FromConfig of a user.conf would read LoadGen's embedded configuration first, but only once in
    # a process. Type 2 is a file without it (test_settings_internal.cc).
    user_conf = str(job.log_dir / "user.conf")
    if code := settings.FromConfig(user_conf, job.benchmark, _logged_as(job), 2):
        raise ValueError(f"user.conf: LoadGen's return code {code}")
    for key, name in _limits(job).items():
        if key in values:
            setattr(settings, name, round(values[key] * 1e6))
    settings.scenario = getattr(lg.TestScenario, _logged_as(job))
    settings.mode = (
        lg.TestMode.AccuracyOnly if job.test == ACCURACY else lg.TestMode.PerformanceOnly
    )
    log = lg.LogSettings()
    log.log_output.outdir = str(job.log_dir)
    log.enable_trace = trace
    callbacks = [failures.reported(job, callback) for callback in (issue, flush)]
    sut = lg.ConstructFastSUT(*callbacks)
    library = lg.ConstructQSL(qsl.count, job.limits.performance_sample_count, qsl.load, qsl.unload)
    lg.StartTestWithLogSettings(sut, library, settings, log, str(job.audit_config))
    lg.DestroyQSL(library)
    lg.DestroySUT(sut)
