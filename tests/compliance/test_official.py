"""What a benchmark asks for in the closed division, told in the open one: counts, settings,
accuracy, scenarios, tests of its own.
"""

import json
import shutil

import msgspec
import pytest

from compliance import rules
from compliance import subject as tree
from compliance.checks.submission import benchmark
from compliance.folders import result_folders
from formats.checks import Verdict
from tests.support import tree as runs
from tests.support.audits import checks
from tests.support.mutations import document

V61 = rules.load("v6.1")
GOOD = '{"exact_match": 80.0, "f1": 90.5}\n'
NAME = "bert-99"


def _rules(**changed):
    """bert-99 of as many samples as the tests' own runs have, which asks for Offline alone."""
    counts = {"performance_sample_count": 256, "dataset_size": 256, "offline_samples": 1}
    small = {**counts, "required": {"edge": ("Offline",)}, **changed}
    row = msgspec.structs.replace(V61.benchmarks[NAME], **small)
    return msgspec.structs.replace(V61, benchmarks={**V61.benchmarks, NAME: row})


@pytest.fixture
def closed(run, tmp_path):
    """The good tree as a closed submission of bert-99, without its run directory."""
    root = tmp_path / "submission"
    base = root / "closed" / runs.SUBMITTER
    shutil.copytree(run / "open" / runs.SUBMITTER, base)
    (base / "model_mapping.json").unlink()
    document("closed/*/systems/*.json", division="closed")(root)
    for folder in (base / "src", base / "results" / runs.SYSTEM):
        (folder / "bert-tiny").rename(folder / NAME)
    text = _folder(root) / "accuracy" / "accuracy.txt"
    text.write_text(GOOD + text.read_text().split("\n", 1)[1])
    return root


def _folder(root):
    return root / "closed" / runs.SUBMITTER / "results" / runs.SYSTEM / NAME / "Offline"


def _found(root, of=None):
    (place,) = result_folders(root, of or _rules())
    return {check.key: check for check in benchmark.checks(tree.read(place, of or _rules()))}


def test_a_closed_submission_that_is_as_the_benchmark_asks_passes(closed):
    assert {name: str(check.verdict) for name, check in _found(closed).items()} == {
        "benchmark": "PASS",
        "accuracy-target": "PASS",
        "scenarios": "PASS",
    }


def test_the_open_division_is_told_what_differs_and_not_refused(run):
    (place,) = result_folders(run, V61)
    subject = tree.read(place, V61)
    assert {check.verdict for check in benchmark.checks(subject)} == {Verdict.NA}
    reasons = checks(run, "quick")["eligibility"].detail
    assert "effective_performance_sample_count is 256; bert-99 has at least 10833" in reasons
    assert "accuracy.txt has no line" in reasons


BEYOND = {
    "benchmark": {
        "effective_performance_sample_count is 256; bert-99 has at least 257": {
            "performance_sample_count": 257
        },
        "effective_accuracy_sample_count is 256; bert-99 has 255": {"dataset_size": 255},
        "bert-99 has 99": {"accuracy_sample_count": 99},
        "bert-99 has 98": {"by_scenario": {"Offline": {"accuracy_sample_count": 98}}},
        "effective_samples_per_query": {"offline_samples": 10**9},
        "token latencies are not measured": {"token_latencies": True},
        "result_99.00_percentile_latency_ns": {"latency_ns": {"Offline": 1}},
        "result_first_token_99.00_percentile_latency_ns is missing": {
            "token_latency_ns": {"Offline": {"ttft": 10**9}}
        },
    },
    "accuracy-target": {
        "F1 is 90.5; bert-99 requires at least 90.6": {"accuracy": {"F1": 90.6}},
        "accuracy.txt has no line of ROUGE1": {"accuracy": {"ROUGE1": 1.0}},
        "and at most 90.4": {"accuracy_at_most": {"F1": 90.4}},
    },
    "scenarios": {
        "SingleStream is missing": {"required": {"edge": ("Offline", "SingleStream")}},
        "Offline is not a scenario of bert-99": {"required": {"edge": ()}},
        "not a benchmark of this system's suite 'edge'": {"required": {"datacenter": ("Offline",)}},
        "Server or Interactive is missing": {"optional": {"edge": ("Interactive", "Server")}},
    },
}
"""Id of a check → words of its detail → what the benchmark requires."""


@pytest.mark.parametrize(
    ("check", "told", "changed"),
    [(check, *row) for check, changes in BEYOND.items() for row in changes.items()],
)
def test_what_the_benchmark_does_not_allow_fails(closed, changed, check, told):
    found = _found(closed, _rules(**changed))
    assert found[check].verdict is Verdict.FAIL and told in found[check].detail, found[check].line()
    assert [name for name, other in found.items() if other.verdict is Verdict.FAIL] == [check]


