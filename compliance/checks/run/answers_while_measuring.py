"""The checks of the worker's record of the performance test: a sample of the answers, and the
speed.

The accuracy test shows nothing about the performance test's answers, and no other check looks at
these answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from compliance import logs
from compliance.findings.check import (
    differs,
    failed,
    judge,
    manual,
    mismatch,
    not_applicable,
    shorten,
)
from compliance.logs import files
from compliance.scoring import of_run
from compliance.scoring.value import AnswerBytes
from compliance.subject import Subject
from formats.cell import ONLY_WEIGHTS
from formats.checks import Check, Checks, Fault, Faults
from formats.frameworks import ENGINE
from formats.outcome import Fresh, WorkerOutcome
from formats.record import Record

_FIX = "correct the SUT: it must answer as in the accuracy test"
_COMPUTE = "correct the SUT: it must compute every answer"
_NO_CACHE = "switch the engine's caches of prompts and answers off, and measure again"
_ANSWERS = "answers-while-measuring"
_FRESH = "fresh-inputs"
_SPEED = "plausible-speed"
_NO_TEST = "the performance test has no good outcome"
_HALF = 128
_KEPT_BYTES = 64 << 20
UNKNOWN_SPEED = "the model's operations or the speed of a large matrix product are not known"


def checks(subject: Subject) -> Checks:
    """The checks of the performance test's answers, of the time of fresh inputs, and of the speed
    compared with that of a matrix product.
    """
    outcome = subject.performance.outcome
    record = subject.recorded
    if outcome is None or outcome.status != "ok":
        return [not_applicable(check_id, _NO_TEST) for check_id in (_ANSWERS, _FRESH, _SPEED)]
    return [
        _answers(subject, outcome, record),
        _fresh(subject, record, outcome.fresh),
        _speed(subject, outcome, record),
    ]


def _answers(subject: Subject, outcome: WorkerOutcome, record: Record) -> Check:
    assert subject.place.run is not None
    run = subject.place.run
    raw = run / "raw"
    where = {"file": "raw/performance/answers.npz", "fix": _FIX}
    file = raw / "performance" / "answers.npz"
    digest, fault = files.attempt(files.sha256, file)
    if digest != outcome.kept_sha256:
        text = f"its sha256 is {digest}; outcome.json has {shorten(outcome.kept_sha256)}"
        return failed(_ANSWERS, fault or text, **where)
    kept, fault = files.attempt(files.arrays, file)
    log, log_fault = files.attempt(
        logs.read_accuracy, raw / "accuracy" / "mlperf_log_accuracy.json"
    )
    if kept is None or log is None:
        return failed(_ANSWERS, fault or log_fault, **where)
    payloads = log.payloads
    answers, fault = files.reckon(lambda: _unpack(kept))
    if answers is None:
        return failed(_ANSWERS, fault, **where)
    faults, fault = files.reckon(lambda: list(_unfit(outcome, record, kept, payloads, answers)))
    if faults or fault:
        return judge(_ANSWERS, faults or [fault], **where)
    others = sorted({each for each in answers if payloads.get(each[0]) != each[1]})
    if not others:
        good = f"the {len(answers)} kept answers are those of the accuracy test"
        return judge(_ANSWERS, [], good, **where)
    summary = f"{len(others)} of {len(answers)} kept answers differ from the accuracy test's"
    if subject.no_reference and not record.official:
        return manual(_ANSWERS, f"{summary}, and there is no reference to score them", **where)
    benchmarks = subject.rules.benchmarks
    score = partial(of_run.with_others, run, record, benchmarks, payloads, others, len(answers))
    scored, fault = files.reckon(score)
    if scored is None:
        return failed(_ANSWERS, fault, **where)
    passed, text = scored
    if passed:
        return judge(_ANSWERS, [], f"{summary}, within the tolerance", **where)
    differ = f"{len(others)} kept answers differ from the accuracy test's"
    return failed(_ANSWERS, f"{differ}; with them {text}", **where)


def _unpack(kept: Mapping[str, np.ndarray]) -> list[tuple[int, bytes]]:
    """(index of the sample, its answer) of each kept answer. Raises ValueError if there is none."""
    content = kept["content"].tobytes()
    starts = kept["starts"].tolist()
    if not len(kept["indices"]) or len(starts) != len(kept["indices"]) + 1:
        raise ValueError("no answer was kept")
    ranges = zip(kept["indices"], pairwise(starts), strict=True)
    return [(int(index), content[start:end]) for index, (start, end) in ranges]


def _unfit(
    outcome: WorkerOutcome,
    record: Record,
    kept: Mapping[str, np.ndarray],
    payloads: AnswerBytes,
    answers: Sequence[tuple[int, bytes]],
) -> Faults:
    """Yield a fault if the performance test's answers have another number of bytes in total than
    the accuracy test's answers to the same samples, or if too few answers were kept.

    Answers that end at an end token may have other lengths in another batch, so they may differ by
    a tenth. So may those of an engine, whose tokens were made from text. A worker keeps
    (`scenarios.worker.watch`) half of 256 answers in the first pass over the samples, and fewer if
    they are large.

    Args:
        kept: the arrays of answers.npz; `visits`: how often each sample was answered.
        payloads: the accuracy test's answers.
        answers: the kept ones.
    """
    visits = kept["visits"]
    answered = outcome.answered
    total = answered["payload_bytes"]
    expected = sum(n * len(payloads[i]) for i, n in enumerate(visits.tolist()) if n)
    slack = 0.1 if record.end_tokens or record.execution == ENGINE else 0.0
    if int(visits.sum()) != answered["samples"] or abs(total - expected) > slack * expected:
        sentence = (
            "all answers together have {found} bytes; those of the accuracy test to the same"
            " samples have {expected}"
        )
        yield differs(sentence, total, expected)
        return
    largest = max(len(content) for _, content in answers)
    planned = outcome.plan.samples if outcome.plan else 1
    first = min(record.qsl.performance_sample_count, planned)
    part = min(1.0, answered.get("samples", 0) / first)
    least = int(part * min(_HALF, first) / (1 + largest * 2 * _HALF // _KEPT_BYTES))
    if len(answers) < least:
        text = f"{len(answers)} answers were kept, and a test of so many samples keeps {least}"
        yield Fault(text, f"at least {least}", str(len(answers)))


def _fresh(subject: Subject, record: Record, fresh: Fresh | None) -> Check:
    """Judge whether inputs that the SUT had never met took much longer than inputs that it had
    met.
    """
    where = {"file": "raw/performance/outcome.json", "fix": _COMPUTE}
    keeps = "it keeps answers"
    is_engine = record.execution == ENGINE
    if is_engine:
        where["fix"] = _NO_CACHE
        keeps = "the engine keeps answers, or what it computed of prompts"
    if fresh is None:
        return failed(_FRESH, "the worker timed no fresh inputs", **where)
    ratio = fresh.slower
    others = fresh.other_processors or 0.0
    project_limits = subject.rules.project_limits
    limits = project_limits.fresh_slower_in_thirds
    most = project_limits.fresh_slower
    if others >= limits["other_processors"] and not is_engine:
        most = project_limits.fresh_slower_disturbed
    text = f"fresh inputs took {ratio:.3g} times as long as those it had met"
    timed = fresh.fresh_ns / (min(fresh.again_ns, fresh.met_ns) or math.inf)
    if not math.isclose(timed, ratio, rel_tol=1e-6):
        return failed(_FRESH, mismatch("slower", ratio, timed, "its times give"), **where)
    if ratio > most:
        limit = f"at most {most:g}"
        fault = Fault(f"{text}; {limit}: {keeps}", limit, f"{ratio:.3g}")
        return failed(_FRESH, fault, **where)
    most = limits["most"]
    if ratio <= most:
        return judge(_FRESH, [], text, **where)
    if slower := in_each_third(fresh, limits):
        fault = Fault(f"{text}; {slower}", f"at most {most:g}", f"{ratio:.3g}")
        return failed(_FRESH, fault, **where)
    return judge(_FRESH, [], f"{text}, which does not show that {keeps}", **where)


def in_each_third(fresh: Fresh, limits: Mapping[str, float]) -> str:
    """A sentence if fresh inputs took longer in each third of enough rounds, on a machine that
    nothing else used. Empty otherwise.

    Args:
        fresh: the worker's measurements.
        limits: `fresh_slower_in_thirds` of the rules.
    """
    thirds = fresh.thirds
    others = fresh.other_processors or 0.0
    if not thirds or fresh.rounds < limits["rounds"] or others >= limits["other_processors"]:
        return ""
    if min(thirds) <= limits["most"]:
        return ""
    each = ", ".join(f"{ratio:.3g}" for ratio in thirds)
    return (
        f"at most {limits['most']:g}, and {each} in the thirds of {fresh.rounds} rounds: it"
        " keeps a part of its answers"
    )


def _speed(subject: Subject, outcome: WorkerOutcome, record: Record) -> Check:
    """Judge whether the model can have computed its answers so fast.

    The model's operations a second are compared with those of a large matrix product in the cell's
    precision.
    """
    where = {"file": "raw/performance/outcome.json", "fix": _COMPUTE}
    detail = subject.performance.detail
    evidence = outcome.evidence_after
    product = evidence.matrix_flops if evidence else None
    least = record.least_flops
    mean_ns = detail.number("result_mean_latency_ns")
    rate = detail.number("result_samples_per_second") or (1e9 / mean_ns if mean_ns else None)
    if evidence is None or not product or product <= 0 or least is None or rate is None:
        return not_applicable(_SPEED, UNKNOWN_SPEED, **where)
    cell = record.cell
    product *= cell.replica_count * evidence.at_once(cell.shard_count)
    limits = subject.rules.project_limits
    factor = limits.faster_than_products
    if record.cell.quantized not in (None, *ONLY_WEIGHTS):
        factor = limits.faster_than_products_int8
    return speed(_SPEED, least * rate, product, factor * product, "compute", where)


def speed(
    check_id: str, reached: float, product: float, most: float, verb: str, where: Mapping[str, str]
) -> Check:
    """The check of a model's operations a second.

    Args:
        reached: the operations a second.
        product: those of a large matrix product.
        most: the most that the model may reach.
        verb: what the SUT did not do if it reached more.
        where: `file` and `fix` of the check.
    """
    text = f"{reached / 1e9:.3g} GFLOP/s at least; a large product has {product / 1e9:.3g}"
    faults = []
    if reached > most:
        sentence = f"{text}: it did not {verb}"
        faults.append(Fault(sentence, f"at most {most:.3g}", f"{reached:.3g}"))
    return judge(check_id, faults, text, **where)
