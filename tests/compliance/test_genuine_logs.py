"""Logs as LoadGen writes them for settings that surprise people: the audit has only the true
complaint, and says what to set.
"""

import pytest

from compliance import audit
from formats.checks import Verdict
from tests.support.mutations import DETAIL
from tests.support.other_scenarios import Kind, measure
from tests.support.tree import with_entries

CONF = {
    "SingleStream": {"min_duration": 200, "min_query_count": 100, "target_latency": 0.5},
    "MultiStream": {"min_duration": 100, "min_query_count": 20, "target_latency": 0.3},
    "Server": {
        "min_duration": 500,
        "min_query_count": 100,
        "target_qps": 200,
        "target_latency": 900,
    },
    "Offline": {"min_duration": 0, "min_query_count": 100, "target_qps": 1},
}
TOKENS = {"use_token_latencies": 1, "ttft_latency": 900, "tpot_latency": 900}


def audited(folder, scenario, mode="PerformanceOnly", rest=None, **conf):
    kind = Kind(scenario, scenario, CONF[scenario] | conf, **rest or {})
    measure(folder / "logs", kind, mode, {})
    return audit.audit(folder / "logs")


def failed(report):
    """The checks that fail at the lowest level, without LoadGen's own verdict."""
    checks = report.checks_for("quick")
    found = {c.id: c for c in checks if c.verdict is Verdict.FAIL}
    found.pop("loadgen-verdict", None)
    return found


def explained(report):
    return "\n".join(report.results[0].explained)


@pytest.mark.parametrize(
    ("scenario", "key", "word", "words"),
    [
        ("SingleStream", "min_query_count", "1e2", "1 by LoadGen: an integer ends"),
        ("SingleStream", "min_query_count", "0100", "64 by LoadGen: a leading 0 means octal"),
        ("Server", "target_latency", "900.5", "900 by LoadGen: an integer ends"),
    ],
)
def test_a_number_that_loadgen_reads_otherwise_is_the_only_fault(
    tmp_path, scenario, key, word, words
):
    faults = failed(audited(tmp_path, scenario, **{key: word}))
    assert list(faults) == ["user-conf-keys"]
    assert f"{key} = {word} is read as {words}" in faults["user-conf-keys"].detail


@pytest.mark.parametrize(
    ("scenario", "percentile"), [("SingleStream", 97.5), ("Server", 95), ("Server", 97.5)]
)
def test_a_log_is_judged_by_its_own_percentile(tmp_path, scenario, percentile):
    report = audited(tmp_path, scenario, target_latency_percentile=percentile)
    assert not failed(report)
    assert f"{percentile:g}th percentile" in explained(report)


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_a_loaded_set_is_never_larger_than_the_library(tmp_path, scenario):
    settings = {"performance_sample_count_override": 100, "sample_concatenate_permutation": 1}
    report = audited(tmp_path, scenario, **settings)
    assert not failed(report)
    (check,) = [c for c in report.checks if c.id == "performance-sample-set"]
    assert "set performance_sample_count_override to 40" in check.detail


def test_an_accuracy_test_takes_no_more_than_the_library(tmp_path):
    settings = {"accuracy_sample_count_override": 100}
    report = audited(tmp_path, "SingleStream", "AccuracyOnly", **settings)
    assert not failed(report)
    (check,) = [c for c in report.checks if c.id == "accuracy-sample-set"]
    assert "set accuracy_sample_count_override to 40" in check.detail


def test_a_negative_rate_is_an_error_and_no_forgery(tmp_path):
    faults = failed(audited(tmp_path, "Offline", target_qps=-3))
    assert list(faults) == ["performance-summary", "performance-errors"]


def test_equal_issue_counts_by_the_set_that_the_sut_states(tmp_path):
    settings = {"performance_sample_count_override": 7, "sample_concatenate_permutation": 1}
    assert not failed(audited(tmp_path, "SingleStream", **settings))


@pytest.mark.parametrize(
    ("scenario", "conf", "words"),
    [
        ("MultiStream", {}, "estimates the 99th percentile from 662 queries on"),
        ("SingleStream", {"min_duration": 0, "min_query_count": 20}, "90th percentile from 64"),
    ],
)
def test_too_few_queries_for_early_stopping_are_no_figure(tmp_path, scenario, conf, words):
    report = audited(tmp_path, scenario, **conf)
    assert not failed(report)
    assert words in explained(report) and "set min_query_count to" in explained(report)


@pytest.mark.parametrize(
    ("scenario", "figure"),
    [
        ("SingleStream", "result_time_to_output_token_min is -"),
        ("Server", "result_time_to_output_token_min is -"),
        ("Offline", "result_tokens_per_second is 0:"),
    ],
)
def test_answers_of_one_token_have_no_figure_of_tokens(tmp_path, scenario, figure):
    faults = failed(audited(tmp_path, scenario, rest={"tokens": 1}, **TOKENS))
    assert list(faults) == ["performance-summary", "performance-errors", "latencies"]
    (fault,) = faults["latencies"].faults
    assert fault.text.startswith(figure) and "report n_tokens of at least 2" in fault.text


def test_a_log_of_both_tests_is_not_judged_as_one(tmp_path):
    (check,) = failed(audited(tmp_path, "SingleStream", "SubmissionRun")).values()
    assert "SubmissionRun" in check.detail and "PerformanceOnly" in check.detail


@pytest.mark.parametrize(
    ("scenario", "key", "word"),
    [
        ("Server", "target_latency", "-1"),
        ("Server", "target_latency", "99999999999999999999"),
        ("Server", "target_latency", "18446744073709"),
        ("Server", "target_latency", "18446744073710"),
        ("Server", "max_duration", "-1"),
        ("SingleStream", "min_duration", "-1"),
        ("Offline", "min_duration", "-1"),
    ],
)
def test_a_number_of_more_than_63_bits_has_no_contradiction(tmp_path, scenario, key, word):
    faults = failed(audited(tmp_path, scenario, **{key: word}))
    (fault,) = faults.pop("user-conf-keys").faults
    assert "by LoadGen" in fault.text
    assert fault.line == 1 + list(CONF[scenario] | {key: word}).index(key)
    settings = {"performance-requested-settings", "performance-effective-settings", "counts"}
    assert not settings & faults.keys()


def test_the_rates_of_tokens_one_by_one_have_one_number_of_tokens(tmp_path):
    report = audited(tmp_path, "SingleStream", rest={"tokens": 5}, use_token_latencies=1)
    assert report.passes("quick")
    log = tmp_path / "logs" / DETAIL
    before = log.read_text()
    for key in (
        "result_token_throughput_with_loadgen_overhead",
        "result_completed_tokens_per_second",
    ):
        log.write_text(with_entries(before, **{key: lambda rate: float(f"{rate * 1.2:.6g}")}))
        detail = failed(audit.audit(tmp_path / "logs"))["latencies"].detail
        assert detail.startswith(f"{key} is ")
