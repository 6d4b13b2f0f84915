"""A run directory → its result, by the facts of this harness about models."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from compliance import audit as audits
from compliance import sources
from compliance.derived import Harness
from compliance.findings.verdict import Audit
from compliance.logs import files
from compliance.scoring.accuracy import Accuracy
from compliance.sources import Sources
from compliance.training import losses, run_directory
from formats.record import Record
from formats.result import Result
from harness.comparison.runs import find
from harness.comparison.tables import table
from harness.execution import machine
from harness.execution.environments import ADOPTED
from harness.inputs import architectures, models
from harness.submission import inference
from results import derive as deriving
from results.derive import Configuration
from sut.registry import SUTS, recorded_names

__all__ = ["HARNESS", "derive", "find", "table"]


def derive(
    directory: Path,
    record: Record | None = None,
    score: Accuracy | str | None = None,
    audit: Audit | None = None,
) -> Result:
    """The result of a run directory, only from its files. An earlier result.json is not read.

    Args:
        record: record.json, if it is known; None: it is read.
        score: the accuracy, if it has just been computed; None: it is computed from the logs.
        audit: the audit of the directory without its result.json, if there is one already; None:
            the directory is audited.

    Raises OSError or ValueError if record.json is missing or contains no record.
    """
    with files.confined(directory.absolute()):
        if record is None:
            record = files.record(directory / "record.json")
        found = sources.read(directory, record, "")
        if not found.finished:
            return of(found, Audit(record.round, (), ()))
        if score is None and found.trains:
            score = losses.stated(run_directory.read(directory))
        elif score is None:
            score = inference.score(directory, record, inference.answers(directory))
        if audit is None:
            audit = audits.audit(directory, record.round, with_result=False)
        return of(replace(found, score=score), audit)


def of(found: Sources, audit: Audit) -> Result:
    """The result of a run. `audit`: that of its directory without its result.json."""
    counts_most = architectures.counts_most(found.record.architecture)
    return deriving.result(found, Configuration(adopted=ADOPTED, counts_most=counts_most), audit)


_FLAGS = {"--sut": "sut", "--scenario": "scenario", "--size": "size", "--precision": "precision"}
"""Flag of a single cell → its field."""


Fact = tuple[str, tuple[Any, Any]]
"""A field of record.json, with its value and the one that follows."""


def facts(found: Sources) -> Iterator[Fact]:
    """Yield what the registry says of the SUT, and the models of a run with seeded weights."""
    record = found.record
    job = found.job
    cell = record.cell
    yield from _of_the_command(record)
    yield from _of_the_sut(record)
    own = record.digests.weights_source == "user" or cell.size == "user"
    if job is None or own or cell.model not in models.names():
        return
    sizes = models.load(cell.model, None if found.trains else cell.task).sizes
    size = sizes.get(cell.size)
    if size is None:
        yield "cell.size", (cell.size, f"one of {', '.join(sizes)}")
        return
    config = _without_steps(job.workload.config.get("model", {}))
    if config != _without_steps(size.config):
        fitting = [name for name, each in sizes.items() if config == _without_steps(each.config)]
        yield "cell.size", (cell.size, " or ".join(fitting) or "no size of this model")
    yield "parameters", (record.parameters, size.parameters or None)
    yield "model_facts", (record.model_facts, size.facts)


def _of_the_command(record: Record) -> Iterator[Fact]:
    """Yield the flags of the recorded command that say what the cell does."""
    cell = record.cell
    options = []
    for flag, word in pairwise(shlex.split(record.command)):
        if flag in _FLAGS:
            yield f"command: {flag}", (word, getattr(cell, _FLAGS[flag]))
        elif flag == "--sut-option":
            options.append(word.partition("=")[0])
    unknown = sorted({*options} - {*cell.options})
    yield "command: --sut-option", (unknown, [])


def _of_the_sut(record: Record) -> Iterator[Fact]:
    """Yield the environment of the SUT and its first package, without which it computes nothing."""
    environment = record.environment
    spec = SUTS.get(record.cell.sut)
    if spec is None:
        return
    name = environment.name.partition(" with ")[0]
    if not name.endswith(ADOPTED):
        yield "environment.name", (name, spec.environment)
    for first in spec.packages[:1]:
        if environment.versions and not recorded_names([first], environment.versions):
            yield "environment.versions", ("other packages", f"{first} among them")


def _without_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a model without the steps of denoising, which --steps changes."""
    return {key: value for key, value in config.items() if key != "denoising_steps"}


HARNESS = Harness(result=of, facts=facts, revision=machine.revision)
"""What the audit of a run directory needs of this harness."""
