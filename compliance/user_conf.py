"""user.conf as LoadGen reads it, and what LoadGen would silently ignore in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compliance.check import Check, judge, manual
from compliance.tree import Subject

_SCENARIO_NAMES = ("SingleStream", "MultiStream", "Server", "Offline", "*")


@dataclass(frozen=True)
class Conf:
    """user.conf. `values`: the whole key → its text, the last one counts; `faults`: lines LoadGen would refuse."""

    values: dict[str, str]
    faults: tuple[str, ...]

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
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "#" in words:
            words = words[: words.index("#")]
        if not words:
            continue
        if len(words) != 3 or words[1] != "=" or not _is_number(words[2]):
            faults.append(f"line {number} is not `model.scenario.key = number`: {line.strip()[:60]!r}")
        elif words[0].count(".") < 2:
            faults.append(f"line {number}: {words[0]!r} is not model.scenario.key")
        else:
            values[words[0]] = words[2]
    return Conf(values, tuple(faults))


def _is_number(word: str) -> bool:
    try:
        return abs(float(word)) < float("inf")
    except ValueError:
        return False


def check(s: Subject) -> Check:
    """LoadGen ignores what it does not know, silently."""
    file = s.place.show(s.place.folder / "user.conf")
    faults = [f for test in s.tests for name, f in test.faults.items() if name == "user.conf"]
    conf, others = parse(s.performance.user_conf or ""), parse(s.accuracy.user_conf or "")
    faults += [*conf.faults, *others.faults, *_unknown_keys(conf, s)]
    if not conf.values and not faults:
        faults.append("it sets nothing")
    strangers = conf.models() - {s.place.benchmark}
    if s.place.run and strangers:
        faults.append(f"keys of {', '.join(sorted(strangers))}; LoadGen looked for {s.place.benchmark} and ignored them")
    if not faults and strangers and s.place.benchmark not in conf.models():
        return manual(
            "user.conf keys",
            f"they are of {', '.join(sorted(strangers))} and the folder is {s.place.benchmark}: which name LoadGen "
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


def _unknown_keys(conf: Conf, s: Subject) -> Iterator[str]:
    for full in conf.values:
        _, scenario, key = full.rsplit(".", 2)
        if key not in s.rules.user_conf or scenario not in _SCENARIO_NAMES:
            yield f"LoadGen knows no {full!r} and ignores it"
