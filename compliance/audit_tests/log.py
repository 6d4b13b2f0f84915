"""Judges the logs of a compliance test like those of the performance run, by the rules that do not
depend on audit.config.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compliance.checks.logs import duration, latencies, validity
from compliance.checks.logs import trace as checks_of_trace
from compliance.checks.submission import layout
from compliance.logs import files
from compliance.logs import trace as traces
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault, Faults

_TRACE = "mlperf_log_trace.json.gz"


def faults(test: LoadGenRun, subject: Subject) -> Faults:
    """Yield the faults of a test's logs and, in a run directory, of its trace.

    If the performance run has a trace, the test must have one too.
    """
    as_run = replace(subject, performance=replace(test, name="performance"))
    yield from _of(
        [
            *layout.of_test(as_run.performance, as_run),
            validity.error_lines(as_run.performance, as_run),
            *latencies.checks(as_run),
            validity.parts(as_run),
            duration.performance(as_run),
            validity.early_stopping(as_run),
        ]
    )
    raw = subject.place.raw(test.name)
    if raw is None or subject.trace is None:
        return
    trace, fault = files.attempt(traces.read, raw / _TRACE)
    if trace is None:
        yield f"{subject.place.show(raw / _TRACE)}: {fault}; the performance run has its trace"
        return
    traced = replace(as_run, trace=trace, trace_file=subject.place.show(raw / _TRACE))
    yield from _of(checks_of_trace.checks(traced))


def _of(checks: list[Check]) -> Iterator[Fault]:
    for check in checks:
        name = check.name.removeprefix("performance ")
        for fault in check.faults:
            yield replace(fault, text=f"{name}: {fault.text}")
