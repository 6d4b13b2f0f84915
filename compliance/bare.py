"""The audit of a folder with the logs of one LoadGen test and without a submission around it. It
explains LoadGen's verdict, compares the figures and computes them again, and names the checks that
cannot be made.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from compliance import explanation, logs, tree
from compliance.checks.logs import (
    duration,
    effective_settings,
    latencies,
    loadgen_build,
    sample_order,
    settings,
    trace,
    validity,
)
from compliance.checks.submission import accuracy, dates_and_digests, layout
from compliance.findings.check import failed, judge, not_applicable, shorten
from compliance.folders import folder_of_logs
from compliance.logs import files
from compliance.logs.user_conf import parse
from compliance.rules import Rules, is_earlier, rounds
from compliance.subject import LoadGenRun, Subject, read_logs
from formats.checks import Check, Checks, ResultLine, Verdict

_DETAIL = "mlperf_log_detail.txt"
_SUMMARY = "mlperf_log_summary.txt"
_LOG = "performance-detail-log"
_LOGS = "keep the whole folder that LoadGen wrote"
_NO_CONF = "there is no user.conf in this folder or above it, so nothing shows what was requested"
_NO_ROUND = "the seeds are those of no round, so this is not a run of a round"
_NO_ANSWERS = (
    "accuracy was not judged: LoadGen's logs have the answers, and neither the data set nor the"
    " script that scores them"
)


def checks(folder: Path, root: Path, rules: Rules, results: list[ResultLine]) -> Checks:
    """The checks of a folder of logs. Appends its line to `results`.

    Args:
        root: the audited directory. A user.conf in the folder or above it, up to there, is used.
    """
    line, checks = _judged(folder, root, rules)
    results.append(line)
    return checks


def _judged(folder: Path, root: Path, rules: Rules) -> tuple[ResultLine, Checks]:
    """The line and the checks of a folder of logs."""
    detail, fault = files.attempt(logs.read_detail, folder / _DETAIL)
    summary = files.maybe(logs.read_summary, folder / _SUMMARY)
    stated = summary.values if summary else {}
    scenario = detail and detail.get("effective_scenario")
    scenario = str(scenario or stated.get("Scenario") or "unknown")
    place = folder_of_logs(folder, _conf_folder(folder, root), scenario)
    line = replace(tree.line_of(place), scenario=shorten(scenario))
    if unjudged := _unjudged(detail, fault, stated.get("Result is")):
        return line, unjudged
    if scenario not in rules.scenarios:
        known = ", ".join(rules.scenarios)
        text = f"the log is of {shorten(scenario)}, which is no scenario of LoadGen: {known}"
        return line, [failed("scenario", text, _DETAIL, fix=_LOGS)]
    subject = _named(read_logs(place, rules))
    line = tree.completed(line, subject)
    if settings.has_several_tests(subject.performance.detail):
        return line, [settings.kind(subject.performance, subject)]
    if earlier := _of_an_earlier_round(subject):
        return line, [earlier]
    if subject.only == "accuracy":
        line = replace(line, explained=("an accuracy test: LoadGen gives no verdict on it",))
        return line, tree.guarded([("reading", partial(_accuracy, subject))])
    checks = tree.guarded([("reading", partial(_performance, subject))])
    return replace(line, explained=tuple(explanation.sentences(subject))), checks


def _unjudged(detail: logs.Detail | None, fault: str, verdict: str | None) -> Checks:
    """The only checks of a folder whose detail log cannot be judged; empty if it can.

    Args:
        fault: why there is no `detail`.
        verdict: LoadGen's verdict in the summary.
    """
    said = f"the summary says {shorten(verdict)}" if verdict else "no summary has a verdict"
    if detail and detail.not_judged:
        why = f"{detail.not_judged}; {said}"
        return [not_applicable(_LOG, why, _DETAIL)]
    stopped = detail.stopped("performance") if detail else ""
    if detail and detail.values and not stopped:
        return []
    faults = [fault]
    if detail:
        faults = [*filter(None, [stopped]), *detail.problems]
    checks = [judge(_LOG, faults, "", _DETAIL, fix=_LOGS)]
    if verdict:
        why = f"{said}, and no detail log shows why"
        checks.append(not_applicable("logs-say-nothing", why, _SUMMARY))
    return checks


def _of_an_earlier_round(subject: Subject) -> Check | None:
    """The only check of a log that a LoadGen from before the earliest round wrote, if it lacks keys
    that the audit needs; None if the log can be judged.
    """
    (test,) = subject.tests
    version = str(test.detail.get("loadgen_version"))
    missing = layout.missing_keys(test, subject)
    if not missing or not _of_no_round(subject) or not is_earlier(version.partition(" @ ")[0]):
        return None
    first_error = next(iter(test.detail.errors), None)
    error = ""
    if first_error:
        error = f"; line {first_error.number} reports an error: {shorten(first_error.value)!r}"
    why = (
        f"LoadGen {shorten(version)} wrote it, which is older than {rounds()[0]}, the"
        f" earliest round that has rules, and does not log {shorten(', '.join(missing))}: it is not"
        f" judged{error}"
    )
    return not_applicable(_LOG, why, _DETAIL)


def _conf_folder(folder: Path, root: Path) -> Path:
    """The nearest folder with a user.conf, from `folder` up to `root`; else `folder`."""
    for above in (folder, *folder.parents):
        if (above / "user.conf").is_file():
            return above
        if above == root:
            break
    return folder


def _named(subject: Subject) -> Subject:
    """The subject with the benchmark that all lines of its user.conf name, if they name one."""
    models = parse(subject.performance.user_conf or "").models()
    if len(models) != 1:
        return subject
    place = replace(subject.place, benchmark=models.pop())
    return replace(subject, place=place, rules=subject.rules.of(place.benchmark))


def _of_one_test(subject: Subject) -> Checks:
    (test,) = subject.tests
    return [
        *layout.of_test(test, subject),
        *_settings(test, subject),
        effective_settings.check(test, subject),
        effective_settings.percentile(test, subject),
        settings.sample_set(test, subject),
        validity.error_lines(test, subject),
        *sample_order.loaded_sets(subject),
        loadgen_build.of_test(test, subject),
        dates_and_digests.dates(subject),
    ]


def _settings(test: LoadGenRun, subject: Subject) -> Checks:
    """The checks of the settings. Without a user.conf, and without the seeds of a round, the checks
    that need them do not apply.
    """
    checks = settings.of_test(test, subject)
    left_out = {}
    if test.user_conf is None:
        left_out[f"{test.name}-requested-settings"] = _NO_CONF
    else:
        checks.append(settings.user_conf_keys(subject))
    if _of_no_round(subject):
        left_out[f"{test.name}-seeds"] = _NO_ROUND
    name = _compliance_test(subject)
    if name:
        left_out[f"{test.name}-audit-settings"] = f"the folder is of {name}, which has some"
        checks.append(_audited(name, test))
    return [
        not_applicable(check.id, left_out[check.id]) if check.id in left_out else check
        for check in checks
    ]


def _compliance_test(subject: Subject) -> str:
    """The compliance test that a folder around the logs is named for; empty if there is none."""
    parts = [part.upper() for part in subject.place.folder.parts[-3:]]
    return next((name for name in subject.rules.compliance_tests if name in parts), "")


def _audited(name: str, test: LoadGenRun) -> Check:
    """The check that the logs in a compliance test's folder are not those of an ordinary run."""
    faults = []
    if not settings.has_audit_config(test.detail):
        faults.append(settings.ORDINARY.format(name=name))
    good = "LoadGen found an audit.config"
    check = judge(f"{name.lower()}-settings", faults, good, _DETAIL, fix=_LOGS)
    return replace(check, level="quick")


