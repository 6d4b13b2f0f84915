"""The audit as a whole: levels, what may be audited, several scenarios, bare submissions, and the
look at every figure of a log.
"""

import dataclasses
import json
import os
from array import array
from pathlib import Path

import msgspec
import pytest

from compliance import audit, checklist, rules
from compliance import subject as tree
from compliance.checks.logs import latencies
from compliance.checks.submission import layout, metadata
from compliance.findings import verdict
from compliance.folders import result_folders
from compliance.loadgen.log import Log
from compliance.logs import Detail, Line
from formats.checks import Verdict
from tests.support import tree as runs
from tests.support.audits import checks, failed

# What carries no claim: LoadGen's own bookkeeping and texts.
_NO_CLAIM = (
    "logger_",
    "warning_",
    "loadgen_build_date_local",
    "loadgen_git_commit_date",
    "loadgen_git_log_message",
    "get_sut_name_duration_ns",
    "generic_message",
    "generated_query_duration",
    "effective_target_duration_ms",
    "early_stopping_result",
    "qsl_reported_performance_count",
)


@pytest.mark.parametrize("kind", runs.KINDS)
def test_a_quick_run_holds_at_quick_and_not_at_valid(measured, kind):
    assert not failed(measured(kind), "quick")
    assert audit.audit(measured(kind)).levels == ("quick",)
    at_valid = failed(measured(kind), "valid")
    assert [*at_valid] == ["minimum-duration-setting", "measured-duration"]


@pytest.mark.parametrize("kind", runs.KINDS)
def test_what_lives_up_to_the_round_is_valid(measured, kind, monkeypatch):
    real = rules.load("v6.1")
    short = {
        name: msgspec.structs.replace(s, min_duration_ms=300, least_count=32)
        for name, s in real.scenarios.items()
    }
    monkeypatch.setattr(rules, "load", lambda round: msgspec.structs.replace(real, scenarios=short))
    assert not failed(measured(kind), "valid")
    assert audit.audit(measured(kind)).levels == ("quick", "valid")


def test_too_few_queries_for_early_stopping_fail_valid_only(tmp_path):
    run = runs.build(tmp_path / "slow", "SingleStream", "predict", latency_ms=10.0)
    found = checks(run, "valid")
    assert audit.audit(run).levels == ("quick",)
    assert found["validity"].verdict is found["early-stopping"].verdict is Verdict.PASS
    assert found["loadgen-verdict"].verdict is Verdict.FAIL


@pytest.mark.parametrize("kind", runs.KINDS)
@pytest.mark.parametrize("test", tree.TESTS)
def test_no_figure_of_a_log_may_change_or_go_unseen(measured, kind, test):
    chosen = rules.load("v6.1")
    subject = tree.read(result_folders(measured(kind), chosen)[0], chosen)
    keys = [key for key in getattr(subject, test).detail.values if not key.startswith(_NO_CLAIM)]
    assert len(keys) > 50
    for key in keys:
        for new in (_other, False):
            assert _seen(_with(subject, test, key, new)), (key, new)


@pytest.mark.parametrize(
    ("kind", "test"), [("SingleStream", "performance"), ("tokens", "accuracy")]
)
@pytest.mark.long
def test_a_value_of_another_kind_is_never_a_traceback(measured, kind, test):
    chosen = rules.load("v6.1")
    subject = tree.read(result_folders(measured(kind), chosen)[0], chosen)
    for key in getattr(subject, test).detail.values:
        seen = []
        for value in (None, True, 0, -1, 10**30, 1e300, "", "x", [], [None], {}, {"a": None}):
            seen.append(_seen(_with(subject, test, key, value)))
        assert any(seen) or key.startswith(_NO_CLAIM), key


def _seen(subject):
    return any(
        c.verdict is Verdict.FAIL and c.level == "quick"
        for group in checklist.GROUPS
        for c in group.checks(subject)
    )


def _with(subject, test, key, new):
    """`new`: a value, a function of the old one, or False: the key is gone."""
    logged = getattr(subject, test)
    values, lines = dict(logged.detail.values), dict(logged.detail.occurrences)
    value, line = values.pop(key), lines.pop(key)[-1]
    if new is not False:
        values[key] = new(value) if callable(new) else new
        lines[key] = (Line(line.number, key, values[key], line.time_ms),)
    detail = dataclasses.replace(logged.detail, values=values, occurrences=lines)
    return dataclasses.replace(subject, **{test: dataclasses.replace(logged, detail=detail)})


