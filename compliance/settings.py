"""Requested = effective = user.conf, on both tests, and what no test may have set. Pure: parsed logs → checks."""

from __future__ import annotations

from collections.abc import Iterator

from compliance import user_conf
from compliance.check import Check, judge
from compliance.logs import Detail
from compliance.rules import Rules
from compliance.tree import Subject, Test
from compliance.validity import close

_DIGITS = 1.1e-5
_MODES = {"performance": "PerformanceOnly", "accuracy": "AccuracyOnly"}
_SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
# Equal in the requested and the effective half of every log.
_UNCHANGED = (
    "scenario",
    "test_mode",
    "min_duration_ms",
    "max_duration_ms",
    "max_query_count",
    *_SEEDS,
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "sample_concatenate_permutation",
)
# What audit.config sets in compliance tests: never in a performance or accuracy run.
_AUDIT = (
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "print_timestamps",
)


def checks(s: Subject) -> list[Check]:
    found: list[Check] = []
    for test in s.tests:
        file = s.place.show(test.folder / "mlperf_log_detail.txt")
        conf = user_conf.parse(test.user_conf or "")
        found += [
            judge(f"{test.name} test and scenario", _kind(test, s), f"{_MODES[test.name]}, {s.place.scenario}", source="B4 B5", file=file),
            judge(
                f"{test.name} seeds",
                _seeds(test.detail, s.rules),
                f"those of {s.rules.round}",
                source="B1",
                file=file,
                fix=f"measure with {s.rules.wheel}",
            ),
            judge(
                f"{test.name} audit settings",
                _audit(test.detail),
                "none is left over",
                source="B5",
                file=file,
                fix="remove audit.config and measure again",
            ),
            judge(f"{test.name} requested settings", _requested(test, conf, s), "as user.conf has them", source="B3", file=file),
            judge(
                f"{test.name} effective settings",
                _effective(test.detail, s),
                "follow from those requested",
                source="B3",
                file=file,
            ),
            judge(
                f"{test.name} sample set",
                _sample_set(test, s),
                f"{test.detail.get('qsl_reported_total_count')} samples, each loaded once",
                source="B6",
                file=file,
            ),
        ]
    found.append(user_conf.check(s))
    return found + _of_the_round(s)


def _kind(test: Test, s: Subject) -> Iterator[str]:
    for half in ("requested", "effective"):
        for key, want in (("scenario", s.place.scenario), ("test_mode", _MODES[test.name])):
            if test.detail.get(f"{half}_{key}") != want:
                yield f"{half}_{key} is {test.detail.get(f'{half}_{key}')}; this place wants {want}"


def _seeds(d: Detail, rules: Rules) -> Iterator[str]:
    for half in ("requested", "effective"):
        for key in _SEEDS:
            if d.get(f"{half}_{key}") != rules.seeds[key]:
                yield f"{half}_{key} is {d.get(f'{half}_{key}')}; {rules.round} has {rules.seeds[key]}"


def _audit(d: Detail) -> Iterator[str]:
    for key in _AUDIT:
        if d.get(f"effective_{key}") not in (0, False) or d.get(f"effective_{key}") is None:
            yield f"effective_{key} is {d.get(f'effective_{key}')}; it must be 0"
    for line in d.warnings:
        if "audit" in str(line.value).lower():
            yield f"line {line.number}: {line.value}"


def _requested(test: Test, conf: user_conf.Conf, s: Subject) -> Iterator[str]:
    models = conf.models()
    model = s.place.benchmark if s.place.benchmark in models or len(models) != 1 or s.place.run else next(iter(models))
    if not test.detail.values:
        yield "the log says nothing of them"
    if test.user_conf is None:
        yield "there is no user.conf to compare with"
    for key, rule in s.rules.user_conf.items():
        stated, logged_as = conf.look_up(model, s.place.scenario, key), rule.logged_as(s.place.scenario)
        if stated is None or logged_as is None or (test is s.accuracy and not s.place.run and key.startswith("target_")):
            continue  # a bare submission holds one user.conf, and each test may have had targets of its own
        found = test.detail.get(logged_as)
        if not isinstance(found, int | float) or not close(found, stated[1] * rule.factor, _DIGITS):
            yield f"{stated[0]} = {stated[1]:g} in user.conf, {logged_as} is {found}"


def _effective(d: Detail, s: Subject) -> Iterator[str]:
    for key in _UNCHANGED:
        if d.get(f"requested_{key}") is None or d.get(f"requested_{key}") != d.get(f"effective_{key}"):
            yield f"{key}: requested {d.get(f'requested_{key}')}, effective {d.get(f'effective_{key}')}"
    for name, override, default in (
        ("performance", "performance_sample_count_override", "qsl_reported_performance_count"),
        ("accuracy", "accuracy_sample_count_override", "qsl_reported_total_count"),
    ):
        want = d.get(f"requested_{override}") or d.get(default)
        if want is None or d.get(f"effective_{name}_sample_count") != want:
            yield f"effective_{name}_sample_count is {d.get(f'effective_{name}_sample_count')}; {want} was requested or is there"
    fixed = {
        "target_latency_ns": 0,
        "max_async_queries": 1,
        "target_latency_percentile": s.rules.scenarios[s.place.scenario].percentile / 100,
    }
    for key, value in fixed.items():
        found = d.number(f"effective_{key}")
        if found is None or not close(found, value, _DIGITS):
            yield f"effective_{key} is {d.get(f'effective_{key}')}; {s.place.scenario} has {value:g}"
    yield from _offline(d) if s.place.scenario == "Offline" else _single_stream(d)


