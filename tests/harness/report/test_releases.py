"""The section on releases: the speed over them, the steps, and what moved besides."""

import random

import pytest

from harness.comparison import compare
from harness.report import figures, page
from harness.report.sections import ratios, releases
from tests.support.reports import WHEN, gathered, groups
from tests.support.synthetic_runs import VERSIONS, cell, write


def measured(root, sut, release, mean, *more, minute=0, **versions):
    """Five runs of one sweep of a SUT, with a release of jax. None: the locked one."""
    packages = (*([f"jax=={release}"] if release else []), *more)
    installed = {**VERSIONS, "numpy": "2.4.6", "jax": release or "0.10.2", **versions}
    installed["jaxlib"] = installed["jax"]
    noise = random.Random(minute)
    write(
        root,
        cell(sut, packages=packages),
        [mean * noise.gauss(1, 0.005) for _ in range(5)],
        first_minute=minute,
        record={"environment": {"versions": installed}},
        sweep="sweep-1",
    )


@pytest.fixture
def report(tmp_path):
    """Keras on JAX is slower from 0.10.1 on. The locked 0.10.2 is a release like the others, and
    `native-jax` has no step.
    """
    measured(tmp_path, "keras3-jax", "0.9.2", 100)
    measured(tmp_path, "keras3-jax", "0.10.1", 80, minute=1, numpy="2.5.0")
    measured(tmp_path, "keras3-jax", None, 80.2, minute=2)
    measured(tmp_path, "native-jax", "0.9.2", 90, minute=3)
    measured(tmp_path, "native-jax", None, 90.1, minute=4)
    return gathered(tmp_path)


def test_a_step_is_named_with_its_interval_and_the_lines_without_one_say_so(report):
    steps = releases.section(report).sentences
    assert steps[0].startswith("keras3-jax, bert mid predict, Offline")
    assert ": slower after jax 0.9.2: 0.10.1 has 0.802 × its speed (0.795–" in steps[0]
    assert steps[0].count("after jax") == 1
    assert steps[1].endswith("no step is shown from jax 0.9.2 to 0.10.2")


def test_releases_are_in_their_order_with_the_packages_that_moved_besides(report):
    (table,) = releases.section(report).tables
    (rows,) = table.groups.values()
    assert [(sut, release) for sut, release, *_ in rows] == [
        ("keras3-jax", "jax 0.9.2"),
        ("keras3-jax", "jax 0.10.1"),
        ("keras3-jax", "jax 0.10.2"),
        ("native-jax", "jax 0.9.2"),
        ("native-jax", "jax 0.10.2"),
    ]
    assert [row[-1] for row in rows[:3]] == [
        "–",
        "jaxlib 0.9.2 → 0.10.1, numpy 2.4.6 → 2.5.0",
        "jaxlib 0.10.1 → 0.10.2, numpy 2.5.0 → 2.4.6",
    ]


def test_the_chart_has_a_line_a_sut_with_intervals_and_the_step(report):
    (chart,) = releases.section(report).pictures
    assert list(chart.series) == ["keras3-jax", "native-jax"]
    assert chart.ticks == ["0.9.2", "0.10.1", "0.10.2"]
    assert [x for x, _ in chart.series["native-jax"]] == [0.0, 2.0]
    assert chart.steps == [0.5] and len(chart.ranges) == 4  # the fastest has none
    drawing = figures.draw(chart, "p", {"keras3-jax": "#0072b2"})
    assert "0.10.1" in drawing and "stroke-dasharray" in drawing
    assert "Speed over releases" in page.render(report, [releases.section(report)], WHEN)


def test_other_packages_of_the_same_sut_are_lines_of_their_own(tmp_path):
    for minute, keras in enumerate(("3.14.0", "3.15.0")):
        for release in ("0.9.2", "0.10.1"):
            measured(tmp_path, "keras3-jax", release, 100, f"keras=={keras}", minute=minute)
    (chart, other) = releases.section(gathered(tmp_path)).pictures
    assert sorted(chart.series) == ["keras3-jax keras==3.14.0", "keras3-jax keras==3.15.0"]
    assert sorted(other.series) == ["keras3-jax jax==0.10.1", "keras3-jax jax==0.9.2"]


def test_a_report_without_releases_has_no_such_section(tmp_path):
    measured(tmp_path, "keras3-jax", None, 100)
    measured(tmp_path, "native-jax", None, 90, minute=1)
    found = releases.section(gathered(tmp_path))
    assert not found.sentences and not found.pictures


def test_keras_is_compared_with_its_framework_only_as_both_are_locked(report):
    overheads = ratios.section(report).data["keras_overheads"]
    assert [(each["keras"], each["bare"]) for each in overheads] == [("keras3-jax", "native-jax")]


def test_two_folders_name_every_package_that_differs(tmp_path):
    measured(tmp_path / "a", "keras3-jax", None, 100)
    measured(tmp_path / "b", "keras3-jax", "0.10.1", 80, numpy="2.5.0")
    (pair,) = compare.compare(groups(tmp_path / "a"), groups(tmp_path / "b"))
    assert pair.flags[:3] == (
        "other version of jax: 0.10.2 / 0.10.1",
        "other version of jaxlib: 0.10.2 / 0.10.1",
        "other packages: numpy 2.4.6 / 2.5.0",
    )
