"""A cell over time: where it got slower, and with which version of what."""

import json

import jsonschema

from harness import cli
from harness.comparison import history
from harness.execution.environments import ROOT
from tests.support.files import read_json
from tests.support.reports import groups
from tests.support.synthetic_runs import VERSIONS, cell, write

OLD, NEW = {**VERSIONS, "numpy": "2.4.6"}, {**VERSIONS, "numpy": "2.5.0"}
NEWER = {"environment": {"versions": {**VERSIONS, "jax": "0.11"}}}


def test_the_version_with_which_a_cell_got_slower_is_named(tmp_path, capsys):
    write(tmp_path, cell(), [100, 101, 99, 100])
    write(tmp_path, cell(), [80, 81, 79, 80], day=2, record=NEWER)
    (trend,) = history.trends(groups(tmp_path))
    assert trend.figures == (100, 101, 99, 100, 80, 81, 79, 80) and len(trend.changes) == 1
    assert trend.sentence.startswith("slower: it is 0.80")
    assert trend.sentence.endswith("since 2026-03-02T00:00 (other version of jax: 0.10.2 / 0.11)")
    assert cli.main(["report", str(tmp_path), "--history", "--json"]) == 0
    jsonschema.validate(
        json.loads(capsys.readouterr().out), read_json(ROOT / "compliance/schemas/report.json")
    )


def test_releases_are_named_after_a_more_important_difference(tmp_path):
    git = {"git": {"revision": "b" * 40, "worker_source_sha256": "2"}}
    write(tmp_path, cell(), [100, 101, 99, 100])
    write(tmp_path, cell(), [80, 81, 79, 80], day=2, record={**NEWER, **git})
    (trend,) = history.trends(groups(tmp_path))
    assert "(other source of the SUTs or the worker: revision aaaaaaaaaaaa" in trend.sentence
    assert trend.sentence.endswith("; other version of jax: 0.10.2 / 0.11)")


def test_a_package_that_is_none_of_the_suts_own_begins_a_new_section(tmp_path):
    write(tmp_path, cell(), [100, 101, 99, 100], record={"environment": {"versions": OLD}})
    write(tmp_path, cell(), [80, 81, 79, 80], day=2, record={"environment": {"versions": NEW}})
    (trend,) = history.trends(groups(tmp_path))
    assert trend.sentence.endswith("since 2026-03-02T00:00 (other packages: numpy 2.4.6 / 2.5.0)")


def test_a_change_that_shows_no_difference_is_said_so(tmp_path):
    write(tmp_path, cell(), [100, 103, 97])
    write(tmp_path, cell(), [101, 98, 102], day=2, record=NEWER)
    (trend,) = history.trends(groups(tmp_path))
    assert trend.sentence == "6 runs, 1 change; no difference of speed shown"


def test_cells_that_changed_come_first_and_single_runs_not_at_all(tmp_path):
    write(tmp_path, cell("keras3-jax"), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [100, 101, 99])
    write(
        tmp_path,
        cell("keras3-torch"),
        [50, 51, 49],
        day=2,
        record={"git": {"revision": "b" * 40, "worker_source_sha256": "2"}},
    )
    write(tmp_path, cell("native-torch-eager"), [100])
    trends = history.trends(groups(tmp_path))
    assert [trend.sut for trend in trends] == ["keras3-torch", "keras3-jax"]
    assert trends[0].changes[0].what == (
        "other source of the SUTs or the worker: revision aaaaaaaaaaaa / bbbbbbbbbbbb",
    )
    assert trends[1].sentence.startswith("3 runs, nothing changed: 100 samples/s (")


def test_nothing_measured_twice_is_one_sentence(tmp_path, capsys):
    write(tmp_path, cell(), [100])
    assert cli.main(["report", str(tmp_path), "--history"]) == 2
    assert "has no cell that was measured twice" in capsys.readouterr().err


def test_a_cell_that_fails_now_is_told_first(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [None, None], day=2)
    first, second = history.trends(groups(tmp_path))
    assert (first.sut, second.sut) == ("keras3-torch", "keras3-jax")
    assert first.sentence.endswith(
        "; the last 2 runs are not ok since 2026-03-02T00:00 (oom: the kernel killed the worker)"
    )
    assert first.figures == second.figures == (100, 101, 99)
