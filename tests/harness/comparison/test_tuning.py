"""Tuned cells and their partners: gains, and a report that never mixes the two."""

from __future__ import annotations

import pytest

from harness.comparison import compare, tables, tuning
from harness.report import answer, content, sections
from tests.support.synthetic_runs import cell, write

PLAIN = cell("native-torch-eager")
STEADY = [100, 101, 99]


def tuned(*switches, sut="native-torch-eager", **changes):
    return cell(sut, tuned=True, switches=switches, **changes)


@pytest.fixture
def runs(tmp_path):
    write(tmp_path, PLAIN, STEADY, sweep="s")
    write(tmp_path, tuned("to-mkldnn"), [2 * x for x in STEADY], first_minute=1, sweep="s")
    write(tmp_path, tuned("huge-pages"), STEADY, first_minute=2, sweep="s")
    write(tmp_path, tuned("omp-bind"), [None], first_minute=3, sweep="s")
    write(tmp_path, cell("keras3-jax"), [1.5 * x for x in STEADY], first_minute=4, sweep="s")
    return tmp_path


def test_a_gain_is_the_speed_over_that_of_the_same_cell_without_switches(runs):
    gains = {gain.switches: gain for gain in tuning.gains(tables.groups([runs]))}
    assert set(gains) == {("to-mkldnn",), ("huge-pages",), ("omp-bind",)}
    twice = gains["to-mkldnn",]
    assert twice.ratio == pytest.approx(2) and twice.low > 1.9
    assert (twice.figure, twice.plain_figure) == pytest.approx((200, 100), rel=1e-3)
    assert twice.repeats == 3
    assert (twice.sut, twice.architecture, twice.machine[:11]) == (
        "native-torch-eager",
        "bert",
        "A processor",
    )
    assert gains["huge-pages",].low == pytest.approx(1)
    failed = gains["omp-bind",]
    assert (failed.ratio, failed.status, failed.figure) == (None, "oom", None)


def test_a_switch_of_one_repeat_is_compared_with_the_same_repeat_without_it(tmp_path):
    write(tmp_path, PLAIN, [120, 100, 80], sweep="s")
    write(tmp_path, tuned("omp-bind"), [120], first_minute=1, sweep="s")
    (gain,) = tuning.gains(tables.groups([tmp_path]))
    assert (gain.ratio, gain.low, gain.repeats) == (pytest.approx(1), None, 1)


def test_a_tuned_cell_without_a_partner_has_no_gain(tmp_path):
    write(tmp_path, tuned("to-mkldnn"), STEADY)
    write(tmp_path, cell("native-torch-eager", batch_size=8), STEADY)
    assert tuning.gains(tables.groups([tmp_path])) == []


def test_cells_without_switches_give_no_gain(tmp_path):
    write(tmp_path, PLAIN, STEADY, sweep="s")
    write(tmp_path, tuned(), STEADY, first_minute=1, sweep="s")
    assert tuning.gains(tables.groups([tmp_path])) == []


def test_a_partner_was_measured_under_the_same_conditions(tmp_path):
    write(tmp_path, PLAIN, STEADY)
    write(tmp_path, tuned("omp-bind"), STEADY, first_minute=1, planned_ms=20_000)
    newer = {"environment": {"versions": {"python": "3.11.7", "torch": "2.14.0"}}}
    write(tmp_path, tuned("to-mkldnn"), STEADY, first_minute=2, record=newer)
    other = {"git": {"worker_source_sha256": "2"}}
    write(tmp_path, tuned("huge-pages"), STEADY, first_minute=3, record=other)
    assert tuning.gains(tables.groups([tmp_path])) == []
    write(tmp_path, tuned("malloc-keeps"), STEADY, first_minute=4)
    (gain,) = tuning.gains(tables.groups([tmp_path]))
    assert gain.switches == ("malloc-keeps",)


def test_one_of_many_sets_needs_a_larger_gain(tmp_path):
    write(tmp_path, PLAIN, [100, 101, 99], sweep="s")
    write(tmp_path, tuned("omp-bind"), [103, 106, 102.5], first_minute=1, sweep="s")
    (gain,) = tuning.gains(tables.groups([tmp_path]))
    assert gain.different and gain.low > 1
    for n, name in enumerate(("to-mkldnn", "huge-pages", "malloc-keeps", "omp-active"), 2):
        write(tmp_path, tuned(name), [100, 101, 99], first_minute=n, sweep="s")
    of_many = {gain.switches: gain for gain in tuning.gains(tables.groups([tmp_path]))}
    assert of_many["omp-bind",].ratio == gain.ratio and of_many["omp-bind",].low < 1
    assert not of_many["omp-bind",].different


