"""Run directories as rows: what is a repeat of what, and what a failed cell shows."""

import importlib.util
import json

import pytest

from harness import result
from harness.comparison import tables
from harness.comparison.runs import find
from tests.support.reports import groups
from tests.support.synthetic_runs import NOISE, VERSIONS, cell, write


def test_repeats_of_a_cell_are_one_row_with_all_columns(tmp_path):
    write(tmp_path, cell(), [100, 102, 98])
    (group,) = groups(tmp_path)
    row = tables.row(group)
    assert (row["repeats"], row["unit"], row["figures"]) == (3, "samples/s", [100, 102, 98])
    assert row["figure"] == pytest.approx((100 * 102 * 98) ** (1 / 3))
    assert row["low"] < row["figure"] < row["high"] and row["ranked"]
    assert row["ms_per_step"] == pytest.approx(320) and row["compile_seconds"] == 4.0
    assert row["machine"] == "A processor, 2 threads, 8 GiB" and row["versions"]["jax"] == "0.10.2"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"record": {"machine": {"cpu": "Another"}}}, "machine"),
        ({"record": {"machine": {"cpu_quota": 1.0}}}, "quota"),
        ({"record": {"machine": {"memory_limit_bytes": 1 << 30}}}, "memory limit"),
        ({"record": {"environment": {"versions": {**VERSIONS, "jax": "0.11"}}}}, "version"),
        ({"mode": "valid"}, "mode"),
        ({"planned_ms": 1000}, "duration"),
        ({"record": {"git": {"revision": "b" * 40, "worker_source_sha256": "2"}}}, "source"),
    ],
)
def test_runs_of_another_kind_are_no_repeats(tmp_path, second, why):
    write(tmp_path, cell(), [100])
    write(tmp_path, cell(), [100], **second)
    assert len(groups(tmp_path)) == 2, why


def test_limits_of_control_groups_that_take_nothing_away_make_no_other_machine(tmp_path):
    write(tmp_path, cell(), [100])
    unlimiting = {"cpu_quota": 2.0, "memory_limit_bytes": 8 << 30}
    write(tmp_path, cell(), [100], record={"machine": unlimiting})
    (group,) = groups(tmp_path)
    assert len(group.runs) == 2


@pytest.mark.parametrize(("device", "count"), [("cuda", 2), ("cpu", 1)])
def test_another_driver_concerns_the_runs_on_its_gpu(tmp_path, device, count):
    for driver in ("550.54", "570.86"):
        gpu = {"name": "A GPU", "memory_bytes": 1 << 30, "driver": driver}
        record = {"machine": {"accelerators": [gpu]}}
        write(tmp_path, cell(device=device), [100], record=record)
    assert len(groups(tmp_path)) == count


def test_runs_follow_one_another_by_the_time_and_not_by_the_clock_of_their_zone(tmp_path):
    write(tmp_path, cell(), [100], record={"started": "2026-10-25T02:50:00+0200"})
    # The hour that comes twice.
    write(tmp_path, cell(), [200], record={"started": "2026-10-25T02:10:00+0100"})
    write(tmp_path, cell(), [300], record={"started": "2026-10-25T00:40:00+0000"})
    (group,) = groups(tmp_path)
    assert group.figures == [300, 100, 200]


def test_a_version_the_sut_does_not_use_makes_no_other_row(tmp_path):
    write(tmp_path, cell(), [100])
    write(tmp_path, cell(), [100], record={"environment": {"versions": {**VERSIONS, "torch": "9"}}})
    assert len(groups(tmp_path)) == 1


def test_a_cell_that_failed_is_a_row_with_its_reason(tmp_path):
    write(tmp_path, cell("keras3-torch"), [None])
    row = tables.row(groups(tmp_path)[0])
    failed = {"status": "oom", "reason": "the kernel killed the worker", "figure": None}
    assert row | failed | {"repeats": 0, "ranked": False} == row


def test_a_run_that_failed_before_it_told_versions_joins_its_cell(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell(), [None], day=2, record={"environment": {"versions": {}}})
    (group,) = groups(tmp_path)
    assert len(group.runs) == 4 and len(group.good) == 3 and group.last.metric


def test_a_result_without_any_other_file_is_a_row_too(tmp_path):
    (directory,) = write(tmp_path, cell(), [None])
    (directory / "record.json").unlink()
    (directory / "raw/performance/job.json").unlink()
    assert tables.row(groups(tmp_path)[0])["machine"] is None


