"""The checks of a submission's documents: system description, measurements.json, model mapping,
README, source, record.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from compliance.findings.check import (
    differs,
    judge,
    manual,
    mismatch,
    not_applicable,
    quoted,
    shorten,
)
from compliance.logs import files, strict_json
from compliance.subject import Subject
from formats import schemas
from formats.checks import Check, Checks, Fault, Faults

_SCHEMAS = Path(__file__).parents[2] / "schemas"
_RETRAINED = "submit a retrained model to the open division"
# The most errors of one document that are read. A document with more is wrong throughout.
_MOST_ERRORS = 1000
_TEXTS = (".md", ".txt", ".adoc", ".rst", ".pdf")
_NO_PROGRAMS = (
    "license",
    "licence",
    "copying",
    "notice",
    "readme",
    "authors",
    "changelog",
    "version",
)
_NOT_RETRAINED = ("no", "none", "n/a", "na")
_CALIBRATION = (
    "calibration.md",
    "calibration.adoc",
    "documentation/calibration.md",
    "documentation/calibration.adoc",
)
_NETWORK_SUT = "Network SUT"


def checks(subject: Subject) -> Checks:
    """The checks of all documents, by their JSON Schemas and by rules that a schema cannot
    express.
    """
    place = subject.place
    system = subject.system_file
    measurements = subject.measurements_file
    source = place.show(_source_folder(subject))
    ran = "the source that ran" if place.run else "there is a program"
    return [
        judge(
            "system-description",
            [*_schema(subject, subject.system, "system", system), *_names(subject)],
            "all fields, and this submitter",
            system,
        ),
        judge(
            "measurements-json",
            _schema(subject, subject.measurements, "measurements", measurements),
            "all five fields",
            measurements,
        ),
        *_of_division(subject),
        judge(
            "readme",
            _readme(subject),
            "it is not blank",
            place.show(place.measurements / "README.md"),
        ),
        judge(
            "model-mapping",
            _mapping(subject, subject.mapping_file),
            f"{place.benchmark} → {subject.official}",
            subject.mapping_file,
        ),
        judge("source-folder", _source(subject), "there, and not empty", source),
        judge("submitted-source", _submitted_source(subject), ran, source),
    ]


def faults_of(value: Any, schema: str) -> list[Fault]:
    """List the violations of a schema by a JSON value: the first twenty faults, sorted by their
    places.
    """
    errors = sorted(
        islice(_validator(schema).iter_errors(value), _MOST_ERRORS),
        key=lambda e: list(map(str, e.absolute_path)),
    )
    return [_fault(e) for e in errors[:20]]


def _fault(error: ValidationError) -> Fault:
    """The fault of one violation. It quotes the schema's description, if there is one, because that
    says more than "does not match".
    """
    where = shorten(".".join(map(str, error.absolute_path))) or "the document"
    rule = error.schema.get("description") if isinstance(error.schema, dict) else None
    instance = error.instance
    value = shorten(repr(instance))
    text = f"{where}: {error.message[:160]}"
    if rule and error.absolute_path:
        text = f"{where} is {value}: {rule}"
    # The checker accepts these where the text of the rules means a text.
    blank = isinstance(instance, str) and instance != "" and instance.isspace()
    stricter = blank or (isinstance(instance, dict | list) and bool(instance))
    if error.validator in ("required", "additionalProperties"):
        return Fault(text)
    if not rule:
        limit = json.dumps(error.validator_value, ensure_ascii=False)
        rule = f"{error.validator}: {shorten(limit)}"
    return Fault(text, rule, value, stricter=stricter)


@cache
def _validator(schema: str) -> Draft202012Validator:
    if schema in schemas.DOCUMENTS:
        document = schemas.named(schema)
    else:
        document = json.loads((_SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    return Draft202012Validator(document)


def _schema(
    subject: Subject, value: dict[str, Any] | None, schema: str, file: str
) -> Sequence[Fault | str]:
    if value is None:
        why = subject.faults.get(file, f"{file} is missing")
        return [Fault(why, stricter=strict_json.TWICE in why)]
    return faults_of(value, schema)


def _names(subject: Subject) -> Faults:
    """Yield a fault if submitter or division of the system description are not those of the
    folders. Letter case does not matter.
    """
    for key, expected in (
        ("submitter", subject.place.submitter_folder.name),
        ("division", subject.place.division),
    ):
        value = (subject.system or {}).get(key)
        if subject.system is not None and str(value).lower() != expected.lower():
            yield mismatch(key, quoted(value), expected, "the folder is")


def _mapping(subject: Subject, file: str) -> Faults:
    benchmarks = subject.rules.benchmarks
    name = subject.place.benchmark
    if subject.mapping is not None or file in subject.faults:
        yield from _schema(subject, subject.mapping, "model_mapping", file)
    if subject.official not in benchmarks:
        names = ", ".join(benchmarks)
        official = shorten(subject.official)
        if official != name:
            text = f"{name} is mapped to {official}"
        elif subject.is_open:
            text = f"{name} is not an official benchmark, and not mapped to one"
        else:
            text = f"{name} is not an official benchmark, and only the open division has mappings"
        yield Fault(f"{text}; {subject.rules.round} has {names}", f"one of {names}", official)


def _of_division(subject: Subject) -> Checks:
    """The checks of the rules that apply in the closed and network divisions, and not in the open
    division.
    """
    if subject.is_open:
        why = "the open division does not require it"
        ids = ("retraining", "calibration", "network")
        return [not_applicable(check_id, why) for check_id in ids]
    good = f"is_network and the SUT's name fit the {subject.place.division} division"
    network = judge("network", _network(subject), good, subject.system_file)
    return [_retraining(subject), _calibration(subject), network]


def _retraining(subject: Subject) -> Check:
    file = subject.measurements_file
    retraining = (subject.measurements or {}).get("retraining")
    stated = retraining if isinstance(retraining, list) else [retraining]
    words = [str(word).strip().rstrip(".").lower() for word in stated]
    if subject.measurements is None:
        return not_applicable("retraining", f"{file} cannot be read", file)
    if all(word in _NOT_RETRAINED for word in words):
        return judge("retraining", [], shorten(retraining), file)
    why = (
        f"retraining is {shorten(repr(retraining))}, and the {subject.place.division} division"
        " allows none: judge how the model was changed"
    )
    return manual("retraining", why, file=file, fix=_RETRAINED)


def _calibration(subject: Subject) -> Check:
    """The check that there is a document on calibration. It may be missing if nothing was
    quantised, which only a person can judge.
    """
    place = subject.place
    folder = place.submitter_folder
    for name in _CALIBRATION:
        if _says_something(folder / name):
            return judge("calibration", [], name, place.show(folder))
    why = (
        "no document says how the model was quantised; one is required unless nothing was quantised"
    )
    fix = f"add it as {_CALIBRATION[0]} or {_CALIBRATION[2]}"
    return manual("calibration", why, file=place.show(folder), fix=fix)


def _network(subject: Subject) -> Faults:
    """Yield a fault if is_network or the SUT's name do not fit the division (performance_check.py,
    network_check).
    """
    value = (subject.system or {}).get("is_network")
    required = subject.place.division == "network"
    who = f"the {subject.place.division} division requires"
    if (str(value).lower() == "true") is not required:
        stated = "absent" if value is None else repr(value)
        yield mismatch("is_network", stated, '"true"' if required else "absent", who)
    for test in subject.tests if required else ():
        name = test.detail.get("sut_name")
        if _NETWORK_SUT not in str(name):
            file = test.file
            line = test.detail.line("sut_name")
            expected = f"{_NETWORK_SUT!r} in it"
            yield mismatch("sut_name", quoted(name), expected, who, file=file, line=line)


def _readme(subject: Subject) -> Faults:
    path = subject.place.measurements / "README.md"
    if path.exists() and not _says_something(path):
        yield "README.md is blank; it must say how to repeat the result"


def _says_something(path: Path) -> bool:
    content = files.maybe(files.whole_bytes, path)
    text = (content or b"").decode("utf-8", "replace")
    return any(c.isprintable() and not c.isspace() for c in text)


def _source_folder(subject: Subject) -> Path:
    """The folder of the benchmark's source. In a bare submission it is the folder of all sources,
    if the benchmark has none of its own: several benchmarks may share one.
    """
    place = subject.place
    name = subject.rules.layout.source.format(benchmark=place.benchmark)
    folder = place.submitter_folder / name
    return folder if folder.is_dir() or place.run else folder.parent


def _source(subject: Subject) -> Faults:
    folder = _source_folder(subject)
    if files.link_to(folder):
        yield Fault(f"{folder.name} is a link: it is not read", stricter=True)
    elif not folder.is_dir():
        yield Fault("it is missing")
    elif not any(path.stat().st_size for path in _source_files(subject)):
        yield Fault("every file in it is empty", stricter=True)


def _source_files(subject: Subject) -> Iterator[Path]:
    for path in files.under(_source_folder(subject)):
        if path.is_file() and not path.is_symlink():
            yield path


def _submitted_source(subject: Subject) -> Faults:
    """Yield a fault if the submitted source is only text, or in a run directory if it is not the
    source that the worker ran, by record.json.
    """
    folder = _source_folder(subject)
    if not any(_is_program(path) for path in _source_files(subject)):
        name = subject.rules.layout.source.format(benchmark="<benchmark>")
        yield f"it has no program, only text; {name} must have the code that ran"
    elif subject.place.run is not None:
        digest, fault = files.attempt(files.source_digest, folder)
        recorded_digest = subject.record.git.worker_source_sha256 if subject.record else ""
        if digest != recorded_digest:
            sentence = (
                "its scenarios/, sut/ and formats/ have sha256 {found}; by record.json {expected}"
                " ran"
            )
            yield fault or differs(sentence, digest, recorded_digest)


def _is_program(path: Path) -> bool:
    """Return whether a file may be a program: it has content, and its name is not that of a text or
    a licence.
    """
    if path.suffix.lower() in _TEXTS or path.stem.lower() in _NO_PROGRAMS:
        return False
    return path.stat().st_size > 0


def record_json(subject: Subject) -> Check:
    """The check of record.json by its schema."""
    assert subject.place.run is not None
    document = files.maybe(files.parsed, subject.place.run / "record.json")
    faults = _schema(subject, document, "record", "record.json")
    if not faults and subject.record is None:
        faults = [subject.faults["record.json"]]
    return judge("record-json", faults, "complete", "record.json")
