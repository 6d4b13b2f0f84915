"""The table of a comparison: its JSON document, what is new since an earlier one, and its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from formats import reading
from harness.conformance.verdicts import Row, Verdict
from harness.errors import Refused
from sut import known_differences

SCHEMA = "conformance-1"
_SHOWN = 60  # characters of a refusal in a table


@dataclass(frozen=True, kw_only=True)
class Table:
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
    rows: tuple[Row, ...]


def read(path: Path) -> Table:
    """Read an earlier table. Raises UsageError if it is none."""
    try:
        table = reading.from_file(path, Table)
    except OSError as e:
        raise Refused(f"--expect {path}: cannot be read ({e.strerror})") from None
    except ValueError as e:
        raise Refused(f"--expect {path}: is no conformance.json ({e})") from None
    if table.schema != SCHEMA:
        raise Refused(
            f"--expect {path}: has the schema {table.schema}, and this command reads {SCHEMA}: make"
            " it again with --out"
        )
    return table


def news(before: Table, after: Table) -> list[str]:
    """A sentence for each row whose verdict is new. Only the parts that both have are compared, and
    of these the cases that both have or that have a new verdict.
    """
    old, new = ({_key(row): row for row in table.rows} for table in (before, after))
    parts = {row.part for row in before.rows} & {row.part for row in after.rows}
    found = []
    for key in dict.fromkeys((*old, *new)):
        if key[0] not in parts:
            continue
        was, now = _verdict(old.get(key)), _verdict(new.get(key))
        if was != now:
            found.append(f"{key[1]} on {key[2]}: {was} before, {now} now")
    return found


def _verdict(row: Row | None) -> str:
    return str(row.verdict) if row else "not tried"


def _key(row: Row) -> tuple[str, str, str]:
    return row.part, row.case, row.backend


def counts(rows: Sequence[Row]) -> dict[str, Counter[str]]:
    """Backend → verdict → number of rows."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        found.setdefault(row.backend, Counter())[str(row.verdict)] += 1
    return found


def text_of(size: float | None) -> str:
    """A difference, such as `3e-04`, or `another shape or kind` if it is no number."""
    if size is None:
        return ""
    return f"{size:.1e}" if size < float("inf") else "another shape, dtype or NaN"


def same_on(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The rows that do not agree, (backends, row): one for all backends with the same verdict,
    layer and size.
    """
    merged: dict[tuple[str, ...], tuple[list[str], Row]] = {}
    for row in rows:
        if row.verdict is Verdict.AGREES:
            continue
        words = row.words if row.verdict is Verdict.UNJUDGED else row.words[:_SHOWN]
        size = f"{row.size:.0e}" if row.size is not None else ""
        key = (row.part, row.case, str(row.verdict), row.layer, size, words)
        merged.setdefault(key, ([], row))[0].append(row.backend)
    return [(", ".join(names), row) for names, row in merged.values()]


_TITLES = {
    "folders": "Hugging Face folders, converted by KerasHub",
    "operations": "Layers, operations, losses and metrics of Keras",
    "file": "Your file",
}


def page(table: Table) -> Iterator[str]:
    """The lines of conformance.md."""
    yield "# What released frameworks compute differently"
    yield ""
    yield f"Made by `{table.command}` on {table.made}. Each row"
    yield "compares a library with another one that computes the same, with the same weights and"
    yield "inputs ([how](../trust/conformance.md)). Differing is no failure of the command."
    yield ""
    yield "| environment | versions |"
    yield "|---|---|"
    for name, versions in table.versions.items():
        yield f"| {name} | {', '.join(f'{p} {v}' for p, v in versions.items())} |"
    for part, title in _TITLES.items():
        rows = [row for row in table.rows if row.part == part]
        if rows:
            yield from _section(part, title, rows, table.limits.get(part, ""))


def _section(part: str, title: str, rows: Sequence[Row], limit: str) -> Iterator[str]:
    yield from (
        "",
        f"## {title}",
        "",
        limit,
        "",
        "| backend | agrees | differs | refused | not judged |",
    )
    yield "|---|---|---|---|---|"
    for backend, found in counts(rows).items():
        yield f"| {backend} | {' | '.join(str(found[verdict]) for verdict in Verdict)} |"
    agreeing = [row.size for row in rows if row.verdict is Verdict.AGREES and row.size is not None]
    differing = [
        row.size for row in rows if row.verdict is Verdict.DIFFERS and row.size is not None
    ]
    yield ""
    yield (
        f"The largest difference that agrees is {text_of(max(agreeing, default=None))}, and the"
        f" smallest that differs {text_of(min(differing, default=None))}."
    )
    merged = same_on(rows)
    for verdict, heads in (
        (Verdict.DIFFERS, ("case", "backends", "size", "from")),
        (Verdict.REFUSED, ("case", "backends", "in the words of", "")),
        (Verdict.UNJUDGED, ("case", "backends", "why", "")),
    ):
        chosen = [(names, row) for names, row in merged if row.verdict is verdict]
        if not chosen:
            continue
        yield from (
            "",
            f"### {'Not judged' if verdict is Verdict.UNJUDGED else str(verdict).capitalize()}",
            "",
        )
        yield f"| {' | '.join(filter(None, heads))} |"
        yield "|" + "---|" * len(list(filter(None, heads)))
        for names, row in chosen:
            last = (
                [text_of(row.size), _cell(row.layer or row.words)]
                if verdict is Verdict.DIFFERS
                else [_cell(row.words)]
            )
            cells = [_cell(row.case) + _remark(row.case), names, *last]
            yield f"| {' | '.join(cells)} |"


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
