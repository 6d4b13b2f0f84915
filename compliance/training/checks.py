"""The checks of a training's run directory. Step times, losses and figures are computed again from what the workers kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compliance.checks import evidence
from compliance.findings import fixes
from compliance.findings.check import Check, Fault, judge, manual, mismatch, not_applicable, shorten
from compliance.findings.verdict import ResultLine
from compliance.logs import files
from compliance.rules import EvidenceRule
from compliance.scoring import loss_curve
from compliance.training import mllog
from compliance.training import steps as step_files
from compliance.training.run_directory import COPIES, FOLDER, LOG, TrainingRun, limits, passes, within

# Of a job, what may differ between the two tests. A training is not calibrated.
_OF_A_TEST = ("test", "log_dir", "calibration")
_LARGEST_REFERENCE = 64 << 20


def line(training: TrainingRun) -> ResultLine:
    """Return what the directory says was measured. A field is empty if record.json lacks it."""

    def recorded(*keys: str) -> str:
        value = training.recorded(*keys)
        return "" if value is None else shorten(value)

    steps = training.steps["performance"]
    return ResultLine(
        place=FOLDER,
        division="none",
        submitter=recorded("submitter"),
        system=recorded("cell", "sut"),
        benchmark=recorded("benchmark", "name"),
        scenario=recorded("cell", "scenario"),
        figure=f"{step_files.figures(steps)['ms_per_step']:.6g} ms/step" if steps else "",
        verdict="no verdict of LoadGen's",
        tested=recorded("started"),
    )


def checks(training: TrainingRun) -> list[Check]:
    """Every check of a training."""
    return [
        judge("training-files", _files(training), "all there, and the copies are those of raw/", file=FOLDER, fix=fixes.RUN),
        judge("training-record", _record(training), "record.json, jobs and step files agree", file="record.json", fix=fixes.OWN),
        judge("training-steps", _steps(training), _sum(training), file="raw/performance/steps.json", fix=fixes.RUN),
        judge("training-step-count", _count(training), _sum(training), file="raw/performance/steps.json", fix="measure with --mode valid"),
        judge("training-window", _window(training), "nothing was left to do when the window closed", file="raw/performance/steps.json"),
        *_accuracy(training),
        *_evidence(training),
        _speed(training),
        judge("training-log", _log(training), "every line follows from steps, record and job", file=f"{FOLDER}/{LOG}", fix=fixes.RUN),
        judge("training-result", _result(training), "the figures of result.json are those of the steps", file="result.json", fix=fixes.RUN),
    ]


def _files(training: TrainingRun) -> Iterator[Fault]:
    for name, fault in training.faults.items():
        yield Fault(fault, file=name)
    for copy, source in COPIES.items():
        if source == "reference.npz" and training.no_reference:
            continue
        one, fault = files.attempt(lambda path: files.bounded_sha256(path, _LARGEST_REFERENCE), training.directory / FOLDER / copy)
        other, _ = files.attempt(lambda path: files.bounded_sha256(path, _LARGEST_REFERENCE), training.directory / source)
        if one is None or one != other:
            yield Fault(fault or f"{copy} is not the copy of {source}", file=f"{FOLDER}/{copy}")
        if source == "reference.npz" and other != training.recorded("digests", "reference"):
            yield mismatch("the sha256 of reference.npz", other, training.recorded("digests", "reference"), "record.json has")


def _record(training: TrainingRun) -> Iterator[Fault]:
    """A sentence for each contradiction between record, jobs and step files."""
    cell, first, second = training.recorded("cell"), training.jobs["performance"], training.jobs["accuracy"]
    if not (isinstance(cell, dict) and first and second):
        yield Fault("record.json names no cell, or a job.json is missing")
        return
    for key in sorted({*first, *second} - {*_OF_A_TEST}):
        if first.get(key) != second.get(key):
            yield mismatch(f"{key} of the accuracy test's job", second.get(key), first.get(key), "the performance test has")
    told = {
        "sut": (first.get("sut"), cell.get("sut")),
        "scenario": (first.get("scenario"), cell.get("scenario")),
        "procedure": (first.get("procedure"), "fit"),
        "execution": (within(first, "workload", "execution"), training.recorded("execution")),
    }
    told["whether LoRA is trained"] = (bool(within(first, "workload", "config", "lora")), bool(cell.get("lora")))
    told |= {
        key: (within(first, "workload", key), cell.get(key)) for key in ("model", "task", "precision", "batch_size", "device", "options")
    }
    for test, job in training.jobs.items():
        told[f"test of raw/{test}"] = (within(job, "test"), test)
    for test, steps in training.steps.items():
        if steps:
            told[f"batch size of the {test} test's steps"] = (steps.batch_size, cell.get("batch_size"))
            told[f"steps of the {test} test, times the batch size"] = (
                steps.total * steps.batch_size,
                training.recorded("qsl", "samples"),
            )
            if training.recorded("digests", "weights_source") != "none":
                told[f"trained parameters of the {test} test"] = (steps.trainable, training.recorded("training", "parameters"))
    if not cell.get("lora") and not training.recorded("training", "part"):
        told["training.parameters"] = (training.recorded("training", "parameters"), training.recorded("parameters"))
    if training.recorded("qsl", "synthetic"):
        told["training.seed"] = (training.recorded("training", "seed"), limits()["seed"])
    for what, (value, expected) in told.items():
        if value != expected or value is None:
            yield mismatch(what, value, expected, "record.json makes it")


def _sum(training: TrainingRun) -> str:
    steps = training.steps["performance"]
    if steps is None:
        return "the performance test left no steps"
    seen = "step by step" if steps.seen else "as a whole: the last one was long, as where a framework runs ahead of its device"
    return f"{steps.count} steps in {steps.window_ns / 1e9:.4g} s, {seen}"


def _steps(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault for each test whose times cannot be those of a training.

    The times must be in order, no part may be longer than the whole, and the window must be as long as the worker said.
    """
    for test, steps in training.steps.items():
        if steps is None:
            yield Fault(f"the {test} test left no steps that can be read", file=f"raw/{test}/steps.json")
            continue
        where = f"raw/{test}/steps.json"
        marks = [steps.began_ns, steps.first_ended_ns, steps.started_ns, *steps.marks_ns, steps.closed_ns, steps.returned_ns]
        marks += [steps.evaluation_started_ns, steps.evaluation_ended_ns]
        if any(b < a for a, b in zip(marks, marks[1:], strict=False)):
            yield Fault(f"the times of the {test} test do not ascend", file=where)
        if steps.queued_ns > 1.1 * (steps.returned_ns - steps.closed_ns) + 1e6:
            yield Fault(f"the {test} test stood in a queue for longer than it took", file=where)
        if steps.input_ns > steps.returned_ns - steps.began_ns:
            yield Fault(f"the {test} test took longer to hand over its batches than it lasted", file=where)
        test_ns = within(training.outcomes[test], "test_ns")
        if test_ns != steps.window_ns or int(steps.times_ns.sum()) != steps.window_ns:
            yield mismatch(f"test_ns of the {test} test", test_ns, steps.window_ns, "its steps add up to", file=f"raw/{test}/outcome.json")