def _of_no_round(subject: Subject) -> bool:
    detail = subject.performance.detail
    seeds = subject.rules.seeds.items()
    return not any(detail.get(f"effective_{key}") == seed for key, seed in seeds)


def _performance(subject: Subject) -> Checks:
    """The checks of a performance test. LoadGen's verdict counts at every level, because a folder
    of logs claims nothing else.
    """
    round_checks = settings.of_the_round(subject)
    if _of_no_round(subject):
        round_checks = [not_applicable(check.id, _NO_ROUND) for check in round_checks]
    # A compliance test may log answers.
    is_ordinary = not settings.has_audit_config(subject.performance.detail)
    no_answers = []
    if is_ordinary and not _compliance_test(subject):
        no_answers.append(accuracy.performance_answers(subject))
    return [
        *_of_one_test(subject),
        *round_checks,
        *latencies.checks(subject),
        validity.parts(subject),
        duration.performance(subject),
        validity.early_stopping(subject),
        replace(validity.verdict(subject), level="quick"),
        duration.measured(subject),
        *trace.checks(subject),
        sample_order.performance(subject),
        *no_answers,
        not_applicable("accuracy-score", _NO_ANSWERS),
    ]


def _accuracy(subject: Subject) -> Checks:
    answers = []
    for check in accuracy.checks_of_logs(subject):
        fix = f"{_LOGS}, or {check.fix}" if check.verdict is Verdict.FAIL else check.fix
        answers.append(replace(check, fix=fix))
    return [
        *_of_one_test(subject),
        duration.accuracy(subject),
        *answers,
        not_applicable("accuracy-score", _NO_ANSWERS),
    ]
