"""The speed of TEST01 and TEST04, compared with the performance run's, and the verdicts in the
verify_*.txt of a compliance test. They are never trusted.

run_verification.py of mlcommons/inference writes these files. This project writes the lines that
the submission checker looks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from compliance.findings.check import failed, judge
from compliance.loadgen.latency_keys import QUERIES, SAMPLES
from compliance.logs import Detail, files
from compliance.rules import ComplianceTest, Rules
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault

PASS = "TEST PASS"
FAIL = "TEST FAIL"


def contradictions(test: LoadGenRun, name: str, expected: str, subject: Subject) -> list[str]:
    """List the faults of a verify_*.txt: it is missing, or has another verdict than `expected`.
    Empty if there is none.

    Args:
        expected: the verdict that the logs show.
    """
    text, fault = files.attempt(files.text, subject.place.compliance / test.name / name)
    if text is None:
        return [fault]
    lines = [line.strip() for line in text.splitlines()]
    fails = any(line.startswith(FAIL) for line in lines)
    agrees = fails if expected == FAIL else expected in lines
    contradicts = expected == PASS and fails
    if agrees and not contradicts:
        return []
    return [f"{name} has another verdict than the logs, which show {expected!r}"]


_FILE = "verify_performance.txt"


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
        return PASS if self.valid and self.passes else FAIL

    @property
    def passes(self) -> bool:
        """Whether the test is within the tolerance."""
        if self.faster > self.tolerance:
            return False
        return self.only_faster or self.faster >= -self.tolerance

    @property
    def sentence(self) -> str:
        """A sentence with the difference, both values and the limit."""
        share = f"{abs(self.faster):.1%} {'faster' if self.faster > 0 else 'slower'}"
        figures = f"{self.key} {self.test:.6g}, in the performance run {self.reference:.6g}"
        limit = f"within {self.tolerance:.0%}"
        if self.only_faster:
            limit = f"at most {self.tolerance:.0%} faster"
        return f"{share} ({figures}); it must be {limit}"


def compare(
    rule: ComplianceTest, scenario: str, rules: Rules, performance: Detail, test: Detail
) -> Speed | None:
    """The speed of a test, compared with the performance run's; None if a figure is missing.

    If there are too few queries for early stopping's estimate, the plain percentile is used. So it
    is with token latencies: LoadGen then logs the estimate of the first token under that key.
    """
    if rule.tolerance is None:
        return None
    metric = rules.scenarios[scenario].metric
    keys = [metric.key]
    if not metric.higher_is_better:
        latency = QUERIES if scenario == "MultiStream" else SAMPLES
        plain = latency.percentile.format(f"{rules.scenarios[scenario].percentile:.2f}")
        keys = [plain] if performance.has_tokens else [metric.key, plain]
    for key in keys:
        reference = performance.number(key)
        value = test.number(key)
        if not reference or not value or reference <= 0 or value <= 0:
            continue
        tolerance = rule.tolerance
        if metric.higher_is_better:
            faster = value / reference - 1
        else:
            short = reference <= rule.short_latency_ns.get(scenario, 0)
            if short and rule.tolerance_single_stream is not None:
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
            valid=all(log.get("result_validity") == "VALID" for log in (performance, test)),
        )
    return None


def check(test: LoadGenRun, rule: ComplianceTest, subject: Subject, reason: str = "") -> Check:
    """The check of a test's speed, computed from the detail logs. verify_performance.txt must
    agree.

    Args:
        reason: why a speed outside the tolerance fails, for the reader of the failure.
    """
    check_id = f"{test.slug}-performance"
    file = subject.test_folder(test.name)
    speed = compare(rule, subject.scenario, subject.rules, subject.performance.detail, test.detail)
    if speed is None:
        missing = "the score of the performance run or of the test is missing"
        return failed(check_id, missing, file)
    faults = [] if speed.passes else [f"{speed.sentence}{reason}"]
    faults += contradictions(test, _FILE, speed.verdict, subject)
    # The submission checker reads only the file, and none in the open division.
    believed = not contradictions(test, _FILE, PASS, subject)
    stricter = believed or subject.is_open
    found = [Fault(text, stricter=stricter) for text in faults]
    return judge(check_id, found, speed.sentence, file)


def verify_text(speed: Speed | None) -> str:
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