def _count(training: TrainingRun) -> Iterator[Fault]:
    steps, least = training.steps["performance"], limits()["least_steps"]
    if steps is None or steps.count < least:
        yield mismatch("the number of timed steps", steps and steps.count, f"{least} or more", "mode valid takes")


def _window(training: TrainingRun) -> Iterator[Fault]:
    """Yield a fault if the framework's loop went on after its last step for longer than the end of an epoch takes.

    The time counts from when the device had finished the last step.
    """
    steps, tail = training.steps["performance"], limits()["tail"]
    if steps is None:
        yield Fault("the performance test left no steps that can be read")
        return
    took_s = (steps.returned_ns - steps.closed_ns - steps.queued_ns) / 1e9
    most_s = tail["window_fraction"] * steps.window_ns / 1e9 + tail["seconds"]
    if took_s > most_s:
        text = f"the framework's loop and its device went on for {took_s:.3g} s after the last step was said to be done; {most_s:.3g} s may"
        yield Fault(text, f"at most {most_s:.3g}", f"{took_s:.3g}")


def _accuracy(training: TrainingRun) -> Iterator[Check]:
    tolerance, precision = training.recorded("accuracy", "tolerance"), str(training.recorded("cell", "precision"))
    bounds = limits()["tolerance_of_lora" if training.recorded("cell", "lora") else "tolerance"].get(precision, {})
    loose = [
        mismatch(f"accuracy.tolerance.{name}", within(tolerance, name), f"at most {bounds.get(name)}", f"{precision} may have")
        for name in ("first_loss_error", "loss_error")
        if not _number(within(tolerance, name)) or not within(tolerance, name) <= bounds.get(name, -1)
    ]
    yield judge("training-tolerance", loose, "within this project's limits", file="record.json", fix=fixes.RUN)
    where = {"file": "raw/accuracy/steps.json", "fix": "mend the SUT: it does not train as the reference does"}
    if training.no_reference:
        why = f"there is no reference to compare with: {shorten(training.recorded('accuracy', 'reason'))}"
        yield manual("training-loss", why, **where)
    else:
        score, fault = files.reckon(lambda: loss_score(training))
        wrong = [fault] if score is None else [] if score.passed else [f"{score.line()}: the losses leave the reference's"]
        yield judge("training-loss", wrong, score.line() if score else "", **where)
    yield judge("training-while-timed", _while_timed(training), "the timed run's losses are the accuracy test's", **where)
    yield judge("training-held-out", _held_out(training), "both runs' losses on batches that are held out are right", **where)


