"""Results of mlcommons/endpoints, which have no LoadGen logs: the published ones, and copies with
one change.
"""

import json
import math
import shutil
from functools import reduce
from operator import getitem

import pytest

from compliance import audit, rules
from formats.checks import RequiredBy, Verdict
from tests.support import tree as runs
from tests.support.endpoints import RESULTS, SEEDS, published, submission

CHECKER, LOGS, TEXT = RequiredBy.CHECKER, RequiredBy.LOGS, RequiredBy.RULES
SERVER, OFFLINE = "deepseek-r1/Server", "deepseek-r1/Offline"
QWEN = "qwen3-vl-235b-a22b"


def _failed(report):
    return {c.id: c.required_by for c in report.checks if c.verdict is Verdict.FAIL}


def _details(report, verdict=Verdict.FAIL):
    return {c.id: c.detail for c in report.checks if c.verdict is verdict}


def _audited(folder, name, change=lambda files: None, at=""):
    """The audit of a published result after a change, in the folder `at` or in that of its name."""
    return audit.audit(published(name, change).write(folder / (at or name)))


def test_the_published_results_pass_with_their_published_figures(tmp_path):
    system = submission(tmp_path)
    for name in RESULTS:
        published(name).write(system / name)
    report = audit.audit(tmp_path)
    assert not _failed(report) and report.passes("submission")
    for line in report.results:
        value, unit = line.figure.split(" ", 1)
        of, own_unit = RESULTS[f"{line.benchmark}/{line.scenario}"].figure.split(" ", 1)
        assert math.isclose(float(value), float(of), rel_tol=1e-11) and unit == own_unit
        assert line.official == line.benchmark and "mlcommons/endpoints" in line.verdict
        again = line.recomputed.split(" ", 1)[0]
        assert math.isclose(float(value), float(again), rel_tol=2e-6)
        assert ", from " in line.recomputed
    assert len(report.results) == len(RESULTS) == 6


def test_without_a_submission_the_data_set_shows_the_benchmark(tmp_path):
    report = _audited(tmp_path, SERVER, at="run/Server")
    (line,) = report.results
    assert not _failed(report) and report.passes("quick")
    assert (line.official, line.scenario) == ("deepseek-r1", "Server")
    assert line.sentence == (
        "Server: 1175890.2208168241 tokens/s, a result of mlcommons/endpoints without LoadGen's"
        " verdict"
    )
    assert {c.level for c in report.checks} == {"quick"}


GONE = object()
ENTRY = ("accuracy", "accuracy_scores", 0)
RUNTIME = ("config", "settings", "runtime")
STREAMING = ("config", "model_params", "streaming")
SUMMARY, WINDOW = "result_summary.json", "legacy_loadgen_window_duration_ns"
AVERAGE = "the answers of the accuracy run have on average"
COUNT = "the number of samples of the accuracy run"


def _put(value, part, *place):
    """Another value at a place of a document, or GONE."""
    *above, last = place

    def change(files):
        inner = reduce(getitem, above, getattr(files, part))
        inner[last] = value
        if value is GONE:
            del inner[last]

    return change


def _entry(files):
    return files.accuracy["accuracy_scores"][0]


def _score(value):
    def change(files):
        files.accuracy["average_accuracy"] = value
        _entry(files)["score"] = value

    return change


def _answers(**counts):
    return lambda files: _entry(files)["response_counts"].update(counts)


def _summary(**values):
    return lambda files: files.summary.update(values)


def _series(kind, **values):
    return lambda files: files.summary[kind].update(values)


def _percentile(kind, measured, estimate):
    return _series(
        kind, percentiles={"99.0": measured}, early_stopping_percentiles={"99.0": estimate}
    )


def _tokens(total):
    """Another sum of tokens, with the mean and the rate that it gives."""

    def change(files):
        lengths = {"total": total, "avg": total / 600000, "min": 1, "max": 1e6}
        files.summary.update(output_sequence_lengths=lengths, tps=total / 1934.954861194)

    return change


def _runtime(**values):
    return _both(*(_put(value, *RUNTIME, key) for key, value in values.items()))


def _load(**values):
    """Another load pattern, in both files."""

    def change(files):
        files.config["settings"]["load_pattern"].update(values)
        files.summary["run_config"]["load_pattern"].update(values)

    return change


def _both(*changes):
    def change(files):
        for each in changes:
            each(files)

    return change


def _incomplete(files):
    _entry(files)["complete"] = False
    _answers(missing=289, scored=4099)(files)


