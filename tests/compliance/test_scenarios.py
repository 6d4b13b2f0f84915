"""Server, Interactive, MultiStream and what an edge system infers: real logs are good, and what is
changed in them is seen by name.
"""

import json
import re
import shutil
from functools import cache

import pytest

from compliance import audit
from formats.checks import RequiredBy, Verdict
from tests.support import other_scenarios
from tests.support.audits import checks
from tests.support.other_scenarios import BENCHMARK, KINDS, Built
from tests.support.tree import SYSTEM, with_entries

PERFORMANCE, ACCURACY = "performance/run_1", "accuracy"
SUMMARY = f"{PERFORMANCE}/mlperf_log_summary.txt"
ANSWERS = "accuracy/mlperf_log_accuracy.json"


@pytest.fixture(scope="session")
def submitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submissions")
    return cache(
        lambda kind: other_scenarios.build(folder / re.sub(r"\W+", "-", kind), KINDS[kind])
    )


@pytest.fixture(scope="session")
def good(submitted):
    return cache(lambda kind: checks(submitted(kind).root))


@pytest.fixture
def copy(submitted, tmp_path):
    def get(kind):
        return Built(shutil.copytree(submitted(kind).root, tmp_path / "submission"), KINDS[kind])

    return get


def entries(path, **values):
    """Set keys of a detail log, as `tree.detail` does."""
    path.write_text(with_entries(path.read_text(), **values))


def replaced(path, pattern, new):
    text = path.read_text()
    after = re.sub(pattern, new, text, count=1)
    assert after != text, f"{pattern} changes nothing"
    path.write_text(after)


def performance(**values):
    return lambda built: entries(built.detail, **values)


def reason(text):
    """One more line of the performance test's log, with a reason for the verdict."""

    def change(built):
        lines = built.detail.read_text().splitlines()
        (at,) = (n for n, line in enumerate(lines) if '"early_stopping_met"' in line)
        entry = json.loads(lines[at].removeprefix(":::MLLOG "))
        entry |= {"key": "result_invalid_reason", "value": text}
        lines.insert(at + 1, f":::MLLOG {json.dumps(entry)}")
        built.detail.write_text("\n".join(lines) + "\n")

    return change


def accuracy(**values):
    return lambda built: entries(built.folder / ACCURACY / "mlperf_log_detail.txt", **values)


def compliance_log(name, **values):
    return lambda built: entries(
        built.folder / name / PERFORMANCE / "mlperf_log_detail.txt", **values
    )


def in_file(name, pattern, new):
    return lambda built: replaced(built.folder / name, pattern, new)


def trace(pattern, new):
    return in_file(f"{PERFORMANCE}/mlperf_log_trace.json", pattern, new)


def moved(by):
    return lambda found: f"{found[1]}{int(found[2]) + by}"


def of_sample(number, key, by):
    """One number of a sample's entry is so much larger."""
    return trace(rf'("name":"Sample"[^\n]*"sample_seq":{number},[^\n]*"{key}":)(\d+)', moved(by))


def due(number, by):
    """A query of Server due so many microseconds later."""
    pattern = rf'("name":"Sample","cat":"default","ph":"b","pid":\d+,"id":{number},"ts":)(\d+)'
    return trace(pattern, moved(by))


def system_type(text):
    return lambda built: replaced(
        built.base / "systems" / f"{SYSTEM}.json",
        '"system_type": "edge"',
        f'"system_type": "{text}"',
    )


def renamed(to):
    def change(built):
        built.folder.rename(built.folder.with_name(to))

    return change


def both(*how):
    def change(built):
        for each in how:
            each(built)

    return change


def swapped(values):
    return [values[1], values[0], *values[2:]]


def more(factor):
    return lambda value: float(f"{value * factor:.6g}")


def test_an_empty_sentence_of_early_stopping_is_left_out(copy):
    built = copy("Interactive, too slow")
    entries(built.detail, early_stopping_ttft_result=lambda text: "" if text else " ")
    (line,) = audit.audit(built.detail.parent).results
    (sentence,) = [text for text in line.explained if "early_stopping_met is" in text]
    assert re.search(r"early_stopping_met is \w+: \w+", sentence)


@pytest.mark.parametrize("kind", KINDS)
def test_what_loadgen_wrote_is_good(good, kind):
    """Short as it is, and whatever LoadGen says of it: no check of the lowest level fails, and none
    that recomputes is left out.
    """
    found = good(kind)
    assert not [
        c.line() for c in found.values() if c.level == "quick" and c.verdict is Verdict.FAIL
    ]
    recomputed = (
        *("counts", "latencies", "validity", "early-stopping", "duration", "trace-samples"),
        *("trace-figures", "trace-times", "performance-order", "accuracy-order"),
        *("performance-loaded-set", "performance-effective-settings", "accuracy-sample-set"),
        *(f"{name.lower()}-settings" for name in KINDS[kind].tests),
    )
    for name in recomputed:
        assert found[name].verdict is Verdict.PASS, found[name].line()


