"""Folders of LoadGen's logs without a submission around them."""

import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from compliance import audit
from formats.checks import Verdict
from tests.support import mutations as m
from tests.support.long import long_unless
from tests.support.mutations import ANSWERS, DETAIL, SUMMARY
from tests.support.tree import with_entries

FIELD = Path(__file__).parent / "field"


def _copy(name, to):
    return shutil.copytree(FIELD / name, to)


def _change(folder, name, old, new):
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")


def _logged(folder, **values):
    """Set keys of the detail log, as `tree.detail` does."""
    log = folder / DETAIL
    log.write_text(with_entries(log.read_text(encoding="utf-8"), **values), encoding="utf-8")


def _failed(report, level="valid"):
    return [c.id for c in report.checks_for(level) if c.verdict is Verdict.FAIL]


def _explained(report):
    (line,) = report.results
    return "\n".join(line.explained)


def test_a_published_log_of_an_earlier_round_is_judged_by_that_round(tmp_path):
    report = audit.audit(_copy("round-v5.1", tmp_path / "logs"))
    assert (report.round, report.round_chosen_by) == ("v5.1", "by the seeds in the logs")
    assert not _failed(report) and report.passes("valid")
    (check,) = [c for c in report.checks if c.id == "performance-loadgen"]
    assert check.verdict is Verdict.MANUAL and "5.0.25" in check.detail


@pytest.mark.parametrize("version", ["6.0.17", "4.1.0", "6.1.0", "a version"])
def test_a_loadgen_that_cannot_have_the_seeds_of_its_round_fails(tmp_path, version):
    folder = _copy("built-outside-git", tmp_path / "logs")
    _change(folder, DETAIL, "6.0.10 @ NA", f"{version} @ NA")
    assert "performance-loadgen" in _failed(audit.audit(folder, "v6.0"))


def test_a_loadgen_built_outside_git_is_not_a_changed_source(tmp_path):
    folder = _copy("built-outside-git", tmp_path / "logs")
    assert _failed(audit.audit(folder)) == ["user-conf-keys"]
    _logged(folder, loadgen_git_status_message=" M x")
    assert "performance-loadgen" in _failed(audit.audit(folder))


def test_the_limit_that_made_a_result_invalid_is_named_with_its_lines(tmp_path):
    report = audit.audit(_copy("latency-limit", tmp_path / "logs"))
    text = _explained(report)
    assert "line 80: LoadGen says INVALID" in text
    assert "over the limit target_latency 10 ms (line 45; user.conf line 2:" in text
    assert "resnet50.Server.target_latency = 10); v6.1 allows resnet 15 ms" in text
    assert "min_duration ended the test" in text
    assert "loadgen-verdict" in _failed(report, "quick")


def test_the_count_that_ended_a_test_and_equal_issue_out_of_reach_are_named(tmp_path):
    text = _explained(audit.audit(_copy("equal-issue", tmp_path / "logs")))
    assert "line 66: max_query_count ended the test early" in text
    assert "equal issue (sample_concatenate_permutation) needs a multiple of the 64" in text
    assert "max_query_count 32 (line 46; user.conf line 2:" in text


def test_a_number_of_user_conf_that_loadgen_cuts_off_is_named_with_its_line(tmp_path):
    folder = _copy("latency-limit", tmp_path / "logs")
    _change(folder, "user.conf", "target_latency = 10", "target_latency = 10.5")
    (check,) = [c for c in audit.audit(folder).checks if c.id == "user-conf-keys"]
    (fault,) = check.faults
    assert fault.line == 2 and "target_latency = 10.5 is read as 10 by LoadGen" in fault.text
    assert "performance-requested-settings" not in _failed(audit.audit(folder))
    words = "target_latency = 10.5, which is read as 10 by LoadGen"
    assert words in _explained(audit.audit(folder))


def test_a_user_conf_that_loadgen_refuses_sets_nothing(tmp_path):
    folder = _copy("latency-limit", tmp_path / "logs")
    _change(folder, "user.conf", "target_latency = 10", "target_latency = 10 # ms")
    report = audit.audit(folder)
    faults = {check.id: [fault.text for fault in check.faults] for check in report.checks}
    assert "line 2, " in faults["user-conf-keys"][0]
    assert "return code -22" in faults["user-conf-keys"][0]
    refused = (
        "LoadGen refuses user.conf, and its default is target_qps = 1; requested_server_target"
    )
    assert any(text.startswith(refused) for text in faults["performance-requested-settings"])
    assert "LoadGen refuses user.conf)" in _explained(report)


