"""user.conf: what LoadGen would refuse, or silently ignore, in it."""

from __future__ import annotations

from collections.abc import Iterator

from compliance.findings.check import Check, Fault, judge, manual, shown
from compliance.logs.user_conf import Conf, parse
from compliance.subject import Subject

_SCENARIO_NAMES = ("SingleStream", "MultiStream", "Server", "Offline", "*")


def check(s: Subject) -> Check:
    """LoadGen ignores what it does not know, silently."""
    file = s.place.show(s.place.measurements / "user.conf")
    faults: list[Fault | str] = [f for test in s.tests for name, f in test.faults.items() if name == "user.conf"]
    conf, others = parse(s.performance.user_conf or ""), parse(s.accuracy.user_conf or "")
    faults += [Fault(each.text, each.expected, each.found, line=each.line) for each in (*conf.refused, *others.refused)]
    faults += _unknown_keys(conf, s)
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
