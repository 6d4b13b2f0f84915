"""The checks of the compliance tests that mlcommons/endpoints has for a benchmark
(submission_checker: checks/compliance_check.py, compliance_endpoints_check).
"""

from __future__ import annotations

from compliance.endpoints.result import SUMMARY, Result, number
from compliance.findings.check import judge, mismatch
from compliance.logs import files
from formats.checks import Check, Faults

_FIX = "run the test with `inference-endpoint audit`, and put its folder audit/ there"


def checks(result: Result) -> list[Check]:
    """The checks of the tests that the benchmark requires; none in the open division. Without a
    submission around the result there is no place for the files of a test.
    """
    model = result.model
    if model is None or result.place.division == "open":
        return []
    found = []
    if result.place.benchmark:
        for check_id, name in model.audit_tests.items():
            file = f"audit/audit_{name}.json"
            faults = _not_passed(result, file, name)
            found.append(judge(check_id, faults, "passed", file=result.show(file), fix=_FIX))
    if limits := model.mean_output_tokens:
        faults = _other_length(result, *limits)
        good, file = "the mean length is within its limits", result.show(SUMMARY)
        found.append(judge("test09", faults, good, file=file, fix="measure again"))
    return found


def _not_passed(result: Result, file: str, name: str) -> Faults:
    outcome, why = files.attempt(files.json_object, result.place.folder / file)
    if outcome is None:
        yield why
    elif outcome.get("test") != name:
        yield mismatch("test", repr(outcome.get("test")), repr(name), "the file is of")
    elif outcome.get("passed") is not True:
        yield mismatch("passed", repr(outcome.get("passed")), "True", "a passed test has")


def _other_length(result: Result, least: float, most: float) -> Faults:
    mean = number(result.summary, "output_sequence_lengths.avg")
    if mean is None or not least <= mean <= most:
        who = f"{result.official} requires"
        yield mismatch("output_sequence_lengths.avg", mean, f"{least} to {most}", who)
