"""The figure of a result: its unit and words as MLCommons publishes it, and computed again."""

import shutil
from pathlib import Path

import pytest

from compliance import audit, rules
from tests.support.mutations import DETAIL

FIELD = Path(__file__).parent / "field"


# As in the tables RESULT_FIELD_NEW, RESULT_FIELD_BENCHMARK_OVERWRITE, UNIT_DICT and
# SPECIAL_UNIT_DICT of the submission checker.
FIGURES = {
    "result_samples_per_second": [
        ("v5.1", "resnet", "Offline", "1230000 samples/s"),
        ("v6.1", "e2e-rag-qna", "Offline", "1230000 tasks/s"),
    ],
    "result_completed_samples_per_sec": [
        ("v5.1", "resnet", "Server", "1230000 queries/s"),
        ("v6.0", "qwen3-vl-235b-a22b", "Server", "queries/s"),
    ],
    "early_stopping_latency_ss": [
        ("v5.1", "resnet", "SingleStream", "1.23 ms"),
        ("v6.0", "wan-2.2-t2v-a14b", "SingleStream", "0.00123 s"),
    ],
    "early_stopping_latency_ms": [("v6.0", "resnet", "MultiStream", "1.23 ms")],
    "result_90.00_percentile_latency_ns": [("v6.1", "llama3.1-8b-edge", "SingleStream", "1.23 ms")],
    "result_tokens_per_second": [
        ("v5.1", "llama2-70b-99", "Offline", "1230000 tokens/s"),
        ("v6.0", "whisper", "Offline", "1230000 tokens/s"),
    ],
    "result_completed_tokens_per_second": [
        ("v6.1", "gpt-oss-120b", "Server", "1230000 tokens/s"),
        ("v6.0", "deepseek-r1", "Interactive", "1230000 tokens/s"),
    ],
}


@pytest.mark.parametrize(
    ("key", "round", "benchmark", "scenario", "text"),
    [(key, *row) for key, rows in FIGURES.items() for row in rows],
)
def test_each_benchmark_has_the_key_and_the_unit_of_the_official_tables(
    key, round, benchmark, scenario, text
):
    # Token latencies in the log decide only for a model without an official benchmark.
    for has_tokens in (False, True):
        metric = rules.load(round).metric(scenario, scenario, benchmark, has_tokens)
        assert metric.key == key and metric.text(1_230_000).endswith(text)


def test_a_model_without_a_benchmark_has_the_figure_that_its_log_shows():
    of = rules.load("v6.1")
    assert of.metric("Offline", "Offline", "mine", True).unit == "tokens/s"
    assert of.metric("Offline", "Offline", "mine", False).unit == "samples/s"


def test_an_inferred_result_has_the_figure_that_the_checker_infers():
    of = rules.load("v6.1")
    assert of.metric("Offline", "SingleStream", "resnet", False).text(812.5) == "812.5 samples/s"
    assert of.metric("Offline", "MultiStream", "resnet", False).text(4e6) == "2000 samples/s"
    assert of.metric("MultiStream", "SingleStream", "resnet", False).text(5e5) == "4 ms"


def _line(name, to, change=str):
    folder = shutil.copytree(FIELD / name, to / "logs")
    log = folder / DETAIL
    log.write_text(change(log.read_text(encoding="utf-8")), encoding="utf-8")
    (line,) = audit.audit(folder).results
    return line


def test_a_log_gives_the_figure_with_its_words_and_again_from_other_figures(tmp_path):
    offline = _line("round-v5.1", tmp_path / "a")
    assert (offline.figure, offline.words) == (
        "119.465 samples/s",
        "samples a second until the last answer",
    )
    assert offline.recomputed == "119.465 samples/s, from the count and the largest latency"
    server = _line("latency-limit", tmp_path / "b")
    assert server.figure == "57.2843 queries/s"
    assert server.recomputed == "57.1937 to 57.2861 queries/s, from the schedule and the latencies"


def test_a_figure_that_was_raised_differs_from_the_one_computed_again(tmp_path):
    raised = _line("round-v5.1", tmp_path, lambda text: text.replace("119.465", "219.465"))
    assert raised.figure == "219.465 samples/s" and raised.recomputed.startswith("119.465 ")


@pytest.mark.parametrize("run", ["SingleStream"], indirect=True)
@pytest.mark.parametrize(
    ("logged", "words"),
    [
        ("0.9", "the latency that 90 % of the queries keep, by early stopping"),
        ("0.95", "the latency that 95 % of the queries keep, by early stopping; v6.1 takes 90 %"),
        (
            "0.999",
            "the latency that 99.9 % of the queries keep, by early stopping; v6.1 takes 90 %",
        ),
    ],
)
def test_the_words_of_a_figure_have_the_percentile_of_the_log(run, logged, words):
    log = run / "raw" / "performance" / DETAIL
    key = '"effective_target_latency_percentile", "value": '
    text = log.read_text(encoding="utf-8")
    assert f"{key}0.9," in text
    log.write_text(text.replace(f"{key}0.9,", f"{key}{logged},"), encoding="utf-8")
    (line,) = audit.audit(log.parent).results
    assert line.words == words


def test_a_logged_figure_of_0_is_no_figure(tmp_path):
    line = _line("round-v5.1", tmp_path, lambda text: text.replace("119.465", "0"))
    assert line.sentence == "Offline: no figure"


@pytest.mark.parametrize("run", ["SingleStream", "tokens one by one"], indirect=True)
def test_the_trace_gives_the_same_latency_and_the_log_two_percentiles_around_it(run):
    (line,) = audit.audit(run).results
    assert line.recomputed == f"{line.figure}, from the trace" and line.figure.endswith(" ms")
    for trace in run.rglob("mlperf_log_trace.json*"):
        trace.unlink()
    (line,) = audit.audit(run).results
    if line.words.endswith("by early stopping"):
        limits = [float(word) for word in line.recomputed.split(" ms")[0].split(" to ")]
        assert limits[0] <= float(line.figure.split()[0]) <= limits[-1]
    else:
        assert line.recomputed == "not computed again: there is no trace"
