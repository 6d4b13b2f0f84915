"""A report as Markdown, CSV, JSON and Parquet. compliance/schemas/report.json describes the JSON document."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from harness.comparison import statistics, tables
from harness.figure import short
from harness.report import computing, trainings
from harness.report.content import Content, Overhead
from harness.report.contest import Contest, range_of


def rows(content: Content) -> list[dict[str, Any]]:
    """One row a cell, with the columns of `harness.comparison.tables.COLUMNS`."""
    return [tables.row(group) for group in content.groups]


def document(content: Content) -> dict[str, Any]:
    """The one JSON document: the answer, the comparisons, and the rows."""
    return {
        "schema": "report-2",
        "source": content.source,
        "preface": content.preface,
        "answer": content.headline,
        "means": content.means,
        "keras_overheads": [asdict(overhead) for overhead in content.overheads],
        "keras_upgrades": [asdict(upgrade) for upgrade in content.upgrades],
        "comparisons": [_comparison(contest) for contest in content.contests],
        "rows": rows(content),
        "advice": content.advice,
        "left_out": {str(path): why for path, why in content.faults.items()},
    }


def table_csv(content: Content) -> str:
    """The rows as CSV with a header; lists and tables within a row are JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(tables.COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _flat(value) for name, value in row.items()} for row in rows(content))
    return text.getvalue()


def parquet(content: Content) -> bytes | None:
    """The rows as Parquet; None where pyarrow is not there."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    nested = [{name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()} for row in rows(content)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(nested), sink)
    return bytes(sink.getvalue().to_pybytes())


def markdown(content: Content) -> str:
    """The answer in words and the table, as GitHub renders it."""
    return "\n".join(_markdown(content)) + "\n"


def cells(content: Content) -> Iterator[tuple[str, list[str]]]:
    """(work, one text a SUT) of each contest; a struck-out figure is between `~~`, the best has a ★."""
    for contest in content.contests:
        direction = f"{contest.unit}, {'more' if contest.higher_is_better else 'less'} is better" if contest.unit else "no figure"
        lora = ", other parameters each" if contest.other_factors else ""
        yield f"{contest.name} ({direction}{lora})", [_place(contest, sut) for sut in content.suts]


def _markdown(content: Content) -> Iterator[str]:
    yield f"**{content.headline}**"
    yield ""
    yield f"{content.preface}"
    yield ""
    yield from (f"- {sentence}" for sentence in content.sentences)
    yield ""
    yield from _table(("work", *content.suts), ((work, *texts) for work, texts in cells(content)))
    yield ""
    for number, (contest, texts) in enumerate(trainings.table(content.contests)):
        yield f"{contest.name}{'' if number else f'. {trainings.WORDS}'}"
        yield ""
        yield from _table(trainings.COLUMNS, texts)
        yield ""
    if shares := [(contest.name, *texts) for contest, rows in computing.table(content.contests) for texts in rows]:
        yield from _table(("work", *computing.COLUMNS), shares)
        yield ""
    if content.overheads:
        header = ("work", "Keras", "beside", "a batch with Keras", "without", "speed of Keras over that without")
        yield from _table(header, (_overhead(o) for o in content.overheads))
        yield ""
    if content.upgrades:
        columns = ("work", "Keras 3", "Keras 2", "speed of Keras 3 over Keras 2")
        yield from _table(columns, ([u.work, u.keras3, u.keras2, _ratio(u.ratio)] for u in content.upgrades))
        yield ""
    yield from (f"- unsupported: {sentence}" for sentence in content.obstacles)
    yield from (f"- {sentence}" for sentence in content.advice)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"


def _overhead(o: Overhead) -> list[str]:
    times = ["" if ms is None else f"{short(ms)} ms" for ms in (o.keras_ms, o.bare_ms)]
    return [o.work, o.keras, o.bare, *times, _ratio(o.ratio)]


def _ratio(ratio: statistics.Ratio) -> str:
    between = "no interval" if ratio.low is None or ratio.high is None else statistics.interval(ratio.low, ratio.high)
    return f"{ratio.value:.3g} × ({between})"


def _place(contest: Contest, sut: str) -> str:
    entry = contest.entries.get(sut)
    if entry is None:
        return "unsupported" if contest.obstacle(sut) else ""
    if entry.reason:
        return f"~~{short(entry.figure)}~~ {entry.reason}" if entry.struck else entry.reason
    between = range_of(entry.low, entry.high)
    return f"{short(entry.figure)}{f' ({between})' if between else ''}{' ★' if entry.best else ''}{' not ranked' if entry.unranked else ''}"


def _comparison(contest: Contest) -> dict[str, Any]:
    return {
        "work": contest.full_name,
        "unit": contest.unit,
        "higher_is_better": contest.higher_is_better,
        "answer": contest.answer,
        "ranked": bool(contest.good) and not contest.unranked,
        "inconclusive": contest.inconclusive,
        "best_figure": contest.field[0].sut if contest.good and not contest.inconclusive else None,
        "speed_over_best_figure": {} if contest.inconclusive else {sut: asdict(ratio) for sut, ratio in contest.ratios.items()},
        "leading": [sut for sut, entry in contest.entries.items() if entry.best],
    }


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
