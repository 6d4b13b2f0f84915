"""user.conf as LoadGen reads it, and what LoadGen would silently ignore in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from compliance.findings.check import Check, Fault, judge, manual, shown
from compliance.logs.digits import DIGITS, close
from compliance.subject import Subject

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SCENARIO_NAMES = ("SingleStream", "MultiStream", "Server", "Offline", "*")


@dataclass(frozen=True)
class Conf:
    """user.conf. `values`: the whole key → its text, the last one counts; `lines`: where that is; `refused`: what LoadGen would refuse."""

    values: dict[str, str]
    lines: dict[str, int]
    refused: tuple[Fault, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(fault.text for fault in self.refused)

    def look_up(self, model: str, scenario: str, key: str) -> tuple[str, float] | None:
        """(the line's key, its value) in LoadGen's order."""
        for full in (f"{model}.{scenario}.{key}", f"*.{scenario}.{key}", f"{model}.*.{key}", f"*.*.{key}"):
            if full in self.values:
                return full, float(self.values[full])
        return None

    def models(self) -> set[str]:
        return {full.rsplit(".", 2)[0] for full in self.values} - {"*"}


def parse(text: str) -> Conf:
    """As test_settings_internal.cc does it: words; `#` ends a line; key = value, the value a number."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    refused = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "#" in words:
            words = words[: words.index("#")]
        if not words:
            continue
        if len(words) != 3 or words[1] != "=" or not _is_number(words[2]):
            found = repr(line.strip()[:60])
            text = f"line {number} is not `model.scenario.key = number`: {found}"
            refused.append(Fault(text, "model.scenario.key = number", found, line=number))
        elif words[0].count(".") < 2:
            found = repr(shown(words[0]))
            refused.append(Fault(f"line {number}: {found} is not model.scenario.key", "model.scenario.key", found, line=number))
        else:
            values[words[0]], lines[words[0]] = words[2], number
    return Conf(values, lines, tuple(refused))


def stated(conf: Conf, key: str, s: Subject) -> tuple[str, float] | None:
    """What LoadGen looks up; in a submission the model's name may have been another than the folder's."""
    models = conf.models()
    model = s.place.benchmark if s.place.benchmark in models or len(models) != 1 or s.place.run else next(iter(models))
    return conf.look_up(model, s.scenario, key)


def asked(s: Subject, key: str) -> tuple[float, bool] | None:
    """(what the performance test was asked for, whether that is all its digits): the log has six of them, user.conf all. None: missing."""
    rule = s.rules.user_conf[key]
    logged = s.performance.detail.number(rule.logged_as(s.scenario) or "")
    if logged is None or not 0 < logged < 1e18:
        return None
    found = stated(parse(s.performance.user_conf or ""), key, s)
    if found is not None and close(found[1] * rule.factor, logged, DIGITS):
        return found[1] * rule.factor, True
    return logged, float(f"{logged:.5g}") == logged


def _is_number(word: str) -> bool:
    """As C++ reads one: Python would take 1_000 and other scripts' digits too."""
    return bool(_NUMBER.fullmatch(word)) and abs(float(word)) < float("inf")


def check(s: Subject) -> Check:
    """LoadGen ignores what it does not know, silently."""
    file = s.place.show(s.place.measurements / "user.conf")
    faults: list[Fault | str] = [f for test in s.tests for name, f in test.faults.items() if name == "user.conf"]
    conf, others = parse(s.performance.user_conf or ""), parse(s.accuracy.user_conf or "")
    faults += [*conf.refused, *others.refused, *_unknown_keys(conf, s)]
    if not conf.values and not faults:
        faults.append("it sets nothing")
    strangers = conf.models() - {s.place.benchmark}
    if s.place.run and strangers:
        names = shown(", ".join(sorted(strangers)))
        faults.append(Fault(f"keys of {names}; LoadGen looked for {s.place.benchmark} and ignored them", s.place.benchmark, names))
    if not faults and strangers and s.place.benchmark not in conf.models():
        return manual(
            "user.conf keys",
            f"they are of {shown(', '.join(sorted(strangers)))} and the folder is {s.place.benchmark}: which name LoadGen "
            "looked for cannot be told",
            source="B3",
            file=file,
        )
    return judge(
        "user.conf keys",
        dict.fromkeys(faults),
        f"{len(conf.values)} keys, all known to LoadGen",
        source="B3",
        file=file,
        fix="LoadGen ignores keys it does not know: correct them and measure again",
    )


def _unknown_keys(conf: Conf, s: Subject) -> Iterator[Fault]:
    for full in conf.values:
        _, scenario, key = full.rsplit(".", 2)
        if key not in s.rules.user_conf or scenario not in _SCENARIO_NAMES:
            yield Fault(f"LoadGen knows no {shown(full)!r} and ignores it", "a key LoadGen knows", shown(full), line=conf.lines[full])