def loss_score(training: TrainingRun) -> loss_curve.Accuracy:
    """The score of the accuracy test's losses. Raises ValueError where there is nothing to compare."""
    steps, tolerance = training.steps["accuracy"], training.recorded("accuracy", "tolerance")
    if steps is None or training.reference is None or not isinstance(tolerance, dict):
        raise ValueError("steps, reference or tolerance are missing")
    return loss_curve.score(steps.losses, training.reference["loss"], tolerance)


def _held_out(training: TrainingRun) -> Iterator[Fault]:
    """The losses after the training, on batches that it did not see, beside the reference's; without one, beside the accuracy test's."""
    limit, each = within(training.recorded("accuracy", "tolerance"), "loss_error"), training.steps["accuracy"]
    if each is None or len(each.losses) < 3 or not _number(limit) or not (training.reference or training.no_reference):
        yield Fault("there are no losses to compare, or no tolerance")
        return
    losses, held_out = (training.reference[key] for key in ("loss", "held_out")) if training.reference else (each.losses, each.held_out)
    with np.errstate(all="ignore"):  # what is not finite makes NaN, which is never close
        allowed = limit * float(np.std(losses))
    for test, steps in training.steps.items():
        found = steps.held_out if steps else ()
        close = len(found) == len(held_out) and all(abs(a - b) <= allowed for a, b in zip(found, held_out, strict=True))
        if not (found and close):
            values, expected = (" ".join(f"{loss:.7g}" for loss in row) or "nothing" for row in (found, held_out))
            yield mismatch("the losses held out", values, f"{expected}, ± {allowed:.2g}", f"in the {test} test they have to be")


def _log(training: TrainingRun) -> Iterator[Fault]:
    """A sentence for each place where the log is another than the one that follows from the files it was made of."""
    steps, job = training.steps["performance"], training.jobs["performance"]
    expected, fault = files.reckon(lambda: mllog.lines(steps, training.record, job) if steps and training.record and job else None)
    if expected is None:
        yield Fault(f"it cannot be told what has to stand in it: {fault}")
        return
    whole = "".join(expected).encode()
    found, fault = files.attempt(lambda path: _start_of(path, len(whole) + 1), training.directory / FOLDER / LOG)
    if found != whole:
        other = (found or b"").decode(errors="replace").splitlines(keepends=True)
        number = next((n for n, (a, b) in enumerate(zip(expected, other, strict=False), 1) if a != b), min(len(expected), len(other)) + 1)
        yield Fault(fault or f"line {number} is not what steps, record and job make it", line=number)


def _start_of(path: Path, count: int) -> bytes:
    with path.open("rb") as f:
        return f.read(count)


def _while_timed(training: TrainingRun) -> Iterator[Fault]:
    """The timed run keeps two losses: the first step's and the mean of the others. Both are compared with those of the accuracy test."""
    timed, each = training.steps["performance"], training.steps["accuracy"]
    limit = within(training.recorded("accuracy", "tolerance"), "loss_error")
    if timed is None or each is None or len(timed.losses) != 2 or len(each.losses) < 3 or not _number(limit):
        yield Fault("a test left no losses, or not those it has to leave")
        return
    expected = (each.losses[0], float(np.mean(each.losses[1:])))
    allowed = limits()["timed_loss"] * limit * float(np.std(each.losses))
    for what, value, other in zip(("the loss of the first step", "the mean loss of the others"), timed.losses, expected, strict=True):
        if not abs(value - other) <= allowed:
            yield mismatch(what, f"{value:.7g} in the timed run", f"{other:.7g} ± {allowed:.2g}", "in the accuracy test it is")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _evidence(training: TrainingRun) -> Iterator[Check]:
    execution, precision = str(training.recorded("execution")), training.recorded("cell", "precision")
    rule = limits()["evidence"].get(execution)
    faults: list[Fault | str] = [] if rule else [f"there is no rule for the execution {shorten(execution)}"]
    lower: list[Fault | str] = []
    for test, outcome in training.outcomes.items():
        both = [within(outcome, key) for key in ("evidence_before", "evidence_after")]
        if not all(isinstance(each, dict) for each in both):
            faults.append(f"the {test} test left no evidence")
            lower.append(f"the {test} test left no evidence")
            continue
        if rule:
            found, why = files.reckon(partial(evidence.findings, EvidenceRule(**rule), both[0], both[1], execution))
            faults += [Fault(f"{test}: {text}", file=f"raw/{test}/outcome.json") for text in (found if found is not None else [why])]
        told = {each.get("precision") for each in both}
        if told != {precision}:
            lower.append(mismatch(f"the precision of the {test} test", ", ".join(sorted(map(str, told))), precision, "the cell says"))
    yield judge("training-evidence", faults, f"{execution}: what the watched steps ran", file="raw/performance/outcome.json")
    yield judge("training-precision", lower, f"{precision}, read off weights and products", file="raw/performance/outcome.json")


