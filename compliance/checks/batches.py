"""Whether Offline was measured on whole batches: one with padding costs as much as a full one and counts for less."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings.check import Check, Fault, judge, not_applicable
from compliance.loadgen import counts
from compliance.subject import Subject

_ID = "whole-batches"
# The least number of batches of a quick run. A round asks for far more.
_LEAST = 3


def checks(subject: Subject) -> list[Check]:
    """The one check of batches. It says how much padding there was, and fails a quick run that has any."""
    samples, batches = counts.batches(subject.performance.detail, subject.scenario, subject.recorded("cell", "batch_size"))
    file = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    where = {"file": file, "fix": "measure again: the harness chooses whole batches by itself"}
    if subject.scenario != "Offline" or subject.record is None:
        why = f"{subject.scenario} has none" if subject.record is not None else "no record says what the batch size is"
        return [not_applicable(_ID, why, **where)]
    if samples is None or batches is None:
        return [judge(_ID, ["the number of samples or the batch size is missing"], "", **where)]
    rows = batches * int(subject.recorded("cell", "batch_size"))
    padding = (rows - samples) / rows
    summary = f"{samples} samples in {batches} batches, " + (f"{padding:.2%} of their rows padding" if padding else "no padding")
    faults = _faults(samples, batches, rows) if subject.recorded("mode") == "quick" else ()
    return [judge(_ID, faults, summary, **where)]


def _faults(samples: int, batches: int, rows: int) -> Iterator[Fault]:
    if samples != rows:
        text = f"{samples} samples are no whole number of batches: {rows - samples} of the {rows} rows of {batches} batches are padding"
        yield Fault(text, str(rows), str(samples))
    if batches < _LEAST:
        yield Fault(f"a figure of {batches} batch(es); a quick run has {_LEAST} at least", f"at least {_LEAST}", str(batches))
