"""The figures of kept step times, and the score of a curve of losses."""

import numpy as np
import pytest

from compliance.scoring import loss_curve
from compliance.training.steps import Steps, figures

MS = 1_000_000
LIMITS = {"loss_error": 1e-2, "first_loss_error": 1e-3}


def steps(*times_ms, wait_ms=0):
    marks = 1000 * MS + MS * np.cumsum(times_ms)
    closed_ns = int(marks[-1]) + wait_ms * MS
    return Steps(
        batch_size=4,
        trainable=1,
        began_ns=500 * MS,
        began_unix_ns=1_000_000 * MS,
        first_ended_ns=900 * MS,
        started_ns=1000 * MS,
        marks_ns=tuple(marks.tolist()),
        closed_ns=closed_ns,
        returned_ns=closed_ns,
        queued_ns=0,
        input_ns=3 * MS,
        losses=(1.0, 1.0),
        held_out=(0.5, 1.5),
        evaluation_started_ns=closed_ns,
        evaluation_ended_ns=closed_ns + 7 * MS,
    )


def test_the_figures_are_those_of_the_times():
    found = figures(steps(10, 10, 10, 10, 10, 12))
    assert found["ms_per_step"] == pytest.approx(62 / 6)
    assert found["samples_per_second"] == pytest.approx(4 * 6 / 0.062)
    assert (found["first_step_seconds"], found["input_seconds"]) == (0.4, 0.003)
    assert found["step_median_ms"] == 10 and found["drift_fraction"] == pytest.approx(0.1)
    assert found["step_mean_low_ms"] < 62 / 6 < found["step_mean_high_ms"]
    assert found["step_mean_high_ms"] - 62 / 6 == pytest.approx(
        2.5706 * np.std([10] * 5 + [12], ddof=1) / np.sqrt(6), rel=1e-4
    )


def test_the_times_add_up_to_the_window_with_the_wait_for_the_device():
    kept = steps(1, 1, 1, 1, wait_ms=96)
    assert int(kept.times_ns.sum()) == kept.window_ns == 100 * MS
    assert not kept.seen
    assert figures(kept) == {
        "ms_per_step": 25.0,
        "samples_per_second": 160.0,
        "first_step_seconds": 0.4,
        "input_seconds": 0.003,
        "trained_parameters": 1,
    }


def test_losses_are_compared_in_standard_deviations_of_the_references():
    reference = np.array([1.0, 0.5, 0.0])
    near = loss_curve.score([1.0, 0.5, 0.004], reference, LIMITS)
    assert near.passed
    assert near.value == pytest.approx(0.004 / reference.std())
    assert near.detail["first_loss_error"] == 0
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
