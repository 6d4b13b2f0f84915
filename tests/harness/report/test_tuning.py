"""Tuned cells and their partners: gains, and a report that never mixes the two."""

import pytest

from harness.comparison import compare, partners, tables
from harness.report import answer, sections
from harness.report.sections import ratios
from tests.support.reports import gathered, groups
from tests.support.synthetic_runs import cell, write

PLAIN = cell("native-torch-eager")
STEADY = [100, 101, 99]
JUDGED = {"accuracy": {"metric": "logit_error", "value": 1e-6, "threshold": 5.6e-5, "passed": True}}


def tuned(*switches, sut="native-torch-eager", **changes):
    return cell(sut, tuned=True, switches=switches, **changes)


def gains(root):
    """Switches → (gain, mean without them, mean with them) of each tuned cell with a partner."""
    found = partners.tuned(groups(root))
    return {
        with_.cell.switches: (gain, compare.mean(plain), compare.mean(with_))
        for with_, plain, gain in found
    }


def rows(report):
    """Tuned SUT → (its figure, that of the plain one, gain, remark) of each row of the section."""
    (table,) = [t for t in ratios.section(report).tables if t.title.startswith("Tuned")]
    return {row[0]: row[2:] for of_work in table.groups.values() for row in of_work}


@pytest.fixture
def runs(tmp_path):
    write(tmp_path, PLAIN, STEADY, sweep="s")
    twice = [2 * x for x in STEADY]
    write(tmp_path, tuned("to-mkldnn"), twice, first_minute=1, sweep="s", **JUDGED)
    write(tmp_path, tuned("huge-pages"), STEADY, first_minute=2, sweep="s")
    write(tmp_path, tuned("omp-bind"), [None], first_minute=3, sweep="s")
    write(tmp_path, cell("keras3-jax"), [1.5 * x for x in STEADY], first_minute=4, sweep="s")
    return tmp_path


def test_a_gain_is_the_speed_over_that_of_the_same_cell_without_switches(runs):
    found = gains(runs)
    assert set(found) == {("to-mkldnn",), ("huge-pages",), ("omp-bind",)}
    gain, *figures = found["to-mkldnn",]
    assert gain.value == pytest.approx(2) and gain.low > 1.9
    assert gain.repeats == (3, 3)
    assert figures == ["100 samples/s", "200 samples/s"]
    assert found["huge-pages",][0].low == pytest.approx(1)
    assert found["omp-bind",] == (None, "100 samples/s", "")


def test_a_switch_of_one_repeat_is_compared_with_the_same_repeat_without_it(tmp_path):
    write(tmp_path, PLAIN, [120, 100, 80], sweep="s")
    write(tmp_path, tuned("omp-bind"), [120], first_minute=1, sweep="s")
    ((gain, *_),) = gains(tmp_path).values()
    assert (gain.value, gain.low) == (pytest.approx(1), None)


def test_a_tuned_cell_without_a_partner_has_no_gain(tmp_path):
    write(tmp_path, tuned("to-mkldnn"), STEADY)
    write(tmp_path, cell("native-torch-eager", batch_size=8), STEADY)
    assert gains(tmp_path) == {}


def test_a_partner_was_measured_under_the_same_conditions(tmp_path):
    write(tmp_path, PLAIN, STEADY)
    write(tmp_path, tuned("omp-bind"), STEADY, first_minute=1, planned_ms=20_000)
    newer = {"environment": {"versions": {"python": "3.11.7", "torch": "2.14.0"}}}
    write(tmp_path, tuned("to-mkldnn"), STEADY, first_minute=2, record=newer)
    other = {"git": {"worker_source_sha256": "2"}}
    write(tmp_path, tuned("huge-pages"), STEADY, first_minute=3, record=other)
    assert gains(tmp_path) == {}
    write(tmp_path, tuned("malloc-keeps"), STEADY, first_minute=4)
    assert set(gains(tmp_path)) == {("malloc-keeps",)}