def _part_of_the_data(files):
    _entry(files).update(unit_samples=439, total_samples=439)
    _answers(issued=439, scored=439)(files)
    _entry(files)["output_sequence_lengths"]["total"] = 439 * 3800


def failing(**checks):
    """Checks that fail, and who requires each. `_` stands for a dash."""
    return frozenset((check_id.replace("_", "-"), who) for check_id, who in checks.items())


def rows(table):
    """(the checks that fail, words of one of them, the change) of each row."""
    return [(failed, *row) for failed, changes in table.items() for row in changes.items()]


CHANGES = {
    failing(accuracy_log=LOGS): {
        "complete is False": _incomplete,
        "response_counts.issued is 4388; the sum of its answers is 8388": _answers(empty=4000),
    },
    failing(accuracy_log=LOGS, accuracy_target=TEXT): {
        "exact_match is 0.0; deepseek-r1 requires at least 80.544618": _both(
            _incomplete, _answers(missing=4388, scored=0), _score(0.0)
        ),
    },
    failing(accuracy_log=TEXT): {
        "response_counts.empty is 88; an empty answer is a failed query": _answers(
            empty=88, scored=4300
        ),
        "response_counts is missing": _put(GONE, *ENTRY, "response_counts"),
    },
    failing(accuracy_target=TEXT): {
        "exact_match is 12.0": _score(12.0),
        "exact_match is missing; deepseek-r1 requires at least 80.544618": _score({"f2": 90.0}),
    },
    failing(accuracy_score=LOGS): {
        "from 0 to 100": _score(181.4),
        "average_accuracy is 99.0; the scores give 81.42661804922516": _put(
            99.0, "accuracy", "average_accuracy"
        ),
        "average_accuracy is missing; the scores give 81.42661804922516": _put(
            GONE, "accuracy", "average_accuracy"
        ),
        f"avg is 7584.314996666667; {AVERAGE} 3743.29": _tokens(2 * 2275294499),
    },
    failing(accuracy_score=LOGS, accuracy_target=TEXT): {
        "exact_match is -5.0; it must be a number from 0 to 100": _score(-5.0),
        "average_accuracy is 81.42661804922516; no score is a number": _put(True, *ENTRY, "score"),
        "TOKENS_PER_SAMPLE is 1000.0; deepseek-r1 requires at least 3497.60466": _put(
            4388 * 1000, *ENTRY, "output_sequence_lengths", "total"
        ),
    },
    failing(unambiguous_files=LOGS): {
        "config.yaml and config.yml are there and differ": lambda files: files.others.update(
            {"config.yml": "type: offline\n"}
        ),
        "accuracy_results.json is damaged (NaN is not JSON)": _score(math.nan),
    },
    failing(accuracy_target=CHECKER): {
        "accuracy_scores has no score": _score(None),
    },
    failing(benchmark=CHECKER): {
        f"{COUNT} is 439; deepseek-r1 requires 4388": _part_of_the_data,
        "percentile 99 is 9000000000.0; deepseek-r1 has less than 2000000000": _both(
            _percentile("ttft", 9e9, 9e9), _series("ttft", max=10e9)
        ),
        "percentile 99 is 80000000.0; deepseek-r1 has less than 80000000": _both(
            _percentile("tpot", 79e6, 80e6), _series("tpot", max=9e7)
        ),
        "percentile 99 is missing": _put(GONE, "summary", "tpot", "early_stopping_percentiles"),
    },
    failing(counts=LOGS, performance_effective_settings=LOGS): {
        "n_samples_issued is 660000; n_samples_completed is 600000": _summary(
            n_samples_issued=660000
        ),
    },
    failing(complete_run=LOGS): {
        "complete is missing; a run that ended by itself has True": _put(
            GONE, "summary", "complete"
        ),
        "state is 'interrupted'": _summary(state="interrupted", complete=False),
    },
    failing(minimum_duration_setting=CHECKER): {
        "min_duration_ms is missing; v6.1 requires at least 600000": _put(
            GONE, *RUNTIME, "min_duration_ms"
        ),
        "min_duration_ms is 60000; v6.1 requires at least 600000": _runtime(min_duration_ms=60000),
        "'1e9'": _runtime(min_duration_ms="1e9"),
    },
    failing(performance_errors=LOGS): {
        "is 1": _summary(n_samples_failed=1),
    },
    failing(early_stopping=LOGS): {
        "the percentile is at least 303546985.0": _percentile("ttft", 303546985.0, 250e6),
    },
    failing(duration=LOGS, measured_duration=TEXT): {
        "latency.max is 916647870064; duration_ns is at most 10000000000": _summary(
            duration_ns=10_000_000_000
        ),
    },
    failing(duration=LOGS): {
        "a schedule of 325 queries/s takes 1831.85 s or more": _summary(
            legacy_loadgen_window_duration_ns=1_800_000_000_000,
            qps=599999 / 1800,
            tps=2275294499 / 1800,
        ),
        "a schedule of 1000 queries/s and latency.max end after 1521.3 s at most": _load(
            target_qps=1000.0
        ),
    },
    failing(counts=LOGS): {
        "qps is 400.0": _summary(qps=400.0),
        f"output_sequence_lengths.total and {WINDOW} give 1175890.220": _summary(
            tps=2275294499 / 2318.929756903
        ),
        "with use_legacy_loadgen_qps_metrics it is a number": _summary(
            legacy_loadgen_window_duration_ns=None
        ),
        "2275294499 tokens at 4600.0 a sample are those of 494629 samples": _series(
            "output_sequence_lengths", avg=4600.0
        ),
        "tps is 1176007.8098389057; output_sequence_lengths.total and": _summary(
            tps=1175890.2208168241 * 1.0001
        ),
        "'long'": _summary(duration_ns="long"),
    },
    failing(accuracy_score=LOGS, counts=LOGS): {
        "are those of 2.27529e+06 samples": _series("output_sequence_lengths", avg=1000.0),
    },
    failing(accuracy_score=LOGS, latencies=LOGS): {
        "146709 ms after the first token are at most 13116.6 tokens, by tpot.min": _tokens(
            10 * 2275294499
        ),
        "146709 ms after the first token are at least 2829.22 tokens, by tpot.max": _tokens(
            600000 * 100
        ),
    },
    failing(latencies=LOGS): {
        "avg is 3792.1574983333335; minimum and maximum are 22 to 1000": _series(
            "output_sequence_lengths", min=22, max=1000
        ),
        "latency.median is 200000000000.0; percentile 50 is 146000000000.0": _series(
            "latency", median=2e11, percentiles={"50.0": 146e9, "99.0": 784837620760.0}
        ),
        "ttft.median is 4000000000.0; minimum and maximum are 101079232 to 3580104964": _series(
            "ttft", median=4e9
        ),
        "latency.std_dev is 1e+18; min, avg and max allow at most 3.33648e+11": _series(
            "latency", std_dev=1e18
        ),
        "latency.std_dev is -1": _series("latency", std_dev=-1),
        "avg 1.0 and max 916647870064 are not in order": _series("latency", avg=1.0),
        "and 11184951.4 to 51854868.2 were measured": _percentile("tpot", 6e7, 6e7),
        "percentile 99 is 48215361.5 and percentile 99 is 40000000.0": _series(
            "tpot", percentiles={"99.0": 48215361.5, "99": 40e6}
        ),
        "the sum of the histogram is 18; completed were 600000": _series(
            "latency", histogram={"buckets": [[2e9, 1e11], [1e11, 1e12]], "counts": [9, 9]}
        ),
        "by the histogram": _series(
            "latency",
            histogram={
                "buckets": [[2e9, 1e10], [1e10, 1e11], [1e11, 9e11], [9e11, 1e12]],
                "counts": [1, 299_999, 1, 299_999],
            },
            percentiles={"99.0": 5e9},
        ),
        "the histogram is damaged": _series(
            "latency", histogram={"buckets": [1], "counts": [600000]}
        ),
    },
    failing(early_stopping=LOGS, latencies=LOGS): {
        "ttft.min is 10000000000.0; latency allows at most 2297489847": _series(
            "ttft", min=1e10, avg=2e10, max=3e10, percentiles={"99.0": 2.5e10}
        ),
    },
    failing(performance_effective_settings=LOGS, performance_seeds=CHECKER): {
        f"scheduler_random_seed is 1; v6.1 has {SEEDS['schedule_rng_seed']}": _runtime(
            scheduler_random_seed=1
        ),
    },
    failing(performance_effective_settings=LOGS): {
        "n_samples_to_issue is 500000; n_samples_issued is 600000": _runtime(
            n_samples_to_issue=500000
        ),
        f"load_pattern.target_qps is 310.0; in run_config of {SUMMARY} it is 325.0": _put(
            310.0, "config", "settings", "load_pattern", "target_qps"
        ),
        f"streaming is off, and {SUMMARY} has latencies of the first token": _put(
            "off", *STREAMING
        ),
    },
    failing(performance_test_and_scenario=TEXT): {
        "load_pattern.type is 'concurrency'; Server has poisson": _load(type="concurrency"),
    },
    failing(duration=LOGS, performance_test_and_scenario=TEXT): {
        "600000 times 146921 ms, 2 at once, take": _load(type="concurrency", target_concurrency=2),
    },
    failing(inferred_scenario=CHECKER): {
        "type is 'offline'; Server has 'online'": _put("offline", "config", "type"),
    },
}