def test_a_comment_of_user_conf_may_have_any_bytes(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    text = (folder / "user.conf").read_bytes()
    (folder / "user.conf").write_bytes(b"# f\xfcr\r\n" + text.replace(b"\n", b"\r\n"))
    assert not _failed(audit.audit(folder))


def test_a_user_conf_above_the_folder_is_used_up_to_the_audited_directory(tmp_path):
    folder = _copy("latency-limit", tmp_path / "results" / "performance" / "run_1")
    shutil.move(folder / "user.conf", tmp_path / "results" / "user.conf")
    assert "user.conf line 2" in _explained(audit.audit(tmp_path / "results"))
    assert "there is no user.conf" in _explained(audit.audit(folder))


@pytest.mark.parametrize("test", ["TEST01", "TEST04"])
def test_an_ordinary_run_in_the_folder_of_a_compliance_test_is_said(tmp_path, test):
    _copy("round-v5.1", tmp_path / test / "performance" / "run_1")
    report = audit.audit(tmp_path)
    assert _failed(report, "quick") == [f"{test.lower()}-settings"]


def test_a_summary_alone_shows_no_reason(tmp_path):
    folder = _copy("latency-limit", tmp_path / "logs")
    (folder / DETAIL).unlink()
    report = audit.audit(folder)
    details = [c.detail for c in report.checks]
    assert not report.passes("quick")
    assert "the summary says INVALID, and no detail log shows why" in details


def _said(report):
    """Every sentence of an audit."""
    said = [text for check in report.checks for text in (check.detail, check.fix)]
    faults = [fault for check in report.checks for fault in check.faults]
    said += [text for fault in faults for text in (fault.text, fault.expected, fault.found)]
    lines = [sentence for line in report.results for sentence in (line.sentence, *line.explained)]
    return said + lines


def _failures(report):
    return [c.detail for c in report.checks_for("valid") if c.verdict is Verdict.FAIL]


@pytest.mark.parametrize("name", ["round-v5.1", "latency-limit"])
def test_a_log_that_stops_has_one_sentence_wherever_it_stops(tmp_path, name):
    folder = _copy(name, tmp_path / "logs")
    lines = (folder / DETAIL).read_text(encoding="utf-8").splitlines(keepends=True)
    (end,) = (n for n, line in enumerate(lines, 1) if '"result_validity"' in line)
    for last in range(1, end):
        (folder / DETAIL).write_text("".join(lines[:last]), encoding="utf-8")
        expected = f"the test did not end: the log stops at line {last}"
        if last == end - 1:
            expected = f"the log stops at line {last}, before LoadGen's verdict"
        assert _failures(audit.audit(folder)) == [expected]
    (folder / DETAIL).write_text("".join(lines[:end])[:-40], encoding="utf-8")
    assert f"the log stops at line {end}, before" in _failures(audit.audit(folder))[0]


@pytest.mark.parametrize("every", long_unless([9, 1000], lambda every: every < 100))
@pytest.mark.parametrize("name", ["round-v5.1", "latency-limit", "equal-issue"])
def test_no_sentence_shows_a_missing_value_as_python_does_or_a_command_of_ours(
    tmp_path, name, every
):
    folder = _copy(name, tmp_path / "logs")
    lines = (folder / DETAIL).read_text(encoding="utf-8").splitlines(keepends=True)
    for first in range(min(every, len(lines))):
        kept = [line for n, line in enumerate(lines) if n % every != first]
        (folder / DETAIL).write_text("".join(kept), encoding="utf-8")
        for sentence in _said(audit.audit(folder)):
            assert not re.search(r"\bNone\b|--mode|run\.sh", sentence), lines[first][:60]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace('latency. "', 'latency.\n"'),
        lambda text: text.replace('latency. "', 'latency.\n * TPOT constrain not met."'),
    ],
)
def test_line_ends_of_windows_and_within_values_change_no_finding(tmp_path, change):
    folder = _copy("latency-limit", tmp_path / "logs")
    before = _failed(audit.audit(folder))
    text = (folder / DETAIL).read_text(encoding="utf-8")
    assert change(text) != text
    (folder / DETAIL).write_text(change(text), encoding="utf-8", newline="")
    assert _failed(audit.audit(folder)) == before