def test_the_figure_of_another_percentile_is_not_that_of_the_round(good):
    check = good("SingleStream, the 95th percentile")["performance-latency-percentile"]
    assert check.verdict is Verdict.FAIL and check.level == "valid"
    assert check.required_by is RequiredBy.LOGS


TWO_ANSWERS = in_file(ANSWERS, r'"qsl_idx" : (\d+)(.*\n.*"qsl_idx" : )(\d+)', r'"qsl_idx" : \3\2\1')
"""Two samples change places."""
SERVER = {
    "trace-figures": {
        "a rate a little too high": performance(result_completed_samples_per_sec=more(1.0005)),
        "another schedule's rate": performance(result_scheduled_samples_per_sec=more(1.0005)),
        "a latency": of_sample(20, "complete_ns", 10_000),
    },
    "latencies": {
        "a rate far too high": performance(result_completed_samples_per_sec=10**5),
        "a query over its limit that is not counted": performance(
            result_overlatency_query_count=lambda n: n + 3
        ),
    },
    "performance-effective-settings": {
        "a looser limit than was asked for": performance(
            effective_target_latency_ns=lambda n: 2 * n
        ),
        "queries in one": performance(effective_samples_per_query=2),
        "queries at a time": performance(effective_max_async_queries=7),
    },
    "performance-requested-settings": {
        "a limit that user.conf has not": performance(
            effective_target_latency_ns=10**9, requested_server_target_latency_ns=10**9
        ),
        "a rate that user.conf has not": in_file("user.conf", "987.654321", "987.1"),
    },
    "counts": {
        "a rate in its last digits": in_file("user.conf", "987.654321", "987.653999"),
        "queries generated": performance(generated_query_count=lambda n: n + 1),
        "the duration generated": performance(generated_query_duration=lambda n: n + 1000),
    },
    "validity": {
        "the limit not met": performance(result_perf_constraints_met=False),
    },
    "early-stopping": {
        "early stopping unsuccessful": performance(early_stopping_result=" * Run unsuccessful."),
    },
    "performance-detail-log": {
        "no count of those over the limit": performance(result_overlatency_query_count=None),
        "a key that says when queries are merged": performance(
            requested_server_coalesce_queries=None
        ),
    },
    "trace-times": {
        "a query due later": due(20, 3),
        "an answer before the query": of_sample(20, "issue_start_ns", 10**10),
    },
    "performance-order": {
        "another sample": of_sample(20, "sample_idx", 1),
    },
    "performance-loaded-set": {
        "another loaded set": performance(loaded_qsl_set=swapped),
    },
    "performance-seeds": {
        "the schedule's seed": performance(
            effective_schedule_rng_seed=1, requested_schedule_rng_seed=1
        ),
    },
    "performance-summary": {
        "the summary's rate": in_file(
            SUMMARY,
            "(Completed samples per second    : )",
            r"\g<1>9",
        ),
        "the summary's limit": in_file(SUMMARY, "(constraints satisfied) : Yes", r"\1 : NO"),
    },
    "accuracy-test-and-scenario": {
        "an accuracy test of another scenario": accuracy(
            effective_scenario="Offline", requested_scenario="Offline"
        ),
    },
    "accuracy-order": {
        "two answers changed over": TWO_ANSWERS,
    },
    "accuracy-sample-set": {
        "a sample not issued in the accuracy test": accuracy(generated_query_count=39),
    },
    "test01-samples": {
        "an answer left out of TEST01": in_file(f"TEST01/{ANSWERS}", r"\{ [^\n]*\n", ""),
    },
    "test01-settings": {
        "another limit in TEST01": compliance_log("TEST01", effective_target_latency_ns=10**9),
    },
    "scenario": {
        "a folder of no scenario": renamed("Interactively"),
    },
}
TOO_SLOW = {
    "validity": {
        "said to be within its limit": performance(result_perf_constraints_met=True),
        "said to be VALID": performance(result_validity="VALID"),
    },
    "early-stopping": {
        "said to be enough": performance(early_stopping_result=" * Run successful."),
        "a number of queries that lack": performance(
            early_stopping_result=lambda t: re.sub(r"least \d+", "least 7", t)
        ),
    },
    "latencies": {
        "fewer over the limit": performance(result_overlatency_query_count=1),
    },
}
TOO_FEW = {
    "validity": {
        "said to be enough": performance(early_stopping_met=True, result_validity="VALID"),
    },
    "early-stopping": {
        "said so in words": performance(early_stopping_result=" * Run successful."),
    },
}
INTERACTIVE = {
    "trace-figures": {
        "first tokens sooner": performance(
            result_first_token_99__00_percentile_latency_ns=lambda n: n - 1
        ),
        "first tokens on average": performance(result_first_token_mean_latency_ns=lambda n: n + 1),
        "a first token left out of the trace": trace(
            r'"Token_Latency","ph"', '"Token_Lateness","ph"'
        ),
    },
    "latencies": {
        "first tokens not in order": performance(
            result_first_token_50__00_percentile_latency_ns=10**12
        ),
        "later tokens not in order": performance(
            result_time_per_output_token_99__00_percentile_ns=10**12
        ),
        "later tokens on average": performance(result_time_to_output_token_mean=10**12),
        "tokens a second": performance(result_completed_tokens_per_second=more(1.01)),
        "tokens by latency": performance(result_token_throughput=more(1.01)),
        "tokens by the time of issue": performance(
            result_token_throughput_with_loadgen_overhead=more(1.1)
        ),
    },
    "performance-effective-settings": {
        "the target duration": performance(effective_target_duration_ms=more(1.01)),
    },
    "validity": {
        "a reason that the figures deny": reason(
            "TPOT constrain not met: Reduce target QPS to improve latency."
        ),
        "a limit of first tokens not met": performance(requested_server_ttft_latency=1000),
        "a limit of later tokens not met": performance(requested_server_tpot_latency=1),
    },
    "performance-requested-settings": {
        "a limit that user.conf has not": performance(requested_server_tpot_latency=10**9),
        "tokens not measured": performance(requested_use_token_latencies=None),
    },
    "performance-detail-log": {
        "no first tokens": performance(result_first_token_mean_latency_ns=None),
    },
    "early-stopping": {
        "later tokens said to be too late": performance(
            early_stopping_tpot_result=" * Run unsuccessful."
        ),
    },
    "inferred-scenario": {
        "Server's logs of another scenario": performance(
            effective_scenario="MultiStream", requested_scenario="MultiStream"
        ),
    },
    "performance-summary": {
        "the summary's limit": in_file(
            SUMMARY,
            r"ttft_latency \(ns\): ",
            "ttft_latency (ns): 9",
        ),
    },
}
MULTI_STREAM = {
    "latencies": {
        "a query sooner than its samples": performance(
            result_99__00_percentile_per_query_latency_ns=lambda n: n // 2
        ),
        "the longest query": performance(result_max_query_latency_ns=lambda n: n + 1),
    },
    "trace-figures": {
        "the queries' mean": performance(result_mean_query_latency_ns=lambda n: n + 1),
        "the estimate and what is said of it": both(
            performance(early_stopping_latency_ms=lambda n: n + 1),
            performance(
                early_stopping_result=lambda t: re.sub(
                    r"(\d+)$", lambda found: str(int(found[1]) + 1), t
                )
            ),
        ),
        "the duration not met": performance(result_min_duration_met=False),
    },
    "early-stopping": {
        "the estimate": performance(early_stopping_latency_ms=lambda n: n - 1),
        "so many left out": performance(
            early_stopping_result=lambda t: re.sub(r"discard \d+", "discard 99", t)
        ),
    },
    "performance-effective-settings": {
        "queries of four": performance(effective_samples_per_query=4),
        "least samples": performance(effective_min_sample_count=662),
    },
    "performance-requested-settings": {
        "the expected latency": performance(requested_multi_stream_expected_latency_ns=1_000_000),
        "queries of four in user.conf": in_file(
            "user.conf", r"\A", f"{BENCHMARK}.MultiStream.samples_per_query = 4\n"
        ),
    },
    "counts": {
        "the expected latency in its last digits": in_file("user.conf", "0.9123456789", "0.912349"),
        "queries generated": performance(generated_query_count=lambda n: n + 1),
        "the duration generated": performance(generated_query_duration=lambda n: n + 1),
        "samples of a generated query": performance(generated_samples_per_query=1),
    },
    "trace-samples": {
        "queries issued": performance(result_query_count=lambda n: n - 1),
        "a sample of another query": of_sample(20, "query_seq", 1),
    },
    "performance-order": {
        "a sample that is no neighbour": of_sample(20, "sample_idx", 1),
    },
    "trace-times": {
        "a query before the last was answered": of_sample(20, "complete_ns", 10**9),
    },
    "performance-loaded-set": {
        "a set that does not begin again": performance(
            loaded_qsl_set=lambda values: [*values[:-1], values[20]]
        ),
    },
    "performance-detail-log": {
        "no figures of queries": performance(result_mean_query_latency_ns=None),
    },
    "performance-summary": {
        "the summary's longest query": in_file(SUMMARY, r"(Max latency \(ns\) +: )", r"\g<1>9"),
    },
    "accuracy-order": {
        "two answers changed over": TWO_ANSWERS,
    },
    "test01-samples": {
        "an answer left out of TEST01": in_file(f"TEST01/{ANSWERS}", r"\{ [^\n]*\n", ""),
    },
    "test04-settings": {
        "other queries in TEST04": compliance_log(
            "TEST04", requested_multi_stream_samples_per_query=4
        ),
    },
}
CHANGES = {
    "Server": SERVER,
    "Server, too slow": TOO_SLOW,
    "Server, too few": TOO_FEW,
    "Interactive": INTERACTIVE,
    "MultiStream": MULTI_STREAM,
    "MultiStream, too few": {
        "validity": {
            "said to be enough": performance(early_stopping_met=True, result_validity="VALID"),
        },
        "early-stopping": {
            "an estimate": performance(early_stopping_latency_ms=lambda _: 2_000_000),
        },
    },
    "MultiStream of SingleStream": {
        "inferred-scenario": {
            "not on a system of a datacenter": system_type("datacenter"),
            "not in Server's place": renamed("Server"),
        },
        "trace-figures": {
            "its own rules": performance(early_stopping_latency_ss=lambda n: n + 1),
        },
        "accuracy-test-and-scenario": {
            "an accuracy test of another scenario": accuracy(
                effective_scenario="MultiStream", requested_scenario="MultiStream"
            ),
        },
    },
    "Offline of MultiStream": {
        "inferred-scenario": {
            "not on a system of a datacenter": system_type("datacenter"),
            "not in SingleStream's place": renamed("SingleStream"),
        },
        "trace-figures": {
            "its own rules": performance(result_mean_query_latency_ns=lambda n: n + 1),
        },
    },
}


