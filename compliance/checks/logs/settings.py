"""The checks of both tests' settings. The requested settings must be those of user.conf, and audit
settings must not be set. user.conf itself is checked too.
"""

from __future__ import annotations

from array import array

import numpy as np

from compliance import explanation
from compliance.checks.entries import entry_fault
from compliance.findings.check import differs, failed, judge, manual, shorten
from compliance.loadgen.log import Log
from compliance.logs import Detail, user_conf
from compliance.logs.digits import DIGITS, close
from compliance.logs.entry import LOADED_SET
from compliance.logs.user_conf import Conf, parse
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject, conf_entry, released
from formats.checks import Check, Checks, Fault, Faults

# Settings that an accuracy test does not use, because it takes each sample once.
_OF_PERFORMANCE = ("target_", "min_", "max_duration", "max_query", "performance_", "coalesce_")
_SCENARIO_NAMES = ("SingleStream", "MultiStream", "Server", "Offline", "*")
_MODES = {"performance": "PerformanceOnly", "accuracy": "AccuracyOnly"}
_SEVERAL_TESTS = {
    "SubmissionRun": "an accuracy test and a performance test",
    "FindPeakPerformance": "the performance tests of a search",
}
"""LoadGen's modes that write several tests into one log → the tests."""
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


ORDINARY = (
    "the folder is of {name} and the log is of an ordinary run: LoadGen does not say that it found"
    " an audit.config"
)
"""A compliance test's fault."""


def has_audit_config(detail: Detail) -> bool:
    """Whether LoadGen says that it found an audit.config."""
    return any("Found Audit Config" in str(line.value) for line in detail.warnings)


def inferred(subject: Subject) -> Checks:
    """The check of a folder with another scenario's logs. An edge system may infer MultiStream and
    Offline from them.

    Empty if the logs are of the folder's own scenario. Sources: inference_policies,
    inference_rules.adoc (Benchmarks), and submission_checker/checks/performance_check.py
    (inferred_check).
    """
    scenario = subject.place.scenario
    detail = subject.performance.detail
    folder = subject.rules.scenarios[scenario]
    logged = detail.get("effective_scenario")
    if logged in (None, folder.logged_as):
        return []
    name = shorten(logged)
    system_type = shorten((subject.system or {}).get("system_type"))
    if logged not in folder.inferred_from:
        others = " or ".join(folder.inferred_from) or "no other"
        text = f"the logs are of {name}; {scenario} is inferred from {others}"
    elif not subject.on_edge:
        text = (
            f"the logs are of {name} and the system is {system_type}; only edge systems infer"
            f" {scenario} from it"
        )
    else:
        good = (
            f"the system is {system_type}: {scenario} is inferred from {name}, whose rules judge"
            " the logs"
        )
        return [judge("inferred-scenario", (), good, subject.performance.file)]
    fault = Fault(text, folder.logged_as, name, line=detail.line("effective_scenario"))
    return [failed("inferred-scenario", fault, subject.performance.file)]


def has_several_tests(detail: Detail) -> bool:
    """Whether a log has several tests, whose figures no check can tell apart."""
    return detail.get("effective_test_mode") in tuple(_SEVERAL_TESTS)


def kind(test: LoadGenRun, subject: Subject) -> Check:
    """The check of one test's mode and scenario."""
    good = f"{_MODES[test.name]}, {subject.scenario}"
    check_id = f"{test.name}-test-and-scenario"
    return judge(check_id, _kind(test, subject), good, test.file)


def of_test(test: LoadGenRun, subject: Subject) -> Checks:
    """The checks of one test's mode, scenario, seeds, audit settings and requested settings."""
    found = {
        "seeds": (_seeds(test.detail, subject.rules), f"the seeds of {subject.rules.round}"),
        "audit-settings": (_audit(test.detail), "no setting of an audit.config is left"),
        "requested-settings": (_requested(test, subject), "the settings of user.conf"),
    }
    results = [kind(test, subject)]
    for name, (faults, good) in found.items():
        results.append(judge(f"{test.name}-{name}", faults, good, test.file))
    return results


