"""Which parts of a folder are audited, and by which round."""

import shutil
from pathlib import Path

import pytest

from compliance import audit, folders
from compliance.folders import Kind
from compliance.logs import files
from formats.checks import RequiredBy, Verdict
from tests.support import tree as runs

FIELD = Path(__file__).parent / "field"


def _kinds(directory):
    found = folders.find(directory, files.walk(directory).entries)
    return [(unit.kind, unit.folder.relative_to(directory).as_posix()) for unit in found]


def test_every_run_directory_submission_and_folder_of_logs_below_is_audited(measured, tmp_path):
    shutil.copytree(measured("Offline"), tmp_path / "sweep" / "quick-1")
    shutil.copytree(measured("SingleStream") / "open", tmp_path / "theirs" / "open")
    shutil.copytree(FIELD / "round-v5.1", tmp_path / "logs" / "a")
    assert _kinds(tmp_path) == [
        (Kind.LOGS, "logs/a"),
        (Kind.RUN, "sweep/quick-1"),
        (Kind.SUBMISSION, "theirs"),
    ]
    report = audit.audit(tmp_path)
    assert report.passes("quick") and report.round == "v5.1, v6.1"
    assert report.round_chosen_by.startswith("v5.1 by the seeds in the logs; v6.1 by record.json")
    places = [line.place for line in report.results]
    assert places[0] == "logs/a" and places[2].startswith("theirs/open/")
    assert all(check.place for check in report.checks)


def test_a_submitters_folder_is_audited_alone(run, tmp_path):
    whole = shutil.copytree(run / "open", tmp_path / "open")
    folder = shutil.copytree(whole / runs.SUBMITTER, tmp_path / "elsewhere" / runs.SUBMITTER)
    for each in (whole / runs.SUBMITTER, folder):
        assert _kinds(each) == [(Kind.SUBMITTER, ".")]
        report = audit.audit(each)
        assert report.passes("quick") and report.results[0].division == "open"


@pytest.mark.parametrize("content", [None, "assets/a.png"])
def test_nothing_to_audit_does_not_pass(tmp_path, content):
    if content:
        (tmp_path / content).parent.mkdir()
        (tmp_path / content).write_text("x")
    report = audit.audit(tmp_path)
    (check,) = report.checks
    assert not report.passes("quick", strict=False)
    assert ("it has only assets" if content else "it is empty") in check.detail


def test_the_rounds_text_is_stricter_than_its_checker(run, tmp_path):
    shutil.copytree(run / "open", tmp_path / "theirs" / "open")
    (tmp_path / "theirs" / "open" / runs.SUBMITTER / "results.zip").write_text("x")
    report = audit.audit(tmp_path / "theirs")
    (check,) = [c for c in report.checks_for("quick") if c.verdict is Verdict.FAIL]
    assert check.required_by is RequiredBy.RULES
    assert report.passes("quick", strict=False) and not report.passes("quick", strict=True)
    assert "--strict" in report.sentence("quick", strict=False)


def test_a_run_directory_is_always_judged_strictly(run):
    (run / "open" / runs.SUBMITTER / "results.zip").write_text("x")
    assert not audit.audit(run).passes("quick", strict=False)


def test_a_round_is_recognised_by_the_version_without_seeds(tmp_path):
    folder = shutil.copytree(FIELD / "latency-limit", tmp_path / "logs")
    log = folder / "mlperf_log_detail.txt"
    lines = [line for line in log.read_text().splitlines() if "_rng_seed" not in line]
    log.write_text("\n".join(lines))
    report = audit.audit(folder)
    assert (report.round, report.round_chosen_by) == ("v6.1", "by LoadGen's version in the logs")
