"""The table of a comparison: its JSON document, what is new since an earlier one, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from formats import reading
from formats.writing import write_json
from harness.conformance.verdicts import Agreement, Finding
from harness.errors import Refused, about
from sut import known_differences

SCHEMA = "conformance-1"
_SHOWN = 60  # characters by which refusals are compared


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """A finished comparison.

    Attributes:
        made: the day.
        command: as it was typed.
        versions: name of an environment → package → version.
        limits: what counts as a difference, in words by part.
        seconds: how long it took.
    """

    schema: str
    made: str
    command: str
    versions: dict[str, dict[str, str]]
    limits: dict[str, str]
    seconds: float
    rows: tuple[Finding, ...]


def read(path: Path) -> Conformance:
    """Read an earlier table. Raises UsageError if it is none."""
    with about(f"--expect {path}"):
        try:
            table = reading.from_file(path, Conformance)
        except OSError as e:
            raise Refused(f"cannot be read ({e.strerror})") from None
        except ValueError as e:
            raise Refused(f"is no conformance.json ({e})") from None
        if table.schema != SCHEMA:
            raise Refused(
                f"has the schema {table.schema}, and this command reads {SCHEMA}: make it again"
                " with --out"
            )
    return table


def news(before: Conformance, after: Conformance) -> list[str]:
    """A sentence for each row whose verdict is new. Only the parts that both have are compared, and
    of these the cases that both have or that have a new verdict.
    """
    old, new = (
        {(row.part, row.case, row.backend): row.verdict for row in table.rows}
        for table in (before, after)
    )
    parts = {row.part for row in before.rows} & {row.part for row in after.rows}
    found = []
    for key in dict.fromkeys((*old, *new)):
        part, case, backend = key
        was, now = (verdicts.get(key, "not tried") for verdicts in (old, new))
        if part in parts and was != now:
            found.append(f"{case} on {backend}: {was} before, {now} now")
    return found


def counts(rows: Sequence[Finding]) -> list[list[str]]:
    """A line for each backend: its name, and how many rows have each verdict."""
    found = Counter((row.backend, row.verdict) for row in rows)
    backends = dict.fromkeys(row.backend for row in rows)
    return [[name, *(str(found[name, verdict]) for verdict in Agreement)] for name in backends]


def text_of(size: float | None) -> str:
    """A difference, such as `3e-04`, or `another shape or kind` if it is no number."""
    if size is None:
        return ""
    return f"{size:.1e}" if size < float("inf") else "another shape, dtype or NaN"


def same_on(rows: Sequence[Finding]) -> list[tuple[str, Finding]]:
    """The rows that do not agree, (backends, row): one for all backends with the same verdict,
    layer and size.
    """
    merged: dict[Finding, list[Finding]] = {}
    for row in rows:
        if row.verdict is not Agreement.AGREES:
            size = row.size and float(f"{row.size:.0e}")
            alike = replace(row, backend="", size=size, words=row.words[:_SHOWN])
            merged.setdefault(alike, []).append(row)
    return [(", ".join(each.backend for each in group), group[0]) for group in merged.values()]


def write(table: Conformance, folder: Path) -> None:
    """Write conformance.json and conformance.md to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "conformance.json", table)
    (folder / "conformance.md").write_text(page(table), encoding="utf-8")


def page(table: Conformance) -> str:
    """The text of conformance.md."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"cell": _cell, "remark": _remark, "size": text_of}
    template = environment.get_template("page.md")
    return template.render(table=table, counts=counts, same_on=same_on)


def _cell(text: str) -> str:
    """A text in a cell of a Markdown table, without paths of this machine."""
    words = [word for word in text.split() if not word.lstrip("'\"(").startswith("/")]
    return " ".join(words).replace("|", "\\|").replace("<", "&lt;")


def _remark(case: str) -> str:
    """What is known of a case: in words, the place in the source, and the public report."""
    words = []
    for each in known_differences.every():
        if case in each.cases:
            places = ", ".join(filter(None, (each.cause, each.report)))
            words.append(f"{each.words} ({places})" if places else each.words)
    return f": {_cell('; '.join(words))}" if words else ""