def _speed(training: TrainingRun) -> Check:
    """Judge whether the model can have been trained so fast.

    The model's operations a second are compared with those of a large matrix product.
    """
    reached, product = _flops(training)
    if reached is None or product is None:
        return not_applicable("training-speed", "nobody knows the model's operations, or how fast the framework multiplies")
    text = f"{reached / 1e9:.3g} GFLOP/s at least; a large product has {product / 1e9:.3g}"
    faults = [f"{text}: it did not train"] if reached > limits()["faster_than_products"] * product else []
    return judge("training-speed", faults, text, file="raw/performance/steps.json")


def _flops(training: TrainingRun) -> tuple[float | None, float | None]:
    """Return the operations a second, at least, of the training and of a large product. None for one that is not known."""
    steps, least = training.steps["performance"], training.recorded("least_flops")
    product = within(training.outcomes["performance"], "evidence_after", "matrix_flops")
    reached = None
    if steps is not None and _number(least):
        reached = passes(training.recorded("cell", "lora")) * least * step_files.figures(steps)["samples_per_second"]
    return reached, product if _number(product) and product > 0 else None


def _result(training: TrainingRun) -> Iterator[Fault]:
    """A sentence for each place where result.json contradicts record and steps. There is no result.json yet while it is made."""
    result, steps = training.result, training.steps["performance"]
    if result is None or steps is None:
        return
    for key in ("cell", "mode", "round"):
        if result.get(key) != training.recorded(key):
            yield mismatch(key, repr(result.get(key)), repr(training.recorded(key)), "record.json has")
    values = step_files.figures(steps)
    told = {"metric": (within(result, "metric", "value"), values["ms_per_step"])}
    told |= {f"metrics.{name}": (within(result, "metrics", name), value) for name, value in values.items()}
    if (tokens := within(result, "metrics", "tokens_per_second")) is not None:
        told["metrics.tokens_per_second"] = (tokens, (within(result, "cell", "seq_len") or 0) * values["samples_per_second"])
    reached, product = _flops(training)
    for name, expected in (("flops_per_second", reached), ("matrix_share", reached and product and reached / product)):
        if (figure := within(result, "metrics", name)) is not None:
            told[f"metrics.{name}"] = (figure, expected or 0.0)  # 0: nothing makes it
    told |= {
        "measured.samples": (within(result, "measured", "samples"), steps.count * steps.batch_size),
        "measured.batches": (within(result, "measured", "batches"), steps.count),
    }
    for name, (value, expected) in told.items():
        if not (_number(value) and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12)):
            yield mismatch(name, value, f"{expected:.10g}", "the steps make it")
    if within(result, "metric", "name") != "ms_per_step" or within(result, "metric", "higher_is_better") is not False:
        yield mismatch("metric", shorten(repr(result.get("metric"))), "ms_per_step, of which less is better", "a training has")
    score, _ = files.reckon(lambda: loss_score(training))
    if within(result, "accuracy", "passed") is True and (score is None or not score.passed):
        yield mismatch("accuracy.passed", True, False, "the losses make it")
    if result.get("ranked") is True and (training.recorded("cell", "size") == "tiny" or score is None or not score.passed):
        yield mismatch("ranked", True, False, "size and losses make it")
    for name, key in (("peak_host_bytes", "peak_host_bytes"), ("energy", "energy"), ("disturbance", "disturbance")):
        if result.get(name) != within(training.outcomes["performance"], key):
            yield mismatch(name, result.get(name), within(training.outcomes["performance"], key), "raw/performance/outcome.json has")