def sample_set(test: LoadGenRun, subject: Subject) -> Check:
    """The check that one test loaded the right samples, each once."""
    total = shorten(test.detail.get("qsl_reported_total_count"))
    good = f"{total} samples, each loaded once{_above(test)}"
    faults = _sample_set(test, subject)
    return judge(f"{test.name}-sample-set", faults, good, test.file)


def _above(test: LoadGenRun) -> str:
    """The end of a sentence about a requested count above the library's size."""
    name = f"{test.name}_sample_count"
    count = test.detail.number(f"effective_{name}")
    loaded = test.detail.loaded_samples(test.name)
    if count is None or loaded is None or count <= loaded:
        return ""
    return (
        f"; LoadGen logs {name} {count:.0f} as it was requested, and loads no more than the"
        f" library has: set {name}_override to {loaded:.0f}"
    )


def _kind(test: LoadGenRun, subject: Subject) -> Faults:
    detail = test.detail
    if has_several_tests(detail):
        mode = detail.get("effective_test_mode")
        text = (
            f"effective_test_mode is {mode}: the log has {_SEVERAL_TESTS[mode]}, and each test"
            " needs a log of its own; set the mode to PerformanceOnly for one and to AccuracyOnly"
            " for the other"
        )
        line = detail.line("effective_test_mode")
        yield Fault(text, _MODES[test.name], mode, line=line)
        return
    for half in ("requested", "effective"):
        for key, expected in (("scenario", subject.scenario), ("test_mode", _MODES[test.name])):
            if detail.get(f"{half}_{key}") != expected:
                yield entry_fault(detail, f"{half}_{key}", expected, "this folder requires")


def _seeds(detail: Detail, rules: Rules) -> Faults:
    for half in ("requested", "effective"):
        for key in _SEEDS:
            if detail.get(f"{half}_{key}") != rules.seeds[key]:
                yield entry_fault(detail, f"{half}_{key}", rules.seeds[key], f"{rules.round} has")


def _audit(detail: Detail) -> Faults:
    for key in _AUDIT:
        if detail.get(f"effective_{key}") not in (0, False):
            yield entry_fault(detail, f"effective_{key}", 0, "it must be")
    for line in detail.warnings:
        if "audit" in str(line.value).lower():
            warning = shorten(line.value)
            text = f"line {line.number}: {warning}"
            yield Fault(text, "no such warning", warning, line=line.number)


def _requested(test: LoadGenRun, subject: Subject) -> Faults:
    conf = parse(test.user_conf or "")
    detail = test.detail
    if not detail.values:
        yield "the log has no settings"
    if test.user_conf is None:
        yield "there is no user.conf to compare with"
        return
    for key, rule in subject.rules.user_conf.items():
        who, word = _in_force(conf, key, subject)
        logged_as = rule.logged_as(subject.scenario)
        if word is None or logged_as is None:
            continue
        # The user.conf of a bare submission is the performance test's.
        of_performance = key.startswith(_OF_PERFORMANCE)
        if test.name == "accuracy" and not subject.place.run and of_performance:
            continue
        expected = user_conf.read(subject.scenario, key, word)
        requested = key == "use_token_latencies" and expected == 1
        # These settings are logged only with token latencies.
        if key in _OF_TOKENS and not detail.has_tokens and not requested:
            continue
        logged = detail.get(logged_as)
        number = detail.number(logged_as)
        if isinstance(logged, bool):
            number = float(logged)
        tolerance = 0 if isinstance(expected, int) else DIGITS
        if number is None or not close(number, expected, tolerance):
            text = f"{who} = {shorten(word)}; {logged_as} is {shorten(logged)}"
            line = detail.line(logged_as)
            yield Fault(text, f"{expected:.10g}", shorten(logged), line=line)