def _numbers(d: Detail, *keys: str) -> tuple[float, ...] | None:
    found = [d.number(key) for key in keys]
    return None if None in found else tuple(v for v in found if v is not None)


def _offline(d: Detail) -> Iterator[str]:
    """samples_per_query = max(min_query_count, 1.1 × min_duration × target_qps) in one query."""
    found = _numbers(
        d,
        "requested_offline_expected_qps",
        "requested_min_duration_ms",
        "requested_min_query_count",
        "effective_target_qps",
        "effective_samples_per_query",
        "effective_min_query_count",
        "effective_min_sample_count",
    )
    if found is None:
        yield "a setting of Offline is missing"
        return
    rate, duration_ms, least, target, samples, queries, least_samples = found
    want = max(least, int(1.1 * duration_ms / 1e3 * rate))
    if abs(samples - want) > 1 + _DIGITS * want or not close(rate, target, _DIGITS):
        yield f"effective_samples_per_query is {samples} at effective_target_qps {target}; those requested make {want} at {rate}"
    if queries != 1 or least_samples != samples:
        yield f"effective_min_query_count is {queries} and effective_min_sample_count {least_samples}; Offline has 1 and {samples}"


def _single_stream(d: Detail) -> Iterator[str]:
    """Equal issue makes the number of prepared queries the least count: whole sets, and one more (test_settings_internal.cc)."""
    found = _numbers(
        d,
        "requested_single_stream_expected_latency_ns",
        "requested_min_duration_ms",
        "requested_min_query_count",
        "effective_target_qps",
        "effective_samples_per_query",
        "effective_min_query_count",
        "effective_min_sample_count",
        "effective_performance_sample_count",
        "requested_single_stream_target_latency_percentile",
        "effective_target_latency_percentile",
    )
    if found is None or found[0] <= 0:
        yield "a setting of SingleStream is missing"
        return
    latency_ns, duration_ms, least, target, samples, queries, least_samples, whole, percentile, effective_percentile = found
    if not close(target, 1e9 / latency_ns, 2 * _DIGITS):
        yield f"effective_target_qps is {target}; the expected latency makes {1e9 / latency_ns:.6g}"
    if percentile != effective_percentile:
        yield f"the percentile requested is {percentile}, the effective one {effective_percentile}"
    slack: float = 0
    if d.get("effective_sample_concatenate_permutation") and whole > 0:
        least, slack = (max(least, 2 * duration_ms * 1e6 / latency_ns) // whole + 1) * whole, whole
    if abs(queries - least) > slack or samples != 1 or least_samples != queries:
        yield (
            f"effective_min_query_count is {queries} of {samples} sample(s) and effective_min_sample_count {least_samples}; "
            f"those requested make {least:g}"
        )


def _sample_set(test: Test, s: Subject) -> Iterator[str]:
    d = test.detail
    total, kept = d.number("qsl_reported_total_count"), d.number("effective_performance_sample_count")
    sets = d.all("loaded_qsl_set")
    if total is None or kept is None or not sets or not all(isinstance(each, list) for each in sets):
        yield "the library's size or the loaded sets are missing"
        return
    loaded = [index for each in sets for index in each]
    if len({str(index) for index in loaded}) != len(loaded) or not all(isinstance(i, int) and 0 <= i < total for i in loaded):
        yield f"a loaded set repeats a sample or holds one that is not among the {int(total)}"
    if test.name == "performance" and (len(sets) != 1 or len(loaded) != kept):
        yield f"{len(loaded)} samples loaded in {len(sets)} sets; effective_performance_sample_count is {int(kept)}"
    if test.name == "accuracy":
        yield from _every_sample(d, len(loaded))
    recorded = s.recorded("qsl", "samples")
    if s.place.run and recorded != total:
        yield f"record.json says {recorded} samples, the log {int(total)}"


def _every_sample(d: Detail, loaded: int) -> Iterator[str]:
    count = d.number("effective_accuracy_sample_count")
    pairs = zip(d.all("generated_query_count"), d.all("generated_samples_per_query"), strict=False)
    generated = sum(a * b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    if not count == d.number("qsl_reported_total_count") == loaded == generated:
        yield (
            f"of {d.get('qsl_reported_total_count')} samples {d.get('effective_accuracy_sample_count')} were asked for, {loaded} loaded "
            f"and {generated} issued; an accuracy run takes each once"
        )


def _of_the_round(s: Subject) -> list[Check]:
    """What the round asks for, and `quick` does not."""
    d, rules = s.performance.detail, s.rules.scenarios[s.place.scenario]
    file = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    where = {"level": "valid", "file": file, "fix": "run it with --mode valid"}
    least = rules.min_query_count(int(d.number("qsl_reported_total_count") or 0) or rules.least_count)
    duration = d.number("effective_min_duration_ms")
    short = (
        []
        if duration is not None and duration >= rules.min_duration_ms
        else [f"{duration} ms; the round asks for {rules.min_duration_ms} ms"]
    )
    count = d.number("effective_samples_per_query" if rules.counts == "samples" else "result_query_count")
    few = [] if count is not None and count >= least else [f"{count} {rules.counts}; the round asks for {least}"]
    found = [
        judge("minimum duration setting", short, f"{duration} ms", source="B2", **where),
        judge("least count", few, f"{count} {rules.counts}", source="B9", **where),
    ]
    official = s.rules.benchmarks.get(s.official or "")
    if official and official.equal_issue:
        unequal = (
            [] if d.get("effective_sample_concatenate_permutation") is True else [f"off; {s.official} wants every sample equally often"]
        )
        found.append(judge("equal issue", unequal, "every sample equally often", source="B7", **where))
    return found