@pytest.mark.parametrize("test", ["performance/run_1", "accuracy"])
def test_a_count_that_the_library_does_not_have_fails(closed, test):
    path = _folder(closed) / test / "mlperf_log_detail.txt"
    total = '"qsl_reported_total_count", "value": '
    text = path.read_text()
    assert f"{total}256," in text
    path.write_text(text.replace(f"{total}256,", f"{total}255,"))
    check = _found(closed)["benchmark"]
    assert check.verdict is Verdict.FAIL and "qsl_reported_total_count is 255" in check.detail


def test_a_mapping_means_nothing_in_the_closed_division(closed):
    benchmark = _folder(closed).parent
    benchmark.rename(benchmark.with_name("my-bert"))
    (closed / "closed" / runs.SUBMITTER / "model_mapping.json").write_text(
        json.dumps({"my-bert": NAME})
    )
    check = checks(closed)["model-mapping"]
    assert check.verdict is Verdict.FAIL
    assert "my-bert is not an official benchmark" in check.detail


@pytest.mark.parametrize(
    ("name", "mapping", "means"),
    [
        ("bert-99", {"bert-99": "resnet"}, "bert-99"),
        ("resnet50", {"resnet50": "bert-99"}, "resnet"),
        ("resnet50-pruned", {}, "resnet"),
        ("resnet50-pruned", {"resnet50-pruned": "yolo-99"}, "yolo-99"),
        ("sparse-bert-99.9", {}, "bert-99.9"),
        ("sparse-bert-99", {}, "bert-99"),
        ("mine", {}, "mine"),
    ],
)
def test_a_name_means_what_the_official_checker_takes_it_for(name, mapping, means):
    assert V61.official(name, mapping) == means


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", Verdict.FAIL),
        ("TEST FAIL\n", Verdict.FAIL),
        ("accuracy 1\nTEST PASS\n", Verdict.MANUAL),
    ],
)
def test_a_test_that_its_own_script_scores_must_be_there_and_is_for_people(closed, text, outcome):
    if text:
        (_folder(closed) / "TEST07").mkdir()
        (_folder(closed) / "TEST07" / "verify_accuracy.txt").write_text(text)
    scored = {"TEST07": rules.ScoredTest((NAME,), "verify_accuracy.txt")}
    found = _found(closed, msgspec.structs.replace(_rules(), scored_tests=scored))
    assert found["test07"].verdict is outcome


@pytest.mark.parametrize("round", rules.rounds())
def test_every_benchmark_of_every_round_has_a_pattern_for_each_metric_and_scenarios_there_are(
    round,
):
    of = rules.load(round)
    assert len(of.benchmarks) == {"v5.1": 19, "v6.0": 23, "v6.1": 21}[round]
    for row in of.benchmarks.values():
        assert {*row.accuracy, *row.accuracy_at_most} <= set(of.accuracy_patterns)
        assert row.accuracy
        assert row.required
        for scenario in row.by_scenario:
            assert row.of(scenario) != row
    tested = {name for test in of.compliance_tests.values() for name in test.required_by}
    older = {"dlrm-v2-99", "dlrm-v2-99.9"}
    assert {name for name in tested if "interactive" not in name} <= older | set(of.benchmarks)


@pytest.mark.parametrize(
    ("baseline", "compliance", "told"),
    [
        (90.5, 90.5, ""),
        (90.5, 89.7, ""),
        (90.9, 10.9, "they may differ by 1 %"),
        ("x", 90.5, "has no line of F1"),
        (0, 90.5, "they may differ"),
    ],
)
def test_a_test01_that_is_not_deterministic_is_judged_by_its_accuracy(
    closed, baseline, compliance, told
):
    (place,) = result_folders(closed, _rules())
    texts = [f'{{"exact_match": 80.0, "f1": {value}}}\n' for value in (baseline, compliance)]
    found = list(benchmark.far_apart(tree.read(place, _rules()), texts))
    assert [told in text for text in found] == ([True] if told else [])


def test_one_run_may_be_submitted_for_both_targets_of_a_model_and_for_no_other(closed):
    benchmark = _folder(closed).parent
    shutil.copytree(benchmark, benchmark.with_name("bert-99.9"))
    assert checks(closed, "quick")["logs-of-one-run"].verdict is Verdict.PASS
    (benchmark.with_name("bert-99.9")).rename(benchmark.with_name("resnet"))
    assert checks(closed, "quick")["logs-of-one-run"].verdict is Verdict.FAIL
