"""System description, measurements.json, model mapping, source folder, record: JSON Schema, and what a schema cannot say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from compliance import files
from compliance.check import Check, judge, manual, not_applicable
from compliance.tree import Subject

_SCHEMAS = Path(__file__).parent / "schemas"


def checks(s: Subject) -> list[Check]:
    layout, place = s.rules.layout, s.place
    system = place.show(place.submitter_folder / layout.system.format(system=place.system))
    measured = place.show(place.folder / "measurements.json")
    mapping = place.show(place.submitter_folder / layout.model_mapping)
    return [
        judge(
            "system description",
            [*_schema(s, s.system, "system", system), *_names(s)],
            "all fields, and of this submitter",
            source="F1",
            file=system,
        ),
        judge("measurements.json", _schema(s, s.measurements, "measurements", measured), "all five fields", source="F2", file=measured),
        judge("model mapping", _mapping(s, mapping), f"{place.benchmark} → {s.official}", source="F5", file=mapping),
        judge("source folder", _source(s), "there, and not empty", source="F4", file=place.show(_source_folder(s))),
        judge(
            "submitted source",
            _submitted_source(s),
            "the one that ran" if place.run else "there is a program",
            level="submission",
            source="F4",
            file=place.show(_source_folder(s)),
            fix="measure it with --mode submission, which puts the source there",
        ),
        _record(s),
        eligibility(s),
    ]


def faults_of(value: Any, schema: str) -> list[str]:
    """Each violation as one sentence, the first twenty."""
    errors = sorted(_validator(schema).iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
    return [_sentence(e) for e in errors[:20]]


def _sentence(error: ValidationError) -> str:
    """A schema's own description says more than "does not match"."""
    where = ".".join(map(str, error.absolute_path)) or "the document"
    rule = error.schema.get("description") if isinstance(error.schema, dict) else None
    return f"{where}: {error.message[:160]}" + (f" ({rule})" if rule and error.absolute_path else "")


@cache
def _validator(schema: str) -> Draft202012Validator:
    document = json.loads((_SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def _schema(s: Subject, value: dict[str, Any] | None, schema: str, file: str) -> list[str]:
    return [s.faults.get(file, f"{file} is missing")] if value is None else faults_of(value, schema)


def _names(s: Subject) -> Iterator[str]:
    """Submitter and division of the description are the folders', letter case aside."""
    for key, want in (("submitter", s.place.submitter_folder.name), ("division", s.place.division)):
        found = (s.system or {}).get(key)
        if s.system is not None and str(found).lower() != want.lower():
            yield f"{key} is {found!r}; the folder is {want}"


def _mapping(s: Subject, file: str) -> Iterator[str]:
    if s.place.division == "open" or s.mapping is not None:
        yield from _schema(s, s.mapping, "model_mapping", file)
    known = s.rules.benchmarks
    if s.official not in known:
        yield f"{s.place.benchmark} is mapped to {s.official}; the rules of {s.rules.round} here have {', '.join(known)}"


def _source_folder(s: Subject) -> Path:
    return s.place.submitter_folder / s.rules.layout.source.format(benchmark=s.place.benchmark)


def _source(s: Subject) -> Iterator[str]:
    if not any(path.is_file() and path.stat().st_size for path in files.under(_source_folder(s))):
        yield "it holds no file that says anything"


def _submitted_source(s: Subject) -> Iterator[str]:
    """Beside record.json it must be what the worker ran; a bare submission must hold more than text."""
    folder = _source_folder(s)
    if not any(path.is_file() and path.suffix not in (".md", ".txt", ".adoc") for path in files.under(folder)):
        yield "it holds no program, only text"
    elif s.place.run is not None:
        digest, fault = files.attempt(files.source_digest, folder)
        if digest != s.recorded("git", "worker_source_sha256"):
            yield fault or f"its scenarios/ and sut/ have sha256 {digest}; record.json says {s.recorded('git', 'worker_source_sha256')} ran"


def _record(s: Subject) -> Check:
    if s.place.run is None:
        return not_applicable("record.json", "a submission without a run directory around it", source="D3")
    return judge("record.json", _schema(s, s.record, "record", "record.json"), "complete", source="D3", file="record.json")


def eligibility(s: Subject) -> Check:
    """I1: what keeps this from being an MLPerf submission. A finding for people; it never fails a level."""
    reasons = list(_ineligible(s))
    if not reasons:
        return manual(
            "eligibility", "data set, model and review are for people to judge; unverified by MLCommons until they have", source="I1"
        )
    return manual("eligibility", f"not eligible as an MLPerf submission because {'; '.join(reasons)}", source="I1")


def _ineligible(s: Subject) -> Iterator[str]:
    d = s.performance.detail
    if s.recorded("qsl", "synthetic"):
        yield "its inputs are synthetic"
    if s.recorded("digests", "weights_source") == "seeded" or s.recorded("cell", "weights") == "seeded":
        yield "its weights are random"
    if (size := s.recorded("cell", "size")) and size not in ("full", "own"):
        yield f"the model is the {size} one"
    if s.recorded("cell", "sut") == "mock":
        yield "the SUT is a mock"
    if s.recorded("mode") == "quick":
        yield "it is a quick run"
    if official := s.rules.benchmarks.get(s.official or ""):
        if d.get("effective_performance_sample_count") != official.performance_sample_count:
            loaded = d.get("effective_performance_sample_count")
            yield f"{loaded} samples are loaded and {s.official} has {official.performance_sample_count}"
        if s.accuracy.detail.get("effective_accuracy_sample_count") != official.dataset_size:
            yield (
                f"the accuracy test takes {s.accuracy.detail.get('effective_accuracy_sample_count')} samples and {s.official} has "
                f"{official.dataset_size}"
            )
        if s.accuracy_text is not None and not any(re.match(official.accuracy_pattern, line) for line in s.accuracy_text.splitlines()):
            yield f"accuracy.txt has no line of the metric of {s.official}"
        if official.token_latencies and not d.get("effective_use_token_latencies"):
            yield f"token latencies are not measured, which {s.official} asks for"
    if s.place.run is not None:
        yield "its accuracy is judged against a reference of the same weights, not by the benchmark's own metric"
