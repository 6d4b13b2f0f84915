"""The checks of both tests' settings. The requested settings must be those of user.conf, and audit
settings must not be set. user.conf itself is checked too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compliance.findings import fixes
from compliance.findings.check import judge, manual, shorten
from compliance.findings.entries import entry_fault
from compliance.loadgen import counts
from compliance.logs import Detail
from compliance.logs.digits import DIGITS, close
from compliance.logs.user_conf import Conf, parse
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject, conf_entry
from formats.checks import Check, Fault

# Settings that an accuracy test does not use, because it takes each sample once.
_OF_PERFORMANCE = ("target_", "min_", "max_duration", "max_query")
_SCENARIO_NAMES = ("SingleStream", "MultiStream", "Server", "Offline", "*")
_MODES = {"performance": "PerformanceOnly", "accuracy": "AccuracyOnly"}
_SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
_OF_TOKENS = ("use_token_latencies", "ttft_latency", "tpot_latency")
# Settings of audit.config. Only compliance tests have them, and performance and accuracy tests
# never.
_AUDIT = (
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "print_timestamps",
)


def inferred(subject: Subject) -> list[Check]:
    """The check of a folder with another scenario's logs. An edge system may infer MultiStream and
    Offline from them.

    Empty if the logs are of the folder's own scenario. Sources: inference_policies,
    inference_rules.adoc (Benchmarks), and submission_checker/checks/performance_check.py
    (inferred_check).
    """
    folder, logged = (
        subject.rules.scenarios[subject.place.scenario],
        subject.performance.detail.get("effective_scenario"),
    )
    if logged in (None, folder.logged_as):
        return []
    file = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    line, logged_name = subject.performance.detail.line("effective_scenario"), shorten(logged)
    system_type, may = (
        (subject.system or {}).get("system_type"),
        " or ".join(folder.inferred_from) or "no other",
    )
    faults = []
    if logged not in folder.inferred_from:
        text = f"the logs are of {logged_name}; {subject.place.scenario} is inferred from {may}"
        faults.append(Fault(text, folder.logged_as, logged_name, line=line))
    elif not subject.on_edge:
        rule = f"only edge systems infer {subject.place.scenario} from it"
        text = f"the logs are of {logged_name} and the system is {shorten(system_type)}; {rule}"
        faults.append(Fault(text, folder.logged_as, logged_name, line=line))
    good = (
        f"the system is {shorten(system_type)}: {subject.place.scenario} is inferred from"
        f" {logged_name}, by whose rules the logs are judged"
    )
    fix = "put the logs into the folder of what they are, or measure this scenario"
    return [judge("inferred-scenario", faults, good, file=file, fix=fix)]


def of_test(test: LoadGenRun, subject: Subject) -> list[Check]:
    """The checks of one test's mode, scenario, seeds, audit settings and requested settings."""
    file = subject.place.show(test.folder / "mlperf_log_detail.txt")
    conf = parse(test.user_conf or "")
    return [
        judge(
            f"{test.name}-test-and-scenario",
            _kind(test, subject),
            f"{_MODES[test.name]}, {subject.scenario}",
            file=file,
            fix="put the logs into the folder of what they are, or measure again",
        ),
        judge(
            f"{test.name}-seeds",
            _seeds(test.detail, subject.rules),
            f"those of {subject.rules.round}",
            file=file,
            fix=f"measure with {subject.rules.wheel}",
        ),
        judge(
            f"{test.name}-audit-settings",
            _audit(test.detail),
            "none is left over",
            file=file,
            fix="remove audit.config and measure again",
        ),
        judge(
            f"{test.name}-requested-settings",
            _requested(test, conf, subject),
            "as user.conf has them",
            file=file,
            fix=fixes.SETTINGS,
        ),
    ]


def sample_set(test: LoadGenRun, subject: Subject) -> Check:
    """The check that one test loaded the right samples, each once."""
    return judge(
        f"{test.name}-sample-set",
        _sample_set(test, subject),
        f"{test.detail.get('qsl_reported_total_count')} samples, each loaded once",
        file=subject.place.show(test.folder / "mlperf_log_detail.txt"),
        fix=fixes.SETTINGS,
    )


def _kind(test: LoadGenRun, subject: Subject) -> Iterator[Fault | str]:
    for half in ("requested", "effective"):
        for key, expected in (("scenario", subject.scenario), ("test_mode", _MODES[test.name])):
            if test.detail.get(f"{half}_{key}") != expected:
                yield entry_fault(test.detail, f"{half}_{key}", expected, "this place wants")


def _seeds(detail: Detail, rules: Rules) -> Iterator[Fault | str]:
    for half in ("requested", "effective"):
        for key in _SEEDS:
            if detail.get(f"{half}_{key}") != rules.seeds[key]:
                yield entry_fault(detail, f"{half}_{key}", rules.seeds[key], f"{rules.round} has")


