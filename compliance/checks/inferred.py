"""A scenario's folder with the logs of another: an edge system may infer MultiStream and Offline from what it measured. Pure.

Sources: inference_policies, inference_rules.adoc (Benchmarks), and submission_checker/checks/performance_check.py (inferred_check).
"""

from __future__ import annotations

from compliance.findings.check import Check, Fault, judge, shown
from compliance.subject import Subject


def checks(s: Subject) -> list[Check]:
    """Nothing where the logs are of the folder's own scenario."""
    own, logged = s.rules.scenarios[s.place.scenario], s.performance.detail.get("effective_scenario")
    if logged in (None, own.logged_as):
        return []
    file = s.place.show(s.performance.folder / "mlperf_log_detail.txt")
    line, seen = s.performance.detail.line("effective_scenario"), shown(logged)
    system_type, may = (s.system or {}).get("system_type"), " or ".join(own.inferred_from) or "no other"
    faults = []
    if logged not in own.inferred_from:
        text = f"the logs are of {seen}; {s.place.scenario} is inferred from {may}"
        faults.append(Fault(text, own.logged_as, seen, line=line))
    elif not s.on_edge:
        text = f"the logs are of {seen} and the system is {shown(system_type)}; only edge systems infer {s.place.scenario} from it"
        faults.append(Fault(text, own.logged_as, seen, line=line))
    good = f"the system is {shown(system_type)}: {s.place.scenario} is inferred from {seen}, by whose rules the logs are judged"
    fix = "put the logs into the folder of what they are, or measure this scenario"
    return [judge("inferred scenario", faults, good, source="B4", file=file, fix=fix)]