def test_one_of_many_sets_needs_a_larger_gain(tmp_path):
    write(tmp_path, PLAIN, [100, 101, 99], sweep="s")
    write(tmp_path, tuned("omp-bind"), [103, 106, 102.5], first_minute=1, sweep="s")
    ((gain, *_),) = gains(tmp_path).values()
    assert gain.different and gain.low > 1
    for n, name in enumerate(("to-mkldnn", "huge-pages", "malloc-keeps", "omp-active"), 2):
        write(tmp_path, tuned(name), [100, 101, 99], first_minute=n, sweep="s")
    of_many, *_ = gains(tmp_path)["omp-bind",]
    assert of_many.value == gain.value and of_many.low < 1
    assert not of_many.different


@pytest.mark.parametrize("disturbed", [0, 1])
def test_the_gain_of_a_disturbed_cell_is_not_ranked(tmp_path, disturbed):
    unranked = {"ranked": False, "unranked": ("another process was busy",)}
    of_each = [{}, {}]
    of_each[disturbed] = unranked
    write(tmp_path, PLAIN, STEADY, sweep="s", **of_each[0])
    write(tmp_path, tuned("omp-bind"), STEADY, first_minute=1, sweep="s", **of_each[1])
    report = gathered(tmp_path)
    *_, remark = rows(report)["native-torch-eager tuned=omp-bind"]
    assert remark == "not ranked"
    assert ratios.section(report).sentences == []


def test_a_tuned_batch_is_compared_with_the_requested_one(tmp_path):
    write(tmp_path, PLAIN, STEADY, sweep="s")
    larger = {"batch_size": 64, "requested_batch": 32}
    write(tmp_path, tuned("batch-x2", **larger), [2 * x for x in STEADY], sweep="s")
    other = tuned("huge-pages", sut="keras3-jax")
    write(tmp_path, other, STEADY, first_minute=1, sweep="s")
    ((gain, *_),) = gains(tmp_path).values()
    assert gain.value == pytest.approx(2)
    report = gathered(tmp_path)
    plain, compared = report.comparisons
    assert compared.name == f"{plain.name}, tuned" and "batch 32" in compared.name
    assert len(compared.good) == 2


def test_tuned_cells_are_compared_only_with_tuned_cells(runs):
    report = gathered(runs)
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


def test_a_report_has_the_gain_the_interval_and_the_accuracy_of_each_switch(runs):
    report = gathered(runs)
    found = sections.sentences(sections.of(report))
    (sentence,) = [each for each in found if each.startswith("tuned, compared with")]
    assert "native-torch-eager 2.00 × (2.00–2.00) (to-mkldnn)" in sentence
    plain, doubled = "100 samples/s", "200 samples/s"
    assert rows(report) == {
        "native-torch-eager tuned=to-mkldnn": (
            *(doubled, plain, ("2.00 ×", "(2.00–2.00)")),
            "error 1e-06 of 5.6e-05",
        ),
        "native-torch-eager tuned=huge-pages": (plain, plain, ("1.00 ×", "(1.00–1.00)"), ""),
        "native-torch-eager tuned=omp-bind": (
            *("", plain, "–"),
            "oom: the kernel killed the worker",
        ),
    }


def test_the_gain_over_a_cell_that_failed_says_why_there_is_none(tmp_path):
    write(tmp_path, PLAIN, [None], sweep="s")
    write(tmp_path, tuned("omp-bind"), STEADY, first_minute=1, sweep="s")
    _, without, gain, why = rows(gathered(tmp_path))["native-torch-eager tuned=omp-bind"]
    assert (without, gain, why) == ("", "–", "oom: the kernel killed the worker")


def test_other_switches_of_two_releases_are_flagged(tmp_path):
    write(tmp_path / "a", tuned("omp-bind"), STEADY)
    write(tmp_path / "b", tuned("huge-pages"), STEADY, day=2)
    folders = [groups(tmp_path / name) for name in ("a", "b")]
    (found,) = compare.compare(*folders)
    assert "other switches: omp-bind / huge-pages" in found.flags


def test_no_tuned_cell_is_compared_with_one_that_is_not(tmp_path):
    write(tmp_path / "a", PLAIN, STEADY)
    write(tmp_path / "b", tuned("omp-bind"), STEADY, day=2)
    folders = [groups(tmp_path / name) for name in ("a", "b")]
    assert not any(found.comparable for found in compare.compare(*folders))
