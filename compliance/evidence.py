"""Which execution and which precision really ran: what the worker saw before and after each test, against the round's [evidence]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compliance.check import Check, judge, not_applicable
from compliance.rules import EvidenceRule
from compliance.tree import Subject, Test

_BARE = "a submission without a run directory around it holds no evidence"


def checks(s: Subject) -> list[Check]:
    if s.place.run is None:
        return [not_applicable(name, _BARE) for name in ("evidence", "precision")]
    after = (s.performance.outcome or {}).get("evidence_after")
    seen = after if isinstance(after, dict) else {}
    found = []
    for test in s.tests:
        file = f"raw/{test.name}/outcome.json"
        found.append(
            judge(
                f"{test.name} evidence",
                _graphs(test, s),
                f"{s.recorded('execution')}: {seen.get('graphs')} graphs, none new while measuring",
                file=file,
            )
        )
        found.append(
            judge(f"{test.name} precision", _precision(test, s), f"{seen.get('precision')}, read off weights and a product", file=file)
        )
    return found


def _seen(test: Test) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    before, after = ((test.outcome or {}).get(key) for key in ("evidence_before", "evidence_after"))
    return (before, after) if isinstance(before, dict) and isinstance(after, dict) else None


def _graphs(test: Test, s: Subject) -> Iterator[str]:
    seen, rule = _seen(test), s.rules.evidence.get(str(s.recorded("execution")))
    if rule is None:
        yield f"the round has no rule for the execution {s.recorded('execution')!r}; it has {', '.join(s.rules.evidence)}"
        return
    if seen is None:
        yield "the worker left none, neither from before nor from after the test"
        return
    before, after = seen
    if not all(type(each.get("graphs")) is int for each in seen):
        yield "the number of graphs is missing"
        return
    yield from _beside(rule, *(each["detail"] if isinstance(each.get("detail"), dict) else {} for each in seen))
    yield from _broken(rule, before["graphs"], after["graphs"], after.get("graph_breaks"), str(s.recorded("execution")))


def _beside(rule: EvidenceRule, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Other than the measured call's graphs, where a SUT tells: every compilation of the process, and operators run one by one."""
    first, last = before.get("compilations"), after.get("compilations")
    if isinstance(first, int) and isinstance(last, int) and last - first > rule.max_new_graphs_while_measuring:
        yield f"{last - first} compilations of other programs while measuring; {rule.max_new_graphs_while_measuring} are allowed"
    if rule.max_graphs == 0 and 0 in (before.get("operators"), after.get("operators")):
        yield "not one operator was run by itself: what is eager runs them one by one"


def _broken(rule: EvidenceRule, before: int, after: int, breaks: Any, execution: str) -> Iterator[str]:
    """A framework that does not count graph breaks says None."""
    if after < rule.min_graphs or before < rule.min_graphs:
        yield f"{before} graphs before and {after} after the test; {execution} needs at least {rule.min_graphs}: it ran eager"
    if rule.max_graphs is not None and max(before, after) > rule.max_graphs:
        yield f"{max(before, after)} graphs; {execution} has at most {rule.max_graphs}: something was compiled"
    if rule.max_graph_breaks is not None and breaks is not None and not (isinstance(breaks, int) and breaks <= rule.max_graph_breaks):
        yield f"{breaks} graph breaks; {execution} may have {rule.max_graph_breaks}"
    if not 0 <= after - before <= rule.max_new_graphs_while_measuring:
        yield f"{after - before} new graphs while measuring; {rule.max_new_graphs_while_measuring} are allowed"


def _precision(test: Test, s: Subject) -> Iterator[str]:
    seen, want = _seen(test), s.recorded("cell", "precision")
    if seen is None or want is None:
        yield "the worker left no evidence of it, or the record names no precision"
        return
    for when, each in zip(("before", "after"), seen, strict=True):
        if each.get("precision") != want:
            yield f"{each.get('precision')} {when} the test; the cell says {want}"