CASES = [
    pytest.param(kind, name, how, id=f"{kind}: {what}")
    for kind, seen_by in CHANGES.items()
    for name, changes in seen_by.items()
    for what, how in changes.items()
]


@pytest.mark.parametrize(("kind", "name", "how"), CASES)
def test_a_change_is_seen_by_the_check_it_concerns(good, copy, kind, name, how):
    before = good(kind).get(name)
    assert before is None or before.verdict is Verdict.PASS
    built = copy(kind)
    how(built)
    assert checks(built.root)[name].verdict is Verdict.FAIL


@pytest.mark.parametrize("both_of", ["edge,datacenter", "datacenter,edge"])
def test_a_system_of_both_suites_may_infer(copy, both_of):
    built = copy("Offline of SingleStream")
    system_type(both_of)(built)
    found = checks(built.root)["inferred-scenario"]
    assert found.verdict is Verdict.PASS and "Offline is inferred from SingleStream" in found.detail


@pytest.mark.parametrize(("kind", "missed"), [("Interactive", False), ("Server", True)])
def test_whether_latencies_of_tokens_are_measured_is_seen(copy, kind, missed):
    """LoadGen logs it as requested only."""
    built = copy(kind)
    (built.base / "model_mapping.json").write_text(json.dumps({BENCHMARK: "llama3.1-8b"}))
    assert (
        "token latencies are not measured" in checks(built.root)["eligibility"].detail
    ) is missed


def test_the_least_samples_of_offline_are_not_asked_of_logs_it_is_inferred_from(copy):
    built = copy("Offline of SingleStream")
    (built.root / "open").rename(built.root / "closed")
    (benchmark,) = built.root.glob(f"closed/*/results/{SYSTEM}/{BENCHMARK}")
    benchmark.rename(benchmark.with_name("yolo-99"))
    found = checks(built.root)
    assert "benchmark" in found
    assert not [
        check.line() for check in found.values() if "effective_samples_per_query" in check.detail
    ]


def test_v51_has_interactive_too(copy):
    report = audit.audit(copy("Interactive").root, "v5.1")
    assert "scenario" not in [check.id for check in report.checks]


def test_queries_of_four_are_for_the_open_division(good, copy):
    assert good("MultiStream, queries of four")["least-count"].verdict is Verdict.PASS
    built = copy("MultiStream, queries of four")
    (built.root / "open").rename(built.root / "closed")
    assert "4 samples a query; the round requires 8" in checks(built.root)["least-count"].detail