def test_repeats_measured_in_turns_are_compared_in_pairs(tmp_path):
    write(tmp_path / "turns", cell(), [100, 120, 80], first_minute=0)
    write(tmp_path / "turns", cell("keras3-torch"), [50, 60, 40], first_minute=1)
    write(tmp_path / "blocks", cell("native-torch-eager"), [50, 60, 40], first_minute=60)
    (a, b), (c,) = groups(tmp_path / "turns"), groups(tmp_path / "blocks")
    assert tables.ratio(a, b).method == "paired t" and tables.ratio(a, b).different
    assert tables.ratio(a, c).method == "Welch t"


def test_repeats_of_a_sweep_are_pairs_and_what_has_no_partner_is_left_out(tmp_path):
    write(tmp_path, cell("keras3-jax"), [200, 220, 240, 260], sweep="s-1")
    write(tmp_path, cell("native-torch-eager"), [100, 110, None, 130], day=2, sweep="s-1")
    jax, eager = groups(tmp_path)
    ratio = tables.ratio(jax, eager)
    assert (ratio.method, ratio.repeats, ratio.value) == ("paired t", (3, 3), pytest.approx(2))


def test_a_control_run_is_no_repeat_of_its_cell(tmp_path):
    write(tmp_path, cell(), [100, 100, 100], sweep="s-1")
    write(tmp_path, cell(), [90, 90, 90], sweep="s-1", control=True)
    (group,) = groups(tmp_path)
    (control,) = tables.grouped(find(tmp_path)[0], controls=True)
    assert (group.figures, control.figures) == ([100] * 3, [90] * 3)


def test_replicas_of_a_cluster_are_no_other_programs(tmp_path):
    write(tmp_path, cell(replicas="2", cluster="ray"), [100, 101, 99], disturbance=NOISE)
    (group,) = groups(tmp_path)
    assert not any("other programs" in reason for reason in group.unranked)


def test_a_disturbance_of_most_repeats_keeps_the_row_from_the_ranking(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell(), [100], day=2, disturbance=NOISE)
    (group,) = groups(tmp_path)
    assert group.unranked == () and "1 of 4 repeats was disturbed" in group.advice[0]
    write(tmp_path, cell(), [100] * 4, day=3, disturbance=NOISE)
    (group,) = groups(tmp_path)
    assert group.unranked[0].startswith(
        "5 of 8 repeats were disturbed: other programs used 150% of a processor"
    )


@pytest.mark.parametrize(("cause", "ranked"), [("accuracy", False), ("speed", True)])
def test_a_wrong_answer_among_the_repeats_is_told_and_keeps_the_row_from_the_ranking(
    tmp_path, cause, ranked
):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell(), [100], day=2, status="invalid", cause=cause, reason="it is wrong")
    (group,) = groups(tmp_path)
    assert group.advice[0] == f"1 of 4 runs is not ok: invalid ({cause}): it is wrong"
    row = tables.row(group)
    assert (row["status"], row["repeats"], row["failed"], row["ranked"]) == ("ok", 3, 1, ranked)


def test_what_a_sweep_measured_again_with_success_did_not_fail(tmp_path):
    write(tmp_path, cell(), [None, 100, 101], sweep="s-1")
    write(tmp_path, cell(), [99], day=2, sweep="s-1")
    (group,) = groups(tmp_path)
    assert len(group.good) == 3 and group.failed == () and group.advice == []


@pytest.mark.parametrize(
    "elsewhere", [{"machine": {"cpu": "Another"}}, {"git": {"worker_source_sha256": "2"}}]
)
def test_a_failure_of_another_machine_or_source_joins_no_figures_of_this_one(tmp_path, elsewhere):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell(), [None], day=2, record={"environment": {"versions": {}}, **elsewhere})
    assert sorted(len(group.runs) for group in groups(tmp_path)) == [1, 3]


def test_the_table_is_a_list_of_dicts_where_pandas_is_not_there(tmp_path, monkeypatch):
    write(tmp_path, cell(), [100])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (row,) = result.table(tmp_path)
    assert row["sut"] == "keras3-jax" and json.dumps(row)


def test_what_lies_within_a_run_directory_is_no_run(tmp_path):
    (directory,) = write(tmp_path, cell(), [100])
    write(directory / "open", cell("keras3-torch"), [50])
    assert [r.cell.sut for r in find(tmp_path)[0]] == ["keras3-jax"]