@pytest.mark.parametrize(("failed", "words", "change"), rows(CHANGES))
def test_a_changed_copy_is_refused_for_its_reason(tmp_path, failed, words, change):
    report = _audited(tmp_path, SERVER, change)
    assert _failed(report).items() == failed
    assert not report.passes("quick", strict=False)
    assert any(words in detail for detail in _details(report).values()), _details(report)


def _fewer(count):
    """So many samples, and what follows from that."""
    duration_s, tokens = 5124.404179908, 3790 * count
    summary = _summary(
        n_samples_issued=count,
        n_samples_completed=count,
        qps=count / duration_s,
        tps=tokens / duration_s,
        output_sequence_lengths={"total": tokens, "avg": 3790.0},
    )
    return _both(summary, _runtime(n_samples_to_issue=count))


CHANGES_OF_OFFLINE = {
    failing(counts=LOGS): {
        "without use_legacy_loadgen_qps_metrics there is none": _summary(
            legacy_loadgen_window_duration_ns=5124404179908
        ),
    },
    failing(performance_effective_settings=LOGS): {
        f"streaming is on, and {SUMMARY} lacks latencies of the first token": _put(
            True, *STREAMING
        ),
    },
    failing(least_count=TEXT): {
        "n_samples_completed is 4000; the round requires at least 4388": _fewer(4000),
    },
    failing(early_stopping=LOGS, least_count=TEXT): {
        "with 600 samples there is none": _fewer(600),
    },
}