def _in_force(conf: Conf, key: str, subject: Subject) -> tuple[str, str | None]:
    """(a sentence that ends with the setting, the text of its number), from user.conf or from
    LoadGen's defaults. The text is None if neither has the setting.
    """
    entry = conf_entry(conf, key, subject)
    if entry is not None:
        return f"user.conf says {shorten(entry[0])}", entry[1]
    why = "LoadGen refuses user.conf" if conf.refused else "user.conf does not set it"
    word = subject.rules.user_conf[key].default_in(subject.scenario)
    return f"{why}, and its default is {key}", word


def _sample_set(test: LoadGenRun, subject: Subject) -> Faults:
    detail = subject.log_of(test)
    total = detail.number("qsl_reported_total_count")
    kept = detail.loaded_samples()
    sets = detail.all(LOADED_SET)
    are_lists = sets and all(isinstance(each, array | list) for each in sets)
    if total is None or kept is None or not are_lists:
        yield "the library's size or the loaded sets are missing"
        return
    each_once = [detail.once(one) for one in sets]
    loaded = sum(map(len, each_once))
    line = detail.line(LOADED_SET)
    whole = all(isinstance(one, array) for one in sets)
    ordered = np.sort(np.concatenate(each_once)) if whole and loaded else np.empty(0, np.int64)
    repeated = (ordered[1:] == ordered[:-1]).any() or len(ordered) != loaded
    if repeated or (loaded and ordered[-1] >= total):
        text = f"a loaded set has a sample twice, or one that is not among the {int(total)}"
        yield Fault(text, line=line)
    if test.name == "performance" and (len(sets) != 1 or loaded != kept):
        text = (
            f"{loaded} samples loaded in {len(sets)} sets; the library and"
            f" performance_sample_count give {int(kept)}"
        )
        count = f"{loaded} in {len(sets)}"
        yield Fault(text, f"{int(kept)} in 1 set", count, line=line)
    if test.name == "accuracy":
        yield from _every_sample(detail, loaded, subject)