@pytest.mark.parametrize("disturbed", [0, 1])
def test_a_disturbed_cell_gives_no_ratio(tmp_path, disturbed):
    unranked = {"ranked": False, "unranked": ("another process was busy",)}
    of_each = [{}, {}]
    of_each[disturbed] = unranked
    write(tmp_path, PLAIN, STEADY, sweep="s", **of_each[0])
    write(tmp_path, tuned("omp-bind"), STEADY, first_minute=1, sweep="s", **of_each[1])
    (gain,) = tuning.gains(tables.groups([tmp_path]))
    assert (gain.ratio, gain.different) == (None, False)
    assert "another process was busy" in gain.reason


def test_a_tuned_batch_is_compared_with_the_requested_one(tmp_path):
    write(tmp_path, PLAIN, STEADY, sweep="s")
    larger = {"batch_size": 64, "requested_batch": 32}
    write(tmp_path, tuned("batch-x2", **larger), [2 * x for x in STEADY], sweep="s")
    other = tuned("huge-pages", sut="keras3-jax")
    write(tmp_path, other, STEADY, first_minute=1, sweep="s")
    (gain,) = tuning.gains(tables.groups([tmp_path]))
    assert gain.ratio == pytest.approx(2) and gain.batch_size == 32
    report = content.gather(tmp_path, "runs")
    plain, compared = report.comparisons
    assert compared.name == f"{plain.name}, tuned" and "batch 32" in compared.name
    assert len(compared.good) == 2


def test_tuned_cells_are_compared_only_with_tuned_cells(runs):
    report = content.gather(runs, "runs")
    plain, others = report.comparisons
    assert [group.sut for group in plain.good] == ["keras3-jax", "native-torch-eager"]
    assert [group.sut for group in others.good] == [
        "native-torch-eager tuned=to-mkldnn",
        "native-torch-eager tuned=huge-pages",
    ]
    assert others.name == f"{plain.name}, tuned"
    assert report.conclusive == [plain]
    assert report.headline.endswith(f": {answer.sentence(plain)}")
    assert tables.row(others.good[0])["tuned"] is True


def test_a_report_says_what_the_switches_give(runs):
    report = content.gather(runs, "runs")
    found = sections.sentences(sections.of(report))
    (sentence,) = [each for each in found if each.startswith("tuned, compared with")]
    assert "native-torch-eager 2.00 × (2.00–2.00) (to-mkldnn)" in sentence
    (section,) = [each for each in sections.of(report) if each.title == "Tuned"]
    rows = [row for rows in section.tables[0].groups.values() for row in rows]
    shown = {row[1]: (*row[2:4], row[4]) for row in rows}
    assert shown["to-mkldnn"] == ("100 samples/s", "200 samples/s", ("2.00 ×", "(2.00–2.00)"))
    assert shown["omp-bind"] == ("100 samples/s", "", "oom: the kernel killed the worker")
    assert len(rows) == len(shown) == 3
    assert {row[5] for row in rows} == {"3"}


def test_a_sut_that_nothing_helps_is_called_so_in_the_tuned_column(tmp_path):
    write(tmp_path, tuned(sut="keras3-jax"), STEADY)
    (group,) = tables.groups([tmp_path])
    assert group.sut == "keras3-jax tuned=nothing"


def test_other_switches_of_two_releases_are_flagged(tmp_path):
    write(tmp_path / "a", tuned("omp-bind"), STEADY)
    write(tmp_path / "b", tuned("huge-pages"), STEADY, day=2)
    folders = [tables.groups([tmp_path / name]) for name in ("a", "b")]
    (found,) = compare.compare(*folders)
    assert "other switches: omp-bind / huge-pages" in found.flags


def test_no_tuned_cell_is_compared_with_one_that_is_not(tmp_path):
    write(tmp_path / "a", PLAIN, STEADY)
    write(tmp_path / "b", tuned("omp-bind"), STEADY, day=2)
    folders = [tables.groups([tmp_path / name]) for name in ("a", "b")]
    (found,) = compare.compare(*folders)
    assert not found.comparable
    assert "tuned False / True" in found.verdict