def test_an_error_with_a_path_of_windows_is_quoted(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    text = (folder / DETAIL).read_text(encoding="utf-8")
    first, rest = text.split("\n", 1)
    version = first.split('"value": "')[1].split('"')[0]
    error = first.replace('"loadgen_version"', '"error_invalid_config"')
    error = error.replace(version, r"can't open file D:\loadgen\mlperf.conf")
    error = error.replace('"is_error": false', '"is_error": true')
    (folder / DETAIL).write_text(f"{first}\n{error}\n{rest}", encoding="utf-8")
    report = audit.audit(folder)
    assert _failed(report) == ["performance-errors"]
    expected = r"line 2: error_invalid_config: can't open file D:\loadgen\mlperf.conf"
    assert expected in _failures(report)[0]


def test_a_rate_that_is_infinite_is_named(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    _change(folder, DETAIL, '"value": 119.465', '"value": inf')
    _change(folder, SUMMARY, "Samples per second: 119.465", "Samples per second: inf")
    (detail,) = _failures(audit.audit(folder))
    assert detail == "result_samples_per_second is inf; it must be a number"


def test_an_empty_summary_has_one_sentence(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    (folder / SUMMARY).write_text("")
    assert _failures(audit.audit(folder)) == ["the file is empty"]
    (folder / DETAIL).write_text("")
    assert _failures(audit.audit(folder)) == ["the file is empty"]


def test_a_compressed_log_is_to_be_unpacked(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    (folder / DETAIL).rename(folder / f"{DETAIL}.gz")
    (folder / SUMMARY).unlink()
    assert _failures(audit.audit(folder)) == [f"{DETAIL} is missing: unpack {DETAIL}.gz"]


def _date_moved(name, to, hours):
    """A log whose test_datetime is so many hours later."""
    folder = _copy(name, to)
    by = timedelta(hours=hours)
    later = lambda date: f"{datetime.fromisoformat(date) + by:%Y-%m-%dT%H:%M:%SZ}"  # noqa: E731
    _logged(folder, test_datetime=later)
    return folder


@pytest.mark.parametrize("hours", [24, -24, 14.5, 0.1, 5 * 365 * 24])
@pytest.mark.parametrize("name", ["round-v5.1", "latency-limit"])
def test_dates_that_no_time_zone_explains_fail(tmp_path, name, hours):
    report = audit.audit(_date_moved(name, tmp_path / "logs", hours))
    assert "dates" in _failed(report, "quick")
    assert any("a time zone is whole quarters of an hour" in text for text in _failures(report))


@pytest.mark.parametrize("hours", [14, -12, 5.75, 0])
def test_dates_of_every_time_zone_pass(tmp_path, hours):
    folder = _date_moved("latency-limit", tmp_path / "logs", hours)
    assert "dates" not in _failed(audit.audit(folder))


@pytest.mark.parametrize(
    ("change", "check", "words"),
    [
        (lambda rows: "".join(rows)[:9999], "accuracy-log", "the file is cut"),
        (
            lambda rows: [*rows[:2], *rows[3:]],
            "accuracy-log",
            "different samples were answered; it must be",
        ),
        (lambda rows: [*rows[:2], rows[1], *rows[3:]], "accuracy-log", "occurs twice"),
        (m.of_other_samples, "accuracy-order", "sample number 0 has index"),
        (lambda rows: [], "accuracy-log", "the file is empty"),
        (lambda rows: ["hello"], "accuracy-log", "line 1 is not a row"),
        (None, "accuracy-log", "mlperf_log_accuracy.json is missing"),
    ],
)
def test_the_answers_of_an_accuracy_test_are_complete_and_in_the_order_of_the_seeds(
    run, change, check, words
):
    folder = run / "raw" / "accuracy"
    assert not _failed(audit.audit(folder), "quick")
    rows = (folder / ANSWERS).read_text().splitlines(keepends=True)
    (folder / ANSWERS).unlink()
    if change:
        (folder / ANSWERS).write_text("".join(change(rows)))
    report = audit.audit(folder)
    assert check in _failed(report, "quick")
    assert any(words in detail for detail in _failures(report))


def test_a_performance_test_has_no_answers(run):
    folder = run / "raw" / "performance"
    shutil.copy(run / "raw" / "accuracy" / ANSWERS, folder / ANSWERS)
    assert _failed(audit.audit(folder), "quick") == ["performance-log-of-answers"]


@pytest.mark.parametrize(
    "other", ["mlperf_log_detail_run2.txt", "20261128_mlperf_log_detail.txt", "run2_detail.txt"]
)
def test_a_log_with_a_prefix_or_a_suffix_is_to_be_renamed(tmp_path, other):
    folder = _copy("round-v5.1", tmp_path / "logs")
    (folder / DETAIL).rename(folder / other)
    (detail,) = _failures(audit.audit(folder))
    assert detail == f"{DETAIL} is missing: rename {other}, whose name has a prefix or a suffix"


def test_a_trace_that_is_compressed_beside_an_empty_one_is_read(run):
    folder = run / "raw" / "performance"
    (folder / "mlperf_log_trace.json").write_text("")
    (check,) = [c for c in audit.audit(folder).checks if c.id == "trace-figures"]
    assert check.verdict is Verdict.PASS


def test_an_empty_user_conf_is_empty(tmp_path):
    folder = _copy("latency-limit", tmp_path / "logs")
    (folder / "user.conf").write_text("")
    assert "user.conf is empty)" in _explained(audit.audit(folder))


@pytest.mark.parametrize("name", ["resnet*", "*net50"])
def test_a_wildcard_within_a_name_is_named(tmp_path, name):
    folder = _copy("latency-limit", tmp_path / "logs")
    _change(folder, "user.conf", "resnet50.Server.target_latency", f"{name}.Server.target_latency")
    (check,) = [c for c in audit.audit(folder).checks if c.id == "user-conf-keys"]
    assert check.detail == (
        f"LoadGen ignores '{name}.Server.target_latency': a `*` stands for every model only if it is"
        " the whole name"
    )


def test_an_error_of_loadgen_is_quoted_whole(tmp_path):
    folder = _copy("equal-issue", tmp_path / "logs")
    error = "Ending early: " + "word " * 50 + "end."
    _change(folder, DETAIL, "Ending early: Max query count reached. query_count 32", error)
    (check,) = [c for c in audit.audit(folder).checks if c.id == "performance-errors"]
    assert f"{error}; num_errors" in check.detail


def test_one_query_is_no_queries(tmp_path):
    text = _explained(audit.audit(_copy("round-v5.1", tmp_path / "logs")))
    assert re.search(r": 1 query of \d+ samples was issued; the limits are", text)


def test_a_target_without_user_conf_may_have_more_digits_than_the_log(tmp_path):
    folder = _copy("latency-limit", tmp_path / "logs")
    (folder / "user.conf").unlink()
    _logged(folder, generated_query_duration=lambda duration_ns: duration_ns + 900)
    assert "counts" not in _failed(audit.audit(folder))


EARLIER = """\
"pid": 442, "tid": 442, "ts": 8187ns : LoadgenVersionInfo:
"pid": 442, "tid": 442, "ts": 8187ns : version : .5a1 @ 5a4803e37b
"pid": 442, "tid": 442, "ts": 46366ns : Scenario : Offline
"pid": 442, "tid": 442, "ts": 60000046366ns : ERROR : Ran out of generated queries to issue.
"""


def test_a_log_of_loadgen_before_1_0_is_not_judged(tmp_path):
    (tmp_path / DETAIL).write_text(EARLIER)
    (tmp_path / SUMMARY).write_text("Scenario : Offline\nResult is : VALID\n")
    report = audit.audit(tmp_path)
    (check,) = report.checks
    assert not report.passes("quick") and report.results[0].scenario == "Offline"
    assert report.sentence("quick") == "level quick does not pass: nothing could be checked"
    assert not report.round_chosen_by
    assert check.verdict is Verdict.NA
    assert check.detail == (
        "LoadGen .5a1 @ 5a4803e37b wrote it in the form before 1.0, which is not judged; line 4"
        " reports an error: 'Ran out of generated queries to issue.'; the summary says VALID"
    )


def test_a_log_of_a_loadgen_before_every_round_is_judged_if_it_has_the_keys(tmp_path):
    folder = _copy("round-v5.1", tmp_path / "logs")
    text = (folder / DETAIL).read_text(encoding="utf-8")
    text = text.replace("5.0.25 @", "4.1 @").replace("1780908523862526354", "1")
    text = text.replace("14771362308971278857", "2").replace("18209322760996052031", "3")
    text = text.replace('"time_ms": 0.015771', '"time_ms": 18446744073708.008016', 1)
    (folder / DETAIL).write_text(text, encoding="utf-8")
    report = audit.audit(folder)
    assert report.round == "v5.1" and "because LoadGen 4.1 is older" in report.round_chosen_by
    assert "performance-detail-log" not in _failed(report) and len(report.checks) > 20
    kept = [line for line in text.splitlines(keepends=True) if "early_stopping_met" not in line]
    (folder / DETAIL).write_text("".join(kept), encoding="utf-8")
    (check,) = audit.audit(folder).checks
    assert check.verdict is Verdict.NA
    assert check.detail == (
        "LoadGen 4.1 @ 5232291860 wrote it, which is older than v5.1, the earliest round that has"
        " rules, and does not log early_stopping_met: it is not judged"
    )