@pytest.mark.parametrize(("failed", "words", "change"), rows(CHANGES_OF_OFFLINE))
def test_a_changed_copy_of_offline_is_refused_for_its_reason(tmp_path, failed, words, change):
    report = _audited(tmp_path, OFFLINE, change)
    assert _failed(report).items() == failed
    assert any(words in detail for detail in _details(report).values())


def test_the_limit_of_a_model_without_token_limits_is_on_the_whole_answer(tmp_path):
    for estimate, failed in ((1.5e9, {}), (1.6e9, {"benchmark": CHECKER})):
        change = _percentile("latency", 1.5e9, estimate)
        assert _failed(_audited(tmp_path, f"{QWEN}/Interactive", change)) == failed


def test_the_checker_compares_the_score_of_one_model(tmp_path):
    report = _audited(tmp_path, f"{QWEN}/Server", _score(0.5))
    assert _failed(report) == {"accuracy-target": CHECKER}


def test_the_type_of_interactive_is_not_looked_at_by_the_checker(tmp_path):
    report = _audited(tmp_path, "deepseek-r1/Interactive", _put("offline", "config", "type"))
    assert _failed(report) == {"inferred-scenario": TEXT}
    assert not report.passes("quick", strict=False)


def test_percentiles_may_be_written_without_a_fraction(tmp_path):
    def change(files):
        for kind in ("ttft", "tpot", "latency"):
            for block in ("percentiles", "early_stopping_percentiles"):
                files.summary[kind][block] = {"99": files.summary[kind][block]["99.0"]}

    assert not _failed(_audited(tmp_path, SERVER, change))


def test_the_figure_of_single_stream_is_a_mean_latency(tmp_path):
    def change(files):
        files.config["type"] = "online"
        _load(type="concurrency", target_concurrency=1)(files)
        files.summary["latency"] = {"avg": 17977183306}

    for benchmark, figure in (
        ("wan-2.2-t2v-a14b", "17.977183306 s (mean latency)"),
        ("qwen3.6-27b", "17977.183306 ms (mean latency)"),
    ):
        report = _audited(tmp_path, OFFLINE, change, f"{benchmark}/SingleStream")
        assert report.results[0].figure == figure


