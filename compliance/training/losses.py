"""The checks of a training's losses: those of the accuracy test against the reference's, those of
the timed run against the accuracy test's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np

from compliance.findings.check import failed, judge, manual, mismatch, shorten
from compliance.logs import files
from compliance.scoring import loss_curve, weight_updates
from compliance.training.run_directory import TrainingRun, limits
from formats.checks import Check, Fault, Faults
from formats.record import Record

_TRAIN = "correct the SUT: it must train as the reference does"


def checks(training: TrainingRun, record: Record) -> Iterator[Check]:
    """The checks of the tolerance, and of the losses of both tests."""
    tolerance = record.accuracy.tolerance
    precision = record.cell.precision
    bounds = limits()["tolerance_of_lora" if record.cell.lora else "tolerance"].get(precision, {})
    loose = []
    for name in ("first_loss_error", "loss_error", weight_updates.ERROR):
        limit = tolerance.get(name)
        most = bounds.get(name, -1)
        if not is_number(limit) or not limit <= most:
            what = f"accuracy.tolerance.{name}"
            who = f"{precision} may have"
            loose.append(mismatch(what, limit, f"at most {most}", who))
    good = "within this project's limits"
    yield judge("training-tolerance", loose, good, "record.json")
    where = {"file": "raw/accuracy/steps.json", "fix": _TRAIN}
    if record.no_reference:
        why = f"there is no reference to compare with: {shorten(record.accuracy.reason)}"
        yield manual("training-loss", why, **where)
    else:
        scored, fault = files.reckon(lambda: score(training))
        if scored is None:
            yield failed("training-loss", fault, **where)
        else:
            text = f"{scored.line()}: losses or updated weights are too far from the reference's"
            faults = [] if scored.passed else [text]
            yield judge("training-loss", faults, scored.line(), **where)
    yield judge(
        "training-while-timed",
        _while_timed(training, record),
        "the timed run's losses are the accuracy test's",
        **where,
    )
    yield judge(
        "training-held-out",
        _held_out(training, record),
        "both runs' losses on held-out batches are those of the reference",
        **where,
    )


def score(training: TrainingRun) -> loss_curve.Accuracy:
    """The score of the accuracy test's losses. Raises ValueError if there is nothing to compare."""
    steps = training.steps["accuracy"]
    reference = training.reference
    if steps is None or reference is None or training.record is None:
        raise ValueError("steps, reference or record are missing")
    tolerance = training.record.accuracy.tolerance
    curve = loss_curve.score(steps.losses, reference["loss"], tolerance)
    certain = reference["updates"][~reference["noise"]]
    return weight_updates.judged(curve, steps.updates, certain, tolerance)


def stated(training: TrainingRun) -> loss_curve.Accuracy | str:
    """The score, or a sentence that says why there is none."""
    if training.record and training.record.no_reference:
        return training.record.accuracy.reason
    try:
        return score(training)
    except ValueError as e:
        return f"not scored: {e}"


def _held_out(training: TrainingRun, record: Record) -> Faults:
    """Compare the losses on held-out batches after the training with those of the reference, or
    with those of the accuracy test if there is no reference.
    """
    limit = record.accuracy.tolerance.get("loss_error")
    each = training.steps["accuracy"]
    has_reference = training.reference or record.no_reference
    if each is None or len(each.losses) < 3 or not is_number(limit) or not has_reference:
        yield Fault("there are no losses to compare, or no tolerance")
        return
    reference = training.reference
    losses = reference["loss"] if reference else np.array(each.losses)
    held_out = reference["held_out"] if reference else np.array(each.held_out)
    with np.errstate(all="ignore"):  # a value that is not finite gives NaN, which is never close
        allowed = limit * float(np.std(losses))
    for test, steps in training.steps.items():
        found = steps.held_out if steps else ()
        close = len(found) == len(held_out)
        close = close and all(abs(a - b) <= allowed for a, b in zip(found, held_out, strict=True))
        if not (found and close):
            expected = f"{_listed(held_out)}, ± {allowed:.2g}"
            who = f"in the {test} test it must be"
            yield mismatch("the loss on held-out batches", _listed(found), expected, who)


def _listed(losses: Iterable[float]) -> str:
    return " ".join(f"{loss:.7g}" for loss in losses) or "nothing"


def _while_timed(training: TrainingRun, record: Record) -> Faults:
    """Compare the two losses of the timed run with those of the accuracy test: the loss of the
    first step and the mean of the others.
    """
    timed = training.steps["performance"]
    each = training.steps["accuracy"]
    limit = record.accuracy.tolerance.get("loss_error")
    if timed is None or each is None or not is_number(limit):
        yield Fault("a test left no losses, or there is no tolerance")
        return
    if len(timed.losses) != 2 or len(each.losses) < 3:
        yield Fault("a test left too few losses, or too many")
        return
    allowed = limits()["timed_loss"] * limit * float(np.std(each.losses))
    first = each.losses[0]
    mean = float(np.mean(each.losses[1:]))
    pairs = {
        "the loss of the first step": (timed.losses[0], first),
        "the mean loss of the others": (timed.losses[1], mean),
    }
    for what, (value, expected) in pairs.items():
        if not abs(value - expected) <= allowed:
            text = f"{value:.7g} in the timed run"
            right = f"{expected:.7g} ± {allowed:.2g}"
            yield mismatch(what, text, right, "in the accuracy test it is")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
