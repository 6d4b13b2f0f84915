"""The checks of config.yaml: seeds, minimum duration, scenario and load pattern, and whether it is
the configuration of the run that result_summary.json reports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compliance.endpoints.result import FIX, Result, number
from compliance.findings.check import judge, mismatch, quoted
from compliance.logs.strict_json import lookup
from formats.checks import Checks, Faults

_FIX = "measure with the durations and counts of the round"
_RUNTIME = "settings.runtime"
_SAMPLES = f"{_RUNTIME}.n_samples_to_issue"
_STREAMING = {"on": True, "off": False, True: True, False: False}


def checks(result: Result) -> Checks:
    """The checks of config.yaml, if it can be read."""
    if not result.config:
        return []
    name = result.rules.round
    file = result.show(result.config_name)
    found = {
        "performance-seeds": (_seeds(result), f"those of {name}"),
        "minimum-duration-setting": (_too_short(result), "as the round requires"),
        "inferred-scenario": (_other_type(result), "the folder's"),
        "performance-test-and-scenario": (_other_load(result), "the scenario's"),
    }
    results = [judge(key, faults, good, file, fix=_FIX) for key, (faults, good) in found.items()]
    faults = _contradictions(result)
    good = "those of result_summary.json"
    return [*results, judge("performance-effective-settings", faults, good, file, fix=FIX)]


def _seeds(result: Result) -> Faults:
    rules = result.rules
    who = f"{rules.round} has"
    for key, seed in rules.endpoints.seeds.items():
        stated = lookup(result.config, f"{_RUNTIME}.{key}")
        if stated != rules.seeds[seed]:
            yield mismatch(key, quoted(stated), rules.seeds[seed], who)


def _too_short(result: Result) -> Faults:
    stated = lookup(result.config, f"{_RUNTIME}.min_duration_ms")
    duration_ms = number(result.config, f"{_RUNTIME}.min_duration_ms")
    if duration_ms is None or duration_ms < result.least_ms:
        who = f"{result.rules.round} requires"
        yield mismatch("min_duration_ms", quoted(stated), f"at least {result.least_ms}", who)


def _other_type(result: Result) -> Faults:
    scenarios = result.rules.endpoints.scenarios
    scenario = scenarios.get(result.scenario)
    if scenario is None:
        known = ", ".join(scenarios)
        yield mismatch("the scenario", result.scenario, known, "endpoints runs")
    elif result.config.get("type") != scenario.type:
        stated = quoted(result.config.get("type"))
        fault = mismatch("type", stated, repr(scenario.type), f"{result.scenario} has")
        yield replace(fault, stricter=not scenario.type_checked)


def _other_load(result: Result) -> Faults:
    scenario = result.rules.endpoints.scenarios.get(result.scenario)
    if scenario is None:
        return
    pattern = lookup(result.config, "settings.load_pattern")
    who = f"{result.scenario} has"
    kind = lookup(pattern, "type")
    if kind not in scenario.load_patterns:
        yield mismatch("load_pattern.type", quoted(kind), " or ".join(scenario.load_patterns), who)
    at_once = lookup(pattern, "target_concurrency")
    if scenario.target_concurrency not in (None, at_once):
        yield mismatch("target_concurrency", quoted(at_once), scenario.target_concurrency, who)


def _contradictions(result: Result) -> Faults:
    """Yield a fault for each setting that result_summary.json has with another value, and for
    counts and latencies that the settings exclude.
    """
    summary = result.summary
    run = lookup(summary, "run_config")
    if isinstance(run, dict):
        for key in result.rules.endpoints.seeds:
            yield from _differ(key, lookup(result.config, f"{_RUNTIME}.{key}"), run.get(key))
        for table in ("load_pattern", "warmup"):
            own = lookup(result.config, f"settings.{table}")
            reported = run.get(table)
            if isinstance(own, dict) and isinstance(reported, dict):
                for key, value in own.items():  # a setting that it leaves out has its default
                    yield from _differ(f"{table}.{key}", value, reported.get(key))
    issued = number(summary, "n_samples_issued")
    wanted = number(result.config, _SAMPLES)
    if summary and wanted is not None and wanted != issued:
        yield mismatch("n_samples_to_issue", wanted, issued, "n_samples_issued is")
    # Whether answers are streamed; None: config.yaml does not say.
    stated = lookup(result.config, "model_params.streaming")
    streams = _STREAMING.get(stated) if isinstance(stated, str | bool) else None
    measured = bool(summary.get("ttft"))
    if summary and streams is not None and streams is not measured:
        state = "has" if measured else "lacks"
        text = f"streaming is {'on' if streams else 'off'}, and result_summary.json {state}"
        yield f"{text} latencies of the first token"


def _differ(name: str, own: Any, reported: Any) -> Faults:
    if own != reported:
        who = "in run_config of result_summary.json it is"
        yield mismatch(name, quoted(own), quoted(reported), who)