def test_the_open_division_has_no_limits(tmp_path):
    system = submission(tmp_path, "open")
    change = _both(_score(12.0), _percentile("ttft", 3e9, 3e9))
    published(SERVER, change).write(system / SERVER)
    report = audit.audit(tmp_path)
    assert not _failed(report)
    assert {"benchmark", "accuracy-target"} <= _details(report, Verdict.NA).keys()


def test_a_result_of_no_benchmark_is_judged_by_its_figures_only(tmp_path):
    change = _put("my-questions", *ENTRY, "dataset_name")
    report = _audited(tmp_path, SERVER, change, "Server")
    na = _details(report, Verdict.NA)
    assert not _failed(report)
    assert "names a benchmark" in na["benchmark"] and "accuracy-target" in na


def test_a_benchmark_that_endpoints_may_not_measure_is_refused(tmp_path):
    details = _details(_audited(tmp_path, SERVER, at="llama2-70b-99.9/Server"))
    assert "mlcommons/endpoints may measure llama3.1-8b" in details["benchmark"]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"test": "output_caching_test", "passed": True}, ""),
        ({"test": "output_caching_test", "passed": False}, "passed is False"),
        ({"test": "another", "passed": True}, "test is 'another'"),
        (None, "audit_output_caching_test.json is missing"),
    ],
)
def test_a_benchmark_may_require_a_compliance_test(tmp_path, outcome, words):
    folder = published(OFFLINE).write(submission(tmp_path) / "wan-2.2-t2v-a14b" / "Offline")
    if outcome:
        (folder / "audit").mkdir()
        (folder / "audit" / "audit_output_caching_test.json").write_text(json.dumps(outcome))
    report = audit.audit(tmp_path)
    (check,) = [c for c in report.checks if c.id == "test04"]
    assert (check.verdict is Verdict.FAIL) == bool(words) and words in check.detail
    assert "nothing-beside-the-scenarios" not in _failed(report)


def test_a_benchmark_may_limit_the_mean_length_of_answers(tmp_path):
    report = _audited(tmp_path, OFFLINE, at="gpt-oss-120b/Offline")
    (check,) = [c for c in report.checks if c.id == "test09"]
    assert check.verdict is Verdict.FAIL and check.required_by is CHECKER
    assert "gpt-oss-120b requires 1150.38 to 1406.02" in check.detail


def test_scores_of_several_data_sets_are_weighted_by_their_size(tmp_path):
    def change(files):
        first = _entry(files)
        second = {**first, "dataset_name": "gpqa", "score": 0.7, "unit_samples": 198}
        second.update(num_repeats=5, total_samples=990, response_counts=None)
        first.update(score=0.9, unit_samples=1135, num_repeats=3, total_samples=3405)
        files.accuracy["accuracy_scores"].append(second)
        files.accuracy["average_accuracy"] = (0.9 * 1135 + 0.7 * 198) / 1333

    passed = _details(_audited(tmp_path, OFFLINE, change, "gpt-oss-120b/Offline"), Verdict.PASS)
    assert "exact_match 0.870293" in passed["accuracy-target"] and "accuracy-score" in passed


def test_a_score_is_shown_as_its_file_has_it(tmp_path):
    for score, failed in (
        (0.5, "exact_match is 0.5; gpt-oss-120b requires at least 0.822987"),
        (83.0, "exact_match is 83.0; it must be a number from 0 to 1"),
    ):
        details = _details(_audited(tmp_path, OFFLINE, _score(score), "gpt-oss-120b/Offline"))
        assert any(failed in detail for detail in details.values()), details


ROUGE = {
    "rouge1": "38.9",
    "rouge2": "16.0",
    "rougeL": "24.6",
    "rougeLsum": "36.0",
    "gen_len": "8167644",
    "gen_num": 13368,
}


@pytest.mark.parametrize(
    ("rouge1", "failed", "words"),
    [
        ("38.9", {}, "ROUGE1 38.9, ROUGE2 16"),
        ("12.0", {"accuracy-target": TEXT}, "ROUGE1 is 12.0; llama3.1-8b requires at least 38.39"),
    ],
)
def test_scores_of_several_values_may_be_texts_without_an_average(tmp_path, rouge1, failed, words):
    def change(files):
        files.accuracy.pop("average_accuracy")
        _entry(files).update(score={**ROUGE, "rouge1": rouge1})
        _entry(files).update(unit_samples=13368, total_samples=13368)
        _answers(issued=13368, scored=13368)(files)

    report = _audited(tmp_path, OFFLINE, change, "llama3.1-8b/Offline")
    assert _failed(report) == failed
    assert any(words in c.detail for c in report.checks if c.id == "accuracy-target")