def _every_sample(detail: Log, loaded: int, subject: Subject) -> Faults:
    """Yield a fault if an accuracy test does not take every sample of the library once, or as many
    samples as its benchmark takes.

    MultiStream fills up the last query of a set with repeated samples.
    """
    row = subject.official_rules
    count = detail.loaded_samples("accuracy")
    total = detail.number("qsl_reported_total_count")
    required = row.accuracy_sample_count if row else None
    expected = count if count is not None and count == required else total
    queries = detail.all("generated_query_count")
    sizes = detail.all("generated_samples_per_query")
    pairs = zip(queries, sizes, strict=False)
    generated = sum(a * b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    filled_up = sum(-len(detail.once(one)) % detail.per_query for one in detail.all(LOADED_SET))
    if not released(detail, subject.rules):  # it may log a performance test's count
        generated = loaded + filled_up
    if not count == expected == loaded == generated - filled_up:
        numbers = f"{shorten(count)} requested, {loaded} loaded, {generated} issued"
        text = f"the library has {shorten(total)} samples: {numbers}; each must be taken once"
        yield Fault(text, shorten(expected), numbers)


def user_conf_keys(subject: Subject) -> Check:
    """The check that LoadGen reads all lines of user.conf, and reads them as people do. It silently
    ignores unknown keys.
    """
    place = subject.place
    file = place.show(place.measurements / "user.conf")
    faults: list[Fault | str] = []
    for test in subject.tests:
        if "user.conf" in test.faults:
            faults.append(test.faults["user.conf"])
    conf = parse(subject.performance.user_conf or "")
    others = parse(subject.accuracy.user_conf or "")
    for each in (conf, others):
        faults += (*each.refused, *each.ignored)
    faults += _traps(conf, subject)
    if not conf.values and not faults:
        faults.append("it sets nothing")
    benchmark = subject.own_conf_name
    strangers = conf.models() - {benchmark}
    names = shorten(", ".join(sorted(strangers)))
    if place.run and strangers:
        sentence = "keys of {found}; LoadGen looked for {expected} and ignored them"
        faults.append(differs(sentence, names, benchmark))
    if not faults and strangers and benchmark not in conf.models():
        why = (
            f"the keys are of {names} and the folder is {benchmark}: the files do not show which"
            " name LoadGen looked for"
        )
        return manual("user-conf-keys", why, file=file)
    return judge(
        "user-conf-keys",
        dict.fromkeys(faults),
        f"{len(conf.values)} keys, all known to LoadGen",
        file,
    )


def _traps(conf: Conf, subject: Subject) -> Faults:
    """Yield a fault for each line that LoadGen ignores, and for each number that it reads as
    another number than people do.
    """
    for full, word in conf.values.items():
        before, _, key = full.rpartition(".")
        model, _, scenario = before.rpartition(".")
        line = conf.lines[full]
        if not model or key not in subject.rules.user_conf or scenario not in _SCENARIO_NAMES:
            text = f"LoadGen does not know {shorten(full)!r} and ignores it"
            yield Fault(text, "a key LoadGen knows", shorten(full), line=line)
        elif "*" in model and model != "*":
            text = (
                f"LoadGen ignores {shorten(full)!r}: a `*` stands for every model only if it is the"
                " whole name"
            )
            yield Fault(text, "the model's name, or *", shorten(model), line=line)
        elif why := user_conf.trap(subject.scenario if scenario == "*" else scenario, key, word):
            yield Fault(f"{shorten(full)} = {shorten(word)} {why}", line=line)


def of_the_round(subject: Subject) -> Checks:
    """The checks of the round's requirements that a quick run need not meet: duration, count, equal
    issue.
    """
    log = subject.log
    official = subject.official_rules
    file = subject.performance.file
    key = "effective_min_duration_ms"
    duration_ms = log.number(key)
    least_ms = log.rules.scenarios[log.scenario].min_duration_ms
    faults: list[Fault | str] = []
    if duration_ms is None or duration_ms < least_ms:
        faults.append(_required(duration_ms, "ms", f"{least_ms} ms", log.line(key)))
    results = [
        judge("minimum-duration-setting", faults, f"{duration_ms} ms", file),
        _count(log, subject, file),
    ]
    if log.equal_issue or (official and official.equal_issue):
        faults = [*explanation.equal_issue(log, subject)]
        if not log.equal_issue:
            key = "effective_sample_concatenate_permutation"
            text = f"off; {subject.official} requires every sample equally often"
            faults.insert(0, Fault(text, "True", shorten(log.get(key)), line=log.line(key)))
        results.append(judge("equal-issue", faults, "every sample equally often", file))
    return results


def _count(log: Log, subject: Subject, file: str) -> Check:
    """The check of the number of samples or queries."""
    rules = log.rules.scenarios[log.scenario]
    total = int(log.number("qsl_reported_total_count") or 0)
    least = rules.min_query_count(total or rules.least_count)
    size_key = "effective_samples_per_query"
    per_query = log.number(size_key)
    count = per_query if rules.counts == "samples" else log.number("result_query_count")
    faults = []
    if count is None or count < least:
        faults.append(_required(count, rules.counts, str(least), None))
    other_size = rules.counts == "queries" and per_query != rules.samples_per_query
    if other_size and not subject.is_open:
        size = str(rules.samples_per_query)
        faults.append(_required(per_query, "samples a query", size, log.line(size_key)))
    return judge("least-count", faults, f"{count} {rules.counts}", file)


def _required(number: float | None, unit: str, least: str, line: int | None) -> Fault:
    value = "an unknown number" if number is None else f"{number} {unit}"
    return Fault(f"{value}; the round requires {least}", f"at least {least}", value, line=line)
