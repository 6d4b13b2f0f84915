"""The only module that imports mlperf_loadgen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_char
from itertools import repeat
from time import perf_counter_ns

import mlperf_loadgen as lg
import numpy as np

from formats.job import ACCURACY, Job
from scenarios.worker.answers import Payload
from scenarios.worker.heartbeat import COMPLETED, Heartbeat
from scenarios.worker.qsl import Qsl
from scenarios.worker.watch import Watch


def responder(
    heartbeat: Heartbeat, watch: Watch, dry: bool = False
) -> Callable[[Sequence[int], Payload, Sequence[int]], None]:
    """Return a function of (ids, payload, indices of the samples). It completes each sample of a
    batch once, in one call.

    With `dry` it builds the responses and sends none (calibration).

    The time between a SUT's answer and LoadGen's clock is spent here, mostly with cold caches. So
    every attribute look-up costs time.
    """
    send: Callable[..., object] = (lambda responses: None) if dry else lg.QuerySamplesComplete
    response, cells, from_buffer = lg.QuerySampleResponse, heartbeat.cells, c_char.from_buffer
    append_time, append_index, append_indices = (
        watch.times.append,
        watch.indices.append,
        watch.indices.extend,
    )
    next_kept = watch.next_kept

    def complete(ids: Sequence[int], payload: Payload, indices: Sequence[int]) -> None:
        nonlocal next_kept
        rows, lengths = payload
        count, height = len(ids), len(rows)
        stride = rows.nbytes // height if height else 0
        if (
            height < count
            or not stride
            or (lengths is not None and (len(lengths) < count or max(lengths) > stride))
        ):
            raise ValueError(
                f"the SUT answered {height} rows of {stride} bytes for {count} samples, or counts"
                " more tokens than a row has"
            )
        try:
            # An array is a buffer, but numpy's stubs do not declare it.
            start = addressof(from_buffer(rows))  # type: ignore[arg-type]
        # The array is read-only, or not C-contiguous. This is the general way, and takes five times
        # as long.
        except TypeError:
            rows = np.ascontiguousarray(rows)
            start = rows.ctypes.data
        if count == 1:  # a shorter way for SingleStream and batches of one
            sent = stride if lengths is None else lengths[0]
            send([response(ids[0], start, sent)])
            append_index(indices[0])
        else:
            sent = count * stride if lengths is None else sum(lengths[:count])
            sizes = repeat(stride) if lengths is None else lengths
            send(list(map(response, ids, range(start, start + count * stride, stride), sizes)))
            append_indices(indices)
        append_time(perf_counter_ns())
        watch.payload_bytes += sent
        completed = cells[COMPLETED] + count
        cells[COMPLETED] = completed
        if next_kept < completed:
            next_kept = watch.keep(rows, lengths, count)

    return complete


def settings(job: Job, conf: Mapping[str, float]) -> dict[str, float]:
    """The settings of the whole user.conf. `conf` is the scenario's part of it.

    Duration and counts are always stated, because LoadGen's embedded configuration has its own for
    names that it knows.
    """
    return {
        "min_duration": job.limits.min_duration_ms,
        "min_query_count": job.limits.min_query_count,
        "performance_sample_count_override": job.limits.performance_sample_count,
        "sample_concatenate_permutation": int(job.limits.equal_issue),
        **conf,
    }


def write_user_conf(job: Job, values: Mapping[str, float]) -> None:
    """Write user.conf into the job's folder: one `model.scenario.key = value` a line."""
    text = "".join(
        f"{job.benchmark}.{job.scenario}.{key} = {value}\n" for key, value in values.items()
    )
    (job.log_dir / "user.conf").write_text(text, encoding="utf-8")


def write_audit_config(job: Job) -> None:
    """Write audit.config if the job is a compliance test. Other tests must have none."""
    if job.audit:
        job.audit_config.write_text(
            "".join(f"*.*.{key} = {value}\n" for key, value in job.audit.items()), encoding="utf-8"
        )


def run(
    job: Job, qsl: Qsl, issue: Callable[..., None], flush: Callable[[], None], trace: bool
) -> None:
    """Run one LoadGen test that writes into job.log_dir. A process may run several, one after
    another, unless a callback raised an error.

    Raises ValueError for a user.conf that LoadGen rejects, and any error of a callback.
    """
    settings = lg.TestSettings()
    # FromConfig of a user.conf reads LoadGen's embedded configuration first, but only once in a
    # process. So both are read here: type 0 is the embedded one, and type 2 a file without it
    # (test_settings_internal.cc). The settings are the same.
    for path, kind in (("", 0), (str(job.log_dir / "user.conf"), 2)):
        if code := settings.FromConfig(path, job.benchmark, job.scenario, kind):
            raise ValueError(f"user.conf: LoadGen's return code {code}")
    settings.scenario = getattr(lg.TestScenario, job.scenario)
    settings.mode = (
        lg.TestMode.AccuracyOnly if job.test == ACCURACY else lg.TestMode.PerformanceOnly
    )
    log = lg.LogSettings()
    log.log_output.outdir = str(job.log_dir)
    log.enable_trace = trace
    sut = lg.ConstructFastSUT(issue, flush)
    library = lg.ConstructQSL(qsl.count, job.limits.performance_sample_count, qsl.load, qsl.unload)
    lg.StartTestWithLogSettings(sut, library, settings, log, str(job.audit_config))
    lg.DestroyQSL(library)
    lg.DestroySUT(sut)