@pytest.mark.parametrize("score", ["0.7874153796727632", {"f1": 0.7874153796727632}])
def test_the_checker_reads_scores_in_several_forms(tmp_path, score):
    assert not _failed(_audited(tmp_path, f"{QWEN}/Server", _put(score, *ENTRY, "score")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type: online\ntype: offline\n", "occurs twice"),
        (
            "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(30)),
            "its aliases unpack to",
        ),
        ("- a list\n", "not a YAML mapping"),
        (None, "config.yaml is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, words):
    folder = published(SERVER).write(tmp_path / "Server")
    (folder / "config.yaml").unlink()
    if text:
        (folder / "config.yaml").write_text(text)
    report = audit.audit(folder)
    failed = {"files-complete": CHECKER}
    if words in ("occurs twice", "its aliases unpack to"):  # the checker reads it
        failed = {"unambiguous-files": LOGS}
    assert _failed(report) == failed
    assert any(words in c.detail for c in report.checks if c.id in failed)
    assert not report.passes("quick", strict=False)


def test_the_configuration_may_have_another_name_and_aliases(tmp_path):
    folder = published(SERVER).write(tmp_path / SERVER)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").unlink()
    (folder / "config.yml").write_text("seeds: &seeds [1, 2]\nothers: *seeds\n...\n---\n")
    assert _failed(audit.audit(folder))
    (folder / "config.yml").write_text(text.replace('"a-model"', '&m "a-model", "other": *m'))
    report = audit.audit(folder)
    assert not _failed(report)
    assert any(c.file.endswith("config.yml") for c in report.checks if c.id == "performance-seeds")


def test_one_in_a_submission_is_no_broken_tree(run, tmp_path):
    shutil.copytree(run / "open", tmp_path / "open")
    submitter = tmp_path / "open" / runs.SUBMITTER
    (submitter / "src" / "deepseek-r1").mkdir()
    (submitter / "src" / "deepseek-r1" / "run.py").write_text("run()\n")
    system = submitter / "results" / runs.SYSTEM
    published(OFFLINE).write(system / OFFLINE)
    report = audit.audit(tmp_path)
    of_it = [c for c in report.checks if "deepseek-r1" in c.place]
    assert of_it and not [c for c in of_it if c.verdict is Verdict.FAIL]
    assert all(c.file.startswith("open/") for c in of_it if c.file)
    assert len(report.results) == 2


def _places(value, place=()):
    """Yield the place of each value within a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*place, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*place, key))


PLACES = [
    (part, place)
    for part in ("summary", "accuracy", "config")
    for place in _places(getattr(published(SERVER), part))
]


def test_no_value_breaks_the_audit_off(tmp_path):
    for part, place in PLACES:
        for value in (None, {"x": [1]}, "x", -1, 1e308):
            report = _audited(tmp_path, SERVER, _put(value, part, *place), "Server")
            assert "audit" not in _failed(report), (place, value)


def test_no_value_that_is_missing_is_called_none(tmp_path):
    for part, place in PLACES:
        details = _details(_audited(tmp_path, SERVER, _put(GONE, part, *place)))
        assert not [each for each in details.values() if "None" in each], (place, details)


def test_the_rate_of_tokens_may_have_the_error_of_a_rounded_mean(tmp_path):
    total = round(42.87 * 872000)  # published are 37386153
    lengths = {"total": total, "avg": 42.87}
    change = _summary(output_sequence_lengths=lengths)
    assert not _failed(_audited(tmp_path, f"{QWEN}/Interactive", change))


def _chosen_by(folder, **seeds):
    report = _audited(folder, SERVER, _runtime(**seeds))
    return report.round, report.round_chosen_by


def test_the_round_is_chosen_by_the_seeds_of_the_result(tmp_path):
    by_seeds = ("v6.1", "by the seeds in config.yaml")
    assert _chosen_by(tmp_path / "published") == by_seeds
    older = rules.load("v6.0").seeds  # v6.0 has no results of mlcommons/endpoints
    schedule, index = older["schedule_rng_seed"], older["sample_index_rng_seed"]
    others = {"scheduler_random_seed": schedule, "dataloader_random_seed": index}
    round, how = _chosen_by(tmp_path / "others", **others)
    assert round == "v6.1" and how.startswith("as the newest round")