def _audit(detail: Detail) -> Iterator[Fault | str]:
    for key in _AUDIT:
        if (
            detail.get(f"effective_{key}") not in (0, False)
            or detail.get(f"effective_{key}") is None
        ):
            yield entry_fault(detail, f"effective_{key}", 0, "it must be")
    for line in detail.warnings:
        if "audit" in str(line.value).lower():
            yield Fault(
                f"line {line.number}: {shorten(line.value)}",
                "no such warning",
                shorten(line.value),
                line=line.number,
            )


def _requested(test: LoadGenRun, conf: Conf, subject: Subject) -> Iterator[Fault | str]:
    if not test.detail.values:
        yield "the log says nothing of them"
    if test.user_conf is None:
        yield "there is no user.conf to compare with"
    for key, rule in subject.rules.user_conf.items():
        entry, logged_as = conf_entry(conf, key, subject), rule.logged_as(subject.scenario)
        if (
            entry is None
            and (default := rule.default.get(subject.scenario, rule.default.get("*"))) is not None
        ):
            entry = (f"nothing of {key}, which makes it", default)
        if (
            entry is None
            or logged_as is None
            or (
                test is subject.accuracy
                and not subject.place.run
                and key.startswith(_OF_PERFORMANCE)
            )
        ):
            continue  # the user.conf of a bare submission is the performance test's
        if (
            key in _OF_TOKENS
            and not counts.has_token_latencies(test.detail)
            and (key != "use_token_latencies" or entry[1] != 1)
        ):
            continue  # it is logged only with token latencies
        logged, number = test.detail.get(logged_as), test.detail.number(logged_as)
        number = float(logged) if isinstance(logged, bool) else number
        if number is None or not close(number, entry[1] * rule.factor, DIGITS):
            expected = f"{entry[1] * rule.factor:.10g}"
            text = (
                f"user.conf says {shorten(entry[0])} = {entry[1]:g}, {logged_as} is"
                f" {shorten(logged)}"
            )
            yield Fault(text, expected, shorten(logged), line=test.detail.line(logged_as))


def _sample_set(test: LoadGenRun, subject: Subject) -> Iterator[Fault | str]:
    detail = test.detail
    total, kept = (
        detail.number("qsl_reported_total_count"),
        detail.number("effective_performance_sample_count"),
    )
    sets = detail.all("loaded_qsl_set")
    if (
        total is None
        or kept is None
        or not sets
        or not all(isinstance(each, list) for each in sets)
    ):
        yield "the library's size or the loaded sets are missing"
        return
    loaded = [
        index
        for each in sets
        for index in counts.without_wraparound(each, detail, subject.scenario)
    ]
    whole = all(type(i) is int and 0 <= i < min(total, 1 << 62) for i in loaded)
    if not whole or len(np.unique(np.array(loaded, np.int64))) != len(loaded):
        yield Fault(
            f"a loaded set repeats a sample or holds one that is not among the {int(total)}",
            line=detail.line("loaded_qsl_set"),
        )
    if test.name == "performance" and (len(sets) != 1 or len(loaded) != kept):
        text = (
            f"{len(loaded)} samples loaded in {len(sets)} sets; effective_performance_sample_count"
            f" is {int(kept)}"
        )
        yield Fault(
            text,
            f"{int(kept)} in 1 set",
            f"{len(loaded)} in {len(sets)}",
            line=detail.line("loaded_qsl_set"),
        )
    if test.name == "accuracy":
        yield from _every_sample(detail, len(loaded), subject)
    recorded = subject.record.qsl.samples if subject.record else None
    if subject.place.run and recorded != total:
        text = f"record.json says {shorten(recorded)} samples, the log {int(total)}"
        yield Fault(text, str(int(total)), shorten(recorded), file="record.json")


