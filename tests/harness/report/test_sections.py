"""Page and JSON show any section, also one that they have never seen."""

import pytest

from harness.report import content, exports, page, sections
from harness.report.section import Lines, Section, Table
from tests.support.reports import WHEN, gathered
from tests.support.synthetic_runs import cell, write

POINTS = {"keras3-jax": [(1.0, 2.0), (2.0, 3.0)]}


@pytest.fixture
def report(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    return gathered(tmp_path)


def shown(report, *parts):
    return page.render(report, parts, WHEN)


def ice(**changes):
    table = {"columns": ("season", "ice"), "groups": {"north": [("winter", ("3", "(2–4)"))]}}
    return Section(
        title="How much ice there is",
        note="Ice is frozen water.",
        sentences=["there is some | ice"],
        tables=[Table(**table | changes)],
        pictures=10 * [Lines(work="Ice", about="by season", series=POINTS, x="seasons", y="kg")],
        data={"ice": 3},
    )


def test_the_page_shows_title_note_sentences_pictures_and_tables(report):
    html = shown(report, ice())
    for text in (
        "<summary>How much ice there is</summary>",
        "Ice is frozen water.",
        "<li>there is some | ice</li>",
        "Ice: by season",
        "seasons",
    ):
        assert text in html
    assert "6 more are not drawn" in html
    assert '<td class="number">3 <span class="soft">(2–4)</span></td>' in html


def test_json_has_the_data_of_each_section(report):
    assert exports.document(report, [ice()])["ice"] == 3


def test_a_section_without_rows_and_pictures_has_no_heading(report):
    empty = Section(title="Nothing", tables=[Table(columns=("season",), groups={})])
    assert "Nothing" not in shown(report, empty)


def test_the_page_shows_the_first_rows_of_a_long_table(report):
    rows = [(f"year {n}", "1") for n in range(260)]
    html = shown(report, ice(groups={"a": rows[:150], "b": rows[150:]}))
    assert "year 199<" in html and "year 200<" not in html
    assert "The first 200 of 260 rows." in html


def test_every_section_of_an_empty_report_can_be_made():
    nothing = content.of_results([], "runs")
    assert sections.sentences(sections.of(nothing)) == []
