"""Decides how a compliance test ends, and creates the text of its verify_*.txt. All functions are
pure.

A test is judged by its logs and those of its run. The texts have the lines of run_verification.py
that the submission checker looks for; both scripts are from mlcommons/inference. Unlike
run_verification.py, TEST01 compares every byte of an answer, and TEST06 takes the end token as a
number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compliance.audit_tests.logged_answers import Compared, LoggedAnswers, Row, end_tokens, variants
from compliance.loadgen.latency_keys import QUERIES, SAMPLES
from compliance.logs import Detail
from compliance.rules import ComplianceTest, Rules
from compliance.scoring import accuracy
from compliance.scoring.accuracy import Accuracy, Arrays
from formats.record import Judged
from formats.workload import Workload

PASS, FAIL = "TEST PASS", "TEST FAIL"
NO_FIRST_TOKEN = "no tokens are streamed, so LoadGen is told no first token"
NO_TOKEN_COUNT = "no token latencies are measured, so LoadGen is told no token count"


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of a compliance test, compared with the performance run's.

    Attributes:
        key: the key of both values in the detail log.
        reference, test: the values of the performance run and of the test.
        faster: by how much the test is faster, as a fraction; negative if it is slower.
        tolerance: the limit on `faster`, and also on how much slower the test may be unless
            `only_faster`.
        only_faster: whether the test may be slower by any amount.
        valid: whether LoadGen calls both runs VALID. Otherwise the official scripts fail the test.
    """

    key: str
    reference: float
    test: float
    faster: float
    tolerance: float
    only_faster: bool
    valid: bool

    @property
    def verdict(self) -> str:
        """The verdict for verify_performance.txt."""
        return PASS if self.valid and self.holds else FAIL

    @property
    def holds(self) -> bool:
        """Whether the test is within the tolerance."""
        return self.faster <= self.tolerance and (
            self.only_faster or self.faster >= -self.tolerance
        )


def inapplicable(name: str, workload: Workload, samples: int) -> str:
    """Why a compliance test does not apply to a workload; empty if it applies.

    Args:
        name: the test, for example TEST01.
        workload: the workload of job.json.
        samples: the size of the loaded set.
    """
    if name == "TEST06" and workload.task != "generate":
        return "the model generates no tokens"
    if name == "TEST04":
        config = workload.config
        if config.get("end_tokens"):
            return (
                "the samples do not cost the same (answers end at their end tokens), so one of them"
                " tells nothing of the rest"
            )
        buckets = {key: config.get(key) for key in ("prompt_buckets", "new_token_buckets")}
        uneven = [
            key.replace("_", " ")
            for key, sizes in buckets.items()
            if isinstance(sizes, list) and len(sizes) > 1
        ]
        if uneven:
            return (
                f"the samples do not cost the same ({' and '.join(uneven)} of several lengths), so"
                " one of them tells nothing of the rest"
            )
        if samples < 4:
            return f"it repeats sample number 3, and the library has {samples}"
    return ""


def speed(
    rule: ComplianceTest, scenario: str, rules: Rules, performance: Detail, test: Detail
) -> Speed | None:
    """The speed of a test, compared with the performance run's; None if a figure is missing.

    If there are too few queries for early stopping's estimate, the plain percentile is used.
    """
    metric = rules.scenarios[scenario].metric
    valid = all(detail.get("result_validity") == "VALID" for detail in (performance, test))
    latency, share = (
        (QUERIES if scenario == "MultiStream" else SAMPLES),
        f"{rules.scenarios[scenario].percentile:.2f}",
    )
    for key in (
        (metric.key,) if metric.higher_is_better else (metric.key, latency.percentile.format(share))
    ):
        reference, value = performance.number(key), test.number(key)
        if not reference or not value or reference <= 0 or value <= 0 or rule.tolerance is None:
            continue
        tolerance = rule.tolerance
        if metric.higher_is_better:
            faster = value / reference - 1
        else:
            if rule.tolerance_single_stream is not None and reference <= rule.short_latency_ns.get(
                scenario, 0
            ):
                tolerance = rule.tolerance_single_stream
            # TEST01's script compares latencies, TEST04's their reciprocals.
            faster = reference / value - 1 if rule.only_faster else 1 - value / reference
        return Speed(
            key=key,
            reference=reference,
            test=value,
            faster=faster,
            tolerance=tolerance,
            only_faster=rule.only_faster,
            valid=valid,
        )
    return None


def worst(
    rows: Sequence[Row],
    answers: Mapping[int, bytes],
    judged: Judged,
    reference: Arrays,
    forced: Any,
) -> Accuracy:
    """The accuracy run's score with the test's differing answers put in. Of several scores, it is
    the first that does not pass, else the largest.

    Raises ValueError if the score cannot be computed, and KeyError if a limit is missing in the
    tolerance.
    """
    # The SUT's own logits exist only for the accuracy run's answers, and not for the test's.
    tolerance = {
        name: limit for name, limit in judged.tolerance.items() if name != "argmax_fraction"
    }
    scores = [
        accuracy.score(
            judged.score, {**answers, **changed}, reference, tolerance, judged.keys, forced
        )
        for changed in variants(tuple(rows))
    ]
    return next((s for s in scores if not s.passed), max(scores, key=lambda s: s.value))


def accuracy_text(compared: Compared, entries: int) -> str:
    """The verify_accuracy.txt of TEST01. `entries` is the number of answers in the accuracy run's
    log.
    """
    different = len(compared.different)
    unknown = len(compared.unknown)
    known = compared.equal + different
    verdict = PASS if compared.exact else FAIL
    return f"""\
Verifying accuracy: every byte of every logged answer.
num_acc_log_entries = {entries}
num_perf_log_entries = {known + unknown}
num_perf_log_qsl_idx_match = {known}
num_perf_log_data_mismatch = {different}
num_missing_qsl_idxs = {unknown}
{verdict}
"""


def performance_text(speed: Speed | None) -> str:
    """The verify_performance.txt of TEST01 and TEST04."""
    if speed is None:
        return f"Verifying performance.\n{FAIL}: a score is missing\n"
    why = ": Test score invalid" if speed.valid else ": Invalid results"
    if speed.verdict == PASS:
        why = ""
    return f"""\
Verifying performance.
Reference score = {speed.reference}
Test score = {speed.test}
{speed.verdict}{why}
"""


def token_text(logged_answers: LoggedAnswers, ends: frozenset[int]) -> str:
    """The verify_accuracy.txt of TEST06. A check that cannot be decided is Skipped; the submission
    checker accepts that only for the first token.
    """
    eos = f"{not two_ends(logged_answers, ends)}" if ends else "Skipped"
    whole = (
        bool(logged_answers.rows)
        and not logged_answers.problems
        and not two_ends(logged_answers, ends)
    )
    notes = [NO_FIRST_TOKEN, NO_TOKEN_COUNT]
    if not ends:
        notes.append("no end token is known of this tokenizer")
    return f"""\
First token check pass: Skipped
EOS check pass: {eos}
Sample length check pass: Skipped
TEST06 verification {"complete" if whole else "failed"}
{"; ".join(notes)}
"""


def two_ends(logged_answers: LoggedAnswers, ends: frozenset[int]) -> list[Row]:
    """The rows whose answers end with more than one end token."""
    return [row for row in logged_answers.rows if ends and end_tokens(row, ends) > 1]
