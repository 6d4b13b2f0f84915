"""Page, Markdown and JSON show any section, also one that they have never seen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.report import content, exports, figures, page, sections
from harness.report.section import Picture, Pictures, Section, Table
from harness.report.sections import serving
from tests.support.synthetic_runs import cell, write

WHEN = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)
POINTS = {"keras3-jax": [(1.0, 2.0), (2.0, 3.0)]}


def draw(name):
    return figures.lines(POINTS, name, "seasons", "ice, kg", "ice over seasons")


@pytest.fixture
def report(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    return content.gather(tmp_path, "runs")


@pytest.mark.parametrize(("tokens", "is_noted"), [(800, True), (100, False)])
def test_a_time_of_later_tokens_that_cannot_be_seen_has_its_reason(tmp_path, tokens, is_noted):
    metrics = {"ms_per_step": 9.0, "ttft_p50_ms": 3.0}
    measured = {"samples": 100, "tokens": tokens}
    streamed = cell(scenario="SingleStream", stream=True)
    write(tmp_path, streamed, [9.0], metrics=metrics, measured=measured)
    (table,) = serving.token_latencies(content.gather(tmp_path, "runs")).tables
    words = "The time of later tokens cannot be seen for keras3-jax streamed: "
    assert table.note.startswith(words) if is_noted else not table.note


def ice(**changes):
    table = {
        "columns": ("season", "ice"),
        "numbers": (1,),
        "groups": {"north": [("winter", ("3", "(2–4)"))]},
    }
    return Section(
        title="How much ice there is",
        note="Ice is frozen water.",
        sentences=["there is some | ice"],
        tables=[Table(**table | changes)],
        pictures=lambda: Pictures(shown=[Picture(caption="Ice by season", draw=draw)], more=2),
        data={"ice": 3},
    )


def test_the_page_shows_title_note_sentences_pictures_and_tables(report):
    html = page.render(report, [ice()], WHEN)
    for text in (
        "<h2>How much ice there is</h2>",
        "Ice is frozen water.",
        "<li>there is some | ice</li>",
        "Ice by season",
        "seasons",
    ):
        assert text in html
    assert "2 more are not drawn" in html
    assert '<td class="number">3 <span class="soft">(2–4)</span></td>' in html


def test_markdown_shows_sentences_and_tables(report):
    text = exports.markdown(report, [ice()])
    assert "- there is some | ice\n" in text
    assert "| work | season | ice |\n|---|---|---|\n| north | winter | 3 (2–4) |\n" in text


def test_json_has_the_data_of_each_section(report):
    assert exports.document(report, [ice()])["ice"] == 3


def test_a_section_without_rows_and_pictures_has_no_heading(report):
    empty = Section(title="Nothing", tables=[Table(columns=("season",), groups={})])
    assert "Nothing" not in page.render(report, [empty], WHEN)
    assert exports.markdown(report, [empty]) == exports.markdown(report, [])


def test_a_table_is_left_out_where_it_is_not_shown(report):
    assert "winter" not in page.render(report, [ice(on_page=False)], WHEN)
    assert "winter" not in exports.markdown(report, [ice(in_markdown=False)])


def test_the_page_shows_the_first_rows_of_a_long_table(report):
    rows = [(f"year {n}", "1") for n in range(8)]
    html = page.render(report, [ice(groups={"a": rows[:5], "b": rows[5:]}, most=6)], WHEN)
    assert "year 5" in html and "year 6" not in html
    assert "The first 6 of 8 rows." in html


def test_every_section_of_an_empty_report_can_be_made():
    nothing = content.of_results([], "runs")
    assert sections.sentences(sections.of(nothing)) == []
