"""The figures of kept step times, and the score of a curve of losses."""

import json
from pathlib import Path

import numpy as np
import pytest

from compliance.scoring import loss_curve
from compliance.training import mllog
from compliance.training.steps import Steps, figures
from formats import reading
from tests.support.synthetic_runs import cell, job, record_json

MS = 1_000_000
LIMITS = {"loss_error": 1e-2, "first_loss_error": 1e-3}


def steps(*times_ms, wait_ms=0):
    marks = 1000 * MS + MS * np.cumsum(times_ms)
    return Steps(
        batch_size=4,
        trainable=1,
        began_ns=500 * MS,
        began_unix_ns=1_000_000 * MS,
        first_ended_ns=900 * MS,
        started_ns=1000 * MS,
        marks_ns=tuple(marks.tolist()),
        closed_ns=int(marks[-1]) + wait_ms * MS,
        returned_ns=int(marks[-1]) + wait_ms * MS,
        queued_ns=0,
        input_ns=3 * MS,
        losses=(1.0, 1.0),
        held_out=(0.5, 1.5),
        evaluation_started_ns=int(marks[-1]) + wait_ms * MS,
        evaluation_ended_ns=int(marks[-1]) + (wait_ms + 7) * MS,
    )


def test_the_figures_are_those_of_the_times():
    found = figures(steps(10, 10, 10, 10, 10, 12))
    assert found["ms_per_step"] == pytest.approx(62 / 6) and found[
        "samples_per_second"
    ] == pytest.approx(4 * 6 / 0.062)
    assert (found["first_step_seconds"], found["input_seconds"]) == (0.4, 0.003)
    assert found["step_median_ms"] == 10 and found["drift_fraction"] == pytest.approx(0.1)
    assert found["step_mean_low_ms"] < 62 / 6 < found["step_mean_high_ms"]
    assert found["step_mean_high_ms"] - 62 / 6 == pytest.approx(
        2.5706 * np.std([10] * 5 + [12], ddof=1) / np.sqrt(6), rel=1e-4
    )


def test_the_times_add_up_to_the_window_with_the_wait_for_the_device():
    kept = steps(1, 1, 1, 1, wait_ms=96)
    assert int(kept.times_ns.sum()) == kept.window_ns == 100 * MS
    assert not kept.seen and figures(kept) == {
        "ms_per_step": 25.0,
        "samples_per_second": 160.0,
        "first_step_seconds": 0.4,
        "input_seconds": 0.003,
        "trained_parameters": 1,
    }


def logged(kept, part=""):
    training = {
        "parameters": 1,
        "part": part,
        "seed": None,
        "benchmark": "bert",
        "ruleset": "5.0.0",
    }
    of = cell("a", precision="bfloat16", seq_len=None)
    record = reading.record(record_json(of) | {"training": training, "submitter": "nobody"})
    constants = ("learning_rate", "beta_1", "beta_2", "epsilon", "weight_decay")
    of_test = job(of, Path("run"), optimizer=dict.fromkeys(constants, 0.5))
    first, *lines = mllog.lines(kept, record, of_test)
    assert first.startswith(
        "Training steps, timed by this project. It is no result of MLPerf, and no time to train."
    )
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]


def test_the_log_has_the_time_of_each_step_that_is_seen_and_when_it_ended():
    events = logged(steps(10, 20, 30))
    tracked = [
        (e["time_ms"], e["value"]["step_time_ms"], e["metadata"]["step_num"])
        for e in events
        if e["key"] == "tracked_stats"
    ]
    began = 1_000_000 + 500
    assert tracked == [
        (began + 10, 10, 3),
        (began + 30, 20, 4),
        (began + 60, 30, 5),
        (began + 60, 20, 5),
    ]
    times = {e["key"]: e["time_ms"] for e in events}
    assert [
        times[key] - began
        for key in ("init_start", "run_start", "block_stop", "eval_stop", "run_stop")
    ] == [-500, 0, 60, 67, 67]
    samples = {e["key"]: e["metadata"].get("samples_count") for e in events}
    # Two of five batches came before.
    assert samples["block_start"] == 2 * samples["block_stop"] / 5
    values = {e["key"]: e["value"] for e in events}
    assert (
        values["eval_accuracy"] == pytest.approx(np.exp(-1))
        and values["lowest_numerical_precision_in_attn"] == "bfloat16"
    )


@pytest.mark.parametrize(
    ("part", "words"),
    [("", "exp(-mean cross-entropy)"), ("image_encoder.", "exp(-mean squared error)")],
)
def test_the_log_says_what_its_eval_accuracy_is(part, words):
    (event,) = [e for e in logged(steps(10, 20, 30), part) if e["key"] == "eval_accuracy"]
    assert event["metadata"]["metric"].startswith(words)


def test_the_log_has_no_times_of_steps_that_are_not_seen():
    assert [
        e["value"]["step_time_ms"]
        for e in logged(steps(1, 1, 1, 1, wait_ms=96))
        if e["key"] == "tracked_stats"
    ] == [25]


def test_losses_are_compared_in_standard_deviations_of_the_references():
    reference = np.array([1.0, 0.5, 0.0])
    near = loss_curve.score([1.0, 0.5, 0.004], reference, LIMITS)
    assert (
        near.passed
        and near.value == pytest.approx(0.004 / reference.std())
        and near.detail["first_loss_error"] == 0
    )
    assert not loss_curve.score([1.0, 0.5, 0.04], reference, LIMITS).passed
    # Within the curve's limit, not within the first loss's.
    assert not loss_curve.score([1.002, 0.5, 0.0], reference, LIMITS).passed
    assert not loss_curve.score([1.0, float("nan"), 0.0], reference, LIMITS).passed


@pytest.mark.parametrize(
    ("losses", "reference", "words"),
    [
        ([1.0, 0.5], np.array([1.0, 0.5, 0.0]), "2 losses were kept, and the reference has 3"),
        ([1.0, 1.0], np.array([1.0, 1.0]), "all equal"),
        ([1.0], np.array([["a"]]), "not a row of numbers"),
    ],
)
def test_what_cannot_be_compared_says_why(losses, reference, words):
    with pytest.raises(ValueError, match=words):
        loss_curve.score(losses, reference, LIMITS)