def _every_sample(detail: Detail, loaded: int, subject: Subject) -> Iterator[Fault | str]:
    """Yield a fault if an accuracy test does not take every sample of the library once, or as many
    samples as its benchmark takes.

    MultiStream fills up the last query of a set with repeated samples.
    """
    scenario, row = subject.scenario, subject.rules.benchmarks.get(subject.official or "")
    count, per_query = (
        detail.number("effective_accuracy_sample_count"),
        counts.samples_per_query(detail, scenario),
    )
    total = detail.number("qsl_reported_total_count")
    asked = row.of(subject.place.scenario).accuracy_sample_count if row else None
    expected = count if count is not None and count == asked else total
    pairs = zip(
        detail.all("generated_query_count"), detail.all("generated_samples_per_query"), strict=False
    )
    generated = sum(a * b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    filled_up = sum(
        -len(counts.without_wraparound(one, detail, scenario)) % per_query
        for one in detail.all("loaded_qsl_set")
    )
    if not count == expected == loaded == generated - filled_up:
        text = (
            f"of {shorten(total)} samples {shorten(count)} were asked for, {loaded} loaded and"
            f" {generated} issued; each is taken once"
        )
        yield Fault(
            text,
            shorten(expected),
            f"{shorten(count)} asked for, {loaded} loaded, {generated} issued",
        )


def user_conf_keys(subject: Subject) -> Check:
    """The check of user.conf's lines. LoadGen refuses some lines, and silently ignores unknown
    keys.
    """
    file = subject.place.show(subject.place.measurements / "user.conf")
    faults: list[Fault | str] = []
    for test in subject.tests:
        if "user.conf" in test.faults:
            faults.append(test.faults["user.conf"])
    conf, others = (
        parse(subject.performance.user_conf or ""),
        parse(subject.accuracy.user_conf or ""),
    )
    faults += [
        Fault(each.text, each.expected, each.found, line=each.line)
        for each in (*conf.refused, *others.refused)
    ]
    faults += _unknown_keys(conf, subject)
    if not conf.values and not faults:
        faults.append("it sets nothing")
    strangers = conf.models() - {subject.place.benchmark}
    if subject.place.run and strangers:
        names = shorten(", ".join(sorted(strangers)))
        faults.append(
            Fault(
                f"keys of {names}; LoadGen looked for {subject.place.benchmark} and ignored them",
                subject.place.benchmark,
                names,
            )
        )
    if not faults and strangers and subject.place.benchmark not in conf.models():
        return manual(
            "user-conf-keys",
            f"they are of {shorten(', '.join(sorted(strangers)))} and the folder is"
            f" {subject.place.benchmark}: which name LoadGen looked for cannot be told",
            file=file,
        )
    return judge(
        "user-conf-keys",
        dict.fromkeys(faults),
        f"{len(conf.values)} keys, all known to LoadGen",
        file=file,
        fix="LoadGen ignores keys it does not know: correct them and measure again",
    )


def _unknown_keys(conf: Conf, subject: Subject) -> Iterator[Fault]:
    for full in conf.values:
        _, scenario, key = full.rsplit(".", 2)
        if key not in subject.rules.user_conf or scenario not in _SCENARIO_NAMES:
            yield Fault(
                f"LoadGen knows no {shorten(full)!r} and ignores it",
                "a key LoadGen knows",
                shorten(full),
                line=conf.lines[full],
            )


def of_the_round(subject: Subject) -> list[Check]:
    """The checks of the round's requirements that a quick run need not meet: duration, count, equal
    issue.
    """
    detail, rules = subject.performance.detail, subject.rules.scenarios[subject.scenario]
    file = subject.place.show(subject.performance.folder / "mlperf_log_detail.txt")
    where = {"file": file, "fix": fixes.VALID}
    least = rules.min_query_count(
        int(detail.number("qsl_reported_total_count") or 0) or rules.least_count
    )
    duration = detail.number("effective_min_duration_ms")
    short = (
        []
        if duration is not None and duration >= rules.min_duration_ms
        else [
            _asked(
                f"{duration} ms",
                f"{rules.min_duration_ms} ms",
                detail.line("effective_min_duration_ms"),
            )
        ]
    )
    count = detail.number(
        "effective_samples_per_query" if rules.counts == "samples" else "result_query_count"
    )
    few = (
        []
        if count is not None and count >= least
        else [_asked(f"{count} {rules.counts}", str(least), None)]
    )
    per_query = detail.number("effective_samples_per_query")
    if (
        rules.counts == "queries"
        and per_query != rules.samples_per_query
        and subject.place.division != "open"
    ):
        few.append(
            _asked(
                f"{per_query} samples a query",
                str(rules.samples_per_query),
                detail.line("effective_samples_per_query"),
            )
        )
    results = [
        judge("minimum-duration-setting", short, f"{duration} ms", **where),
        judge("least-count", few, f"{count} {rules.counts}", **where),
    ]
    official = subject.rules.benchmarks.get(subject.official or "")
    if official and official.equal_issue:
        key = "effective_sample_concatenate_permutation"
        text = f"off; {subject.official} wants every sample equally often"
        unequal = (
            []
            if detail.get(key) is True
            else [Fault(text, "True", shorten(detail.get(key)), line=detail.line(key))]
        )
        results.append(judge("equal-issue", unequal, "every sample equally often", **where))
    return results


def _asked(value: str, least: str, line: int | None) -> Fault:
    return Fault(f"{value}; the round asks for {least}", f"at least {least}", value, line=line)
