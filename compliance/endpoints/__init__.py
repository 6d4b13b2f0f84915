"""The audit of a result of mlcommons/endpoints, which has no LoadGen logs: its figures, computed
again from counts and windows, its settings, its latencies and its accuracy.

Sources: inference, tools/submission/submission_structure.md (Endpoints submission structure) and
submission_checker; endpoints, src/inference_endpoint (metrics/report.py, metrics/early_stopping.py,
commands/benchmark/accuracy.py).
"""

from __future__ import annotations

import os

from compliance.endpoints import benchmark, performance, settings
from compliance.endpoints.result import ACCURACY, CONFIGS, FIX, SUMMARY, Result, read
from compliance.findings.check import judge, not_applicable
from compliance.folders import ResultFolder
from compliance.rules import Rules
from formats.checks import Checks

__all__ = ["Result", "checks", "is_result", "read"]

_ONE_READING = "every reader takes them in the same way"
_NO_LOADGEN = (
    "this is a result of mlcommons/endpoints, which has no LoadGen logs: LoadGen's build, settings,"
    " verdict and trace are not judged"
)


def is_result(place: ResultFolder, rules: Rules) -> bool:
    """Whether a folder has the files of an endpoints result. With a detail log of LoadGen it is a
    result of LoadGen, also for MLCommons' checker (loader.py, load).
    """
    folder = place.folder
    for test in (rules.layout.performance, rules.layout.accuracy):
        if os.path.lexists(folder / test / "mlperf_log_detail.txt"):
            return False
    if (folder / SUMMARY).is_file():
        return True
    has_config = any((folder / name).is_file() for name in CONFIGS)
    return has_config and (folder / ACCURACY).is_file()


def checks(result: Result) -> Checks:
    """The checks of an endpoints result. Those of a file that cannot be read are left out."""
    good = "config.yaml, result_summary.json and accuracy_results.json can be read"
    found = [
        judge("files-complete", result.faults, good, result.place.name, fix=FIX),
        judge("unambiguous-files", result.ambiguous, _ONE_READING, result.place.name),
        not_applicable("logs-say-nothing", _NO_LOADGEN),
    ]
    for module in (performance, settings, benchmark):
        found += module.checks(result)
    return found