def _other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 3 if abs(value) < 1000 else int(value * 1.01) + 1
    if isinstance(value, float):
        return value * 1.01
    if isinstance(value, array):
        return array("q", [0, 0])
    return {str: "x", list: [0, 0], dict: {}}[type(value)]


def test_a_bare_submission_is_judged_by_what_it_holds(bare):
    found = {key: check.verdict for key, check in checks(bare, "quick").items()}
    assert Verdict.FAIL not in found.values()
    for key in ("performance-seeds", "validity", "system-description"):
        assert found[key] is Verdict.PASS
    of_a_run = {"performance-evidence", "digests", "raw-logs", "record", "record-json", "tolerance"}
    assert not of_a_run & found.keys()
    assert found["accuracy-log"] is found["accuracy-hash"] is Verdict.MANUAL


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_a_short_log_in_a_bare_submission_is_checked_whole(bare):
    found = checks(bare / "open", "quick")
    assert found["accuracy-log"].verdict is found["accuracy-hash"].verdict is Verdict.PASS


def test_two_scenarios_are_told_apart_by_their_paths(two_scenarios):
    assert not failed(two_scenarios, "quick")
    found = checks(two_scenarios, "quick")
    for name in ("Offline", "SingleStream"):
        folder = f"open/{runs.SUBMITTER}/results/{runs.SYSTEM}/bert-tiny/{name}"
        assert found[f"{folder}/validity"].verdict is Verdict.PASS


def test_the_division_itself_may_be_given(run):
    assert audit.audit(run / "open").checks_for("quick") == audit.audit(run).checks_for("quick")


@pytest.mark.parametrize("content", ["nothing", "an unfinished run", "a file"])
def test_where_no_tree_is_one_check_says_what_was_looked_for(tmp_path, content):
    directory = tmp_path / "place"
    if content == "a file":
        directory.write_text("x")
    else:
        (directory / ("raw" if content == "an unfinished run" else "other")).mkdir(parents=True)
    (check,) = audit.audit(directory).checks_for("quick")
    assert check.verdict is Verdict.FAIL and "open/" in check.detail and check.fix
    assert not verdict.passes([check]) and audit.audit(directory).levels == ()


def test_a_directory_that_is_not_there_is_a_finding(tmp_path):
    (check,) = audit.audit(tmp_path / "nowhere").checks_for("quick")
    assert check.verdict is Verdict.FAIL


def test_an_unknown_round_is_a_finding_that_names_the_rounds(run):
    (check,) = audit.audit(run, "v0.5").checks_for("quick")
    assert check.verdict is Verdict.FAIL and "v6.1" in check.detail


def test_checks_as_json_are_as_their_schema_says(run):
    (runs.scenario_folder(run) / "README.md").unlink()
    told = json.loads(json.dumps(dataclasses.asdict(audit.audit(run).document("here", "valid"))))
    assert not metadata.faults_of(told, "audit")
    assert not told["holds"]
    assert told["levels"] == []
    assert told["round"] == "v6.1"


def test_a_folder_that_cannot_be_listed_is_the_one_finding(run, monkeypatch):
    scandir = os.scandir

    def refusing(path):
        if Path(path).name == "accuracy":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    (check,) = audit.audit(run).checks_for("quick")
    assert "raw/accuracy cannot be listed (Permission denied)" in check.detail
    assert check.verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("1971.00", 1971, True),
        ("151938.42", 151938, True),
        ("1971.31", 1971.31, True),
        ("1972.00", 1971, False),
        ("1971", 1971, True),
        ("1972", 1971, False),
        ("Yes", True, True),
        ("NO", True, False),
    ],
)
def test_a_rate_that_happens_to_be_whole_is_the_same_in_both_logs(text, value, same):
    assert layout._same(text, value) is same


@pytest.mark.parametrize(("every_ms", "faults"), [(300.0, 0), (500.0, 1)])
def test_of_two_queries_the_first_may_be_the_long_one(every_ms, faults):
    """300 ms and 100 ms: from the first issue to the last 300 ms pass, and the mean is 200."""
    values = {
        "result_query_count": 2,
        "result_mean_latency_ns": 200_000_000,
        "result_min_latency_ns": 100_000_000,
        "result_qps_without_loadgen_overhead": 5,
        "result_qps_with_loadgen_overhead": 1e3 / every_ms,
    }
    log = Log.of(Detail(values, {}, (), (), ()), "SingleStream", rules.load("v6.1"))
    assert len(list(latencies._single_stream(log))) == faults
