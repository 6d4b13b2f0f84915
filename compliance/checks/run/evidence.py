"""The checks of the execution that really ran. They compare the worker's evidence from before and
after each test with the round's [evidence].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compliance.findings.check import judge, shorten
from compliance.rules import EvidenceRule, Rules
from compliance.subject import LoadGenRun, Subject
from formats.cell import UNKNOWN, Cell
from formats.checks import Check, Fault, Faults
from formats.evidence import Evidence
from formats.figures import MOST_IN_ONE_PART, NOT_SEEN
from formats.frameworks import ENGINE, FRAMEWORKS
from formats.record import Record
from formats.work import ATTENTION

_FACTS = ("threads", "processors", "parameter_dtypes", "variables", "settings")
"""Facts of an evidence that are no texts. All texts are facts, except for those of _REMARKS."""
_REMARKS = ("remark", "call")
_WORDS = {
    "regions": "entries into compiled code",
    "operators": "operators that ran by themselves",
    "operators_that_compute": "operators that compute and ran by themselves",
    "table_lookups": "look-ups in a table that ran by themselves",
    "operators_left_of_passes": "operators outside of compiled code",
    "forward_passes": "forward passes of the model",
    "products_outside_inductor": "matrix products outside of compiled code",
    "script_calls": "entries into TorchScript",
    "operators_left_of_script": "operators outside of TorchScript",
    "host_callbacks": "calls of Python from compiled code",
    "products_left": "matrix products that ran by themselves",
    "products_left_of_xla": "matrix products that XLA does not compile",
    "flops": "floating-point operations",
    "nodes_elsewhere": "operators that another device or execution provider ran",
    "prompts_kept": "caches of earlier prompts",
    "xla_clusters_run": "parts compiled by TensorFlow's auto-clustering",
}


def checks(subject: Subject) -> list[Check]:
    """The checks of the execution, one for each test."""
    record = subject.recorded
    after = subject.performance.after
    good = ""
    if after:
        good = f"{record.execution}: {after.graphs} graphs, none new while measuring"
    if record.execution == ENGINE:
        good = "an engine, of which only the answers are seen"
    results = []
    for test in subject.tests:
        faults = [*_graphs(test, record, subject.rules), *_in_one_part(test, record)]
        file = f"raw/{test.name}/outcome.json"
        is_forked = test.outcome is not None and test.outcome.forked > 0
        told = f"{good}; in a fork of a process that had imported the framework"
        shown = told if is_forked else good
        results.append(judge(f"{test.name}-evidence", faults, shown, file))
    return results


def _count_in(detail: Mapping[str, Any], name: str) -> int:
    """The count, or 0 if it was not counted."""
    value = detail.get(name)
    return value if type(value) is int else 0


def _graphs(test: LoadGenRun, record: Record, rules: Rules) -> Faults:
    evidence = test.evidence
    execution = record.execution
    rule = rules.evidence.get(execution)
    if rule is None:
        executions = ", ".join(rules.evidence)
        name = shorten(repr(execution))
        text = f"the round has no rule for the execution {name}; it has {executions}"
        yield Fault(text, f"one of {executions}", shorten(execution))
        return
    if evidence is None:
        yield test.no_evidence
        return
    yield from _contradictions(rule, *evidence, execution)
    yield from _of_engine(record)
    for when, each in zip(("before", "after"), evidence, strict=True):
        yield from thread_faults(each, record.cell)
        if test.job:
            yield from switch_faults(each, test.job.workload.settings, test.job.variables)
        if rule.least_of_work and record.cell.shard_count == 1:
            yield from work_faults(rule.least_of_work, each, when, record)
    yield from _uncounted(rule, *evidence, record.framework)


def _in_one_part(test: LoadGenRun, record: Record) -> Iterator[str]:
    """Yield a sentence if the tokens of too many streamed answers were handed over at one moment.
    An engine may do so if no limit is on its later tokens.
    """
    share = test.outcome.in_one_part if test.outcome else 0.0
    limited = record.execution != ENGINE or record.cell.max_tpot_ms is not None
    if limited and share > MOST_IN_ONE_PART:
        yield NOT_SEEN.format(share=share)


def _of_engine(record: Record) -> Iterator[Fault]:
    """Yield a fault if a SUT whose framework or precision is known is called an engine, which would
    spare it all other evidence, or if only its precision is unknown.
    """
    precision = record.cell.precision
    framework = record.framework
    execution = record.execution
    if (execution == ENGINE) != (precision == UNKNOWN):
        text = (
            f"the execution is {execution} and the precision {shorten(precision)}; that of"
            f" an {ENGINE} is {UNKNOWN}, and no other is"
        )
        yield Fault(text, UNKNOWN, shorten(precision))
    if execution == ENGINE and framework:
        text = f"the execution is {ENGINE}, and {framework} computes in the worker"
        yield Fault(text, "no framework", framework)


def work_faults(least: float, evidence: Evidence, when: str, record: Record) -> Iterator[Fault]:
    """Yield a fault if the watched call ran less than the part `least` of the operations that its
    samples take on the reference. Operations that the framework does not report are not judged.
    """
    detail = evidence.detail
    flops = detail.get("flops")
    if type(flops) is not int:
        return
    expected = _operations(record, detail)
    if flops < least * expected:
        text = (
            f"{flops / 1e9:.3g} GFLOP watched {when} the test, and the same samples take"
            f" {expected / 1e9:.3g} on the reference: a part of the model did not run"
        )
        yield Fault(text, f"at least {least:g} of it", f"{flops / max(1.0, expected):.2g}")


def _operations(record: Record, detail: Mapping[str, Any]) -> float:
    """Return the least floating-point operations of the samples of a watched call. 0: they are not
    known.

    On an accelerator a fused kernel may hide those of attention.
    """
    samples = detail.get("samples")
    later_tokens: float = _count_in(detail, "later_tokens")
    work = record.work
    if work is None or not isinstance(samples, int | float):
        return 0.0 if later_tokens else _count_in(detail, "rows") * (record.least_flops or 0)
    hidden = (ATTENTION,) if record.accelerator else ()
    if detail.get("loops_counted_once"):
        later_tokens = min(later_tokens, samples)
    parts = [(work.first, samples)]
    if work.token:
        parts.append((work.token, later_tokens))
    return sum(
        times * flops
        for part, times in parts
        for name, flops in part.flops.items()
        if name not in hidden
    )


def thread_faults(evidence: Evidence, cell: Cell) -> Iterator[Fault]:
    """Yield a fault if the SUT ran on another number of processors, or if its framework multiplied
    with another number of threads, than the cell names. A framework may not report its threads.
    Shards share them.
    """
    threads = cell.threads
    if threads is None:
        return
    detail = evidence.detail
    counts = {"processors of the SUT": detail.get("processors")}
    products = detail.get("matrix_products")
    multiplied = products.get("threads") if isinstance(products, dict) else None
    if type(multiplied) is int and cell.shard_count == 1:
        counts["threads of its matrix products"] = multiplied
    for name, count in counts.items():
        if count != threads:
            text = f"{name}: {shorten(count)}; the cell says threads {threads}"
            yield Fault(text, str(threads), shorten(count))


def switch_faults(
    evidence: Evidence, settings: Mapping[str, str], variables: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield a fault for each setting and environment variable of the cell's switches that the
    evidence does not show.

    Args:
        settings, variables: what the switches set. The value of a variable may be a list of flags,
            to which others were added.
    """
    detail = evidence.detail
    found_settings = detail.get("settings") or {}
    found_variables = detail.get("variables") or {}
    for name, value in settings.items():
        if found_settings.get(name) != value:
            yield _unset("setting", name, found_settings.get(name), value)
    for name, value in variables.items():
        found = found_variables.get(name)
        if not set(value.split()) <= set(str(found).split()):
            yield _unset("variable", name, found, value)


def _unset(kind: str, name: str, found: object, value: str) -> Fault:
    shown = "not set" if found is None else shorten(found)
    text = f"the {kind} {name} is {shown} in the worker; the cell's switches set it to {value}"
    return Fault(text, value, shown)


def findings(
    rule: EvidenceRule,
    before: Evidence,
    after: Evidence,
    execution: str,
    framework: str = "",
) -> list[str]:
    """List the contradictions to the claim that `execution` ran, one sentence each. Empty if there
    is none.

    Args:
        before, after: the evidence from before and after one test.
        framework: the name of the framework that computes.
    """
    faults = [
        *_contradictions(rule, before, after, execution),
        *_uncounted(rule, before, after, framework),
    ]
    return [str(fault) for fault in faults]


def _uncounted(
    rule: EvidenceRule, before: Evidence, after: Evidence, framework: str
) -> Iterator[str]:
    """Yield a sentence if the evidence lacks counters that the framework always has. Without this
    check a missing counter would be ignored.
    """
    counters = FRAMEWORKS[framework].counters if framework in FRAMEWORKS else ()
    judged = {*rule.a_batch, *rule.a_pass}
    if rule.least_of_work:
        judged.add("flops")
    for when, each in (("before", before), ("after", after)):
        counts = each.detail
        lacking = [_WORDS[name] for name in counters if name in judged and name not in counts]
        if lacking:
            yield (
                f"the evidence from {when} the test does not count {', '.join(lacking)};"
                f" {framework} counts them"
            )


def _contradictions(
    rule: EvidenceRule, before: Evidence, after: Evidence, execution: str
) -> Faults:
    for when, each in (("before", before), ("after", after)):
        yield from _share(rule, each, when, execution)
        yield from _xla(rule, each, when, execution)
        yield from _counts(rule, each, when, execution)
    yield from _other_programs(rule, before.detail, after.detail)
    yield from _constant(before.detail, after.detail)
    yield from _changed(before.detail, after.detail)
    yield from _graph_counts(rule, before.graphs, after.graphs, execution)
    yield from _breaks(rule, after.graph_breaks, execution)


def _share(rule: EvidenceRule, evidence: Evidence, when: str, execution: str) -> Faults:
    """Yield a fault if too small a share of the measured call ran compiled, or the share was not
    measured. A model may have graphs that it never runs.
    """
    share = evidence.compiled_share
    least = rule.min_compiled_share
    if least is None:
        return
    if share is None:
        yield (
            f"the share of forward passes that ran compiled is missing {when} the test;"
            f" {execution} requires {least:g}"
        )
    elif not least <= share <= 1:
        text = (
            f"{share:.3g} of the forward passes ran compiled {when} the test; {execution} requires"
            f" {least:g}: the rest ran eager"
        )
        yield Fault(text, f"{least:g}", f"{share:.3g}")


def _xla(rule: EvidenceRule, evidence: Evidence, when: str, execution: str) -> Faults:
    programs = evidence.detail.get("xla_programs")
    if programs is None:
        if rule.xla_programs_counted:
            yield f"the number of XLA programs is missing {when} the test; {execution} requires it"
    elif type(programs) is not int or programs < 0:
        value = shorten(repr(programs))
        text = f"the number of XLA programs {when} the test is {value}, which is not a count"
        yield Fault(text, "a count", value)
    elif rule.min_xla_programs is not None and programs < rule.min_xla_programs:
        least = rule.min_xla_programs
        text = (
            f"{programs} XLA programs {when} the test; {execution} requires at least {least}: XLA"
            " did not compile the model"
        )
        yield Fault(text, f"at least {least}", str(programs))
    elif rule.max_xla_programs is not None and programs > rule.max_xla_programs:
        most = rule.max_xla_programs
        text = (
            f"{programs} XLA programs {when} the test; {execution} has at most {most}: XLA compiled"
            " a part of the model"
        )
        yield Fault(text, f"at most {most}", str(programs))


def _counts(rule: EvidenceRule, evidence: Evidence, when: str, execution: str) -> Faults:
    """Yield a fault for each count of the watched call that the execution cannot have, such as
    operators that ran by themselves or separately compiled parts.

    A SUT that streams calls its compiled code for each token. The limits of a batch are then those
    of a token. In each batch it may begin one token more than it hands over.
    """
    counts = evidence.detail
    batches = counts.get("batches", 1)
    calls = (rule.a_batch, "batch", "batches", batches, 0)
    if "steps" in counts:
        calls = (rule.a_batch, "streamed token", "streamed tokens", counts["steps"], batches)
    units = (calls, (rule.a_pass, "pass", "passes", counts.get("forward_passes"), 0))
    for limits, unit, plural, number, more in units:
        for name, (least, most) in limits.items():
            value = counts.get(name)
            if value is None or number == 0 or _within(value, number, more, least, most):
                continue
            allowed = f"{least} or more"
            if least == most:
                allowed = f"{least}"
            elif least == 0:
                allowed = f"at most {most}"
            among = f"{shorten(number)} {unit if number == 1 else plural}"
            text = (
                f"{shorten(value)} {_WORDS[name]} in {among} watched {when} the test;"
                f" {execution} has {allowed} in each {unit}"
            )
            yield Fault(text, allowed, shorten(value))


def _within(value: Any, number: Any, more: Any, least: float, most: float) -> bool:
    """Whether a count of `number` batches or passes, or of up to `more` in addition, is within the
    limits of one of them.
    """
    if not all(type(each) is int for each in (value, number, more)):
        return False
    return bool(least * number <= value <= most * (number + more))


def _constant(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if the counts do not depend on the number of watched batches. Then they are
    from another call, or made up.
    """
    first = before.get("batches", 1)
    last = after.get("batches", 1)
    names = ("operators", "regions", "forward_passes")
    counts = [before.get(name) for name in names]
    if first != last and counts == [after.get(name) for name in names] and any(counts):
        yield (
            f"{shorten(first)} and {shorten(last)} watched batches have the same counts: the counts"
            " are not those of the watched calls"
        )


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each fact that no batch changes, and that differs before and after the
    test.
    """
    for name in sorted({*before} & {*after}):
        one, other = before[name], after[name]
        fact = isinstance(one, str) or name in _FACTS
        if fact and name not in _REMARKS and one != other:
            text = f"{name} is {shorten(one)} before the test and {shorten(other)} after it"
            yield Fault(text, shorten(one), shorten(other))


def _other_programs(
    rule: EvidenceRule, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Faults:
    """Yield a fault for compilations of other programs while measuring, and for an eager execution
    without operators. Both apply only if the SUT counts them.
    """
    first = before.get("compilations")
    last = after.get("compilations")
    most = rule.max_new_graphs_while_measuring
    if isinstance(first, int) and isinstance(last, int) and last - first > most:
        text = f"{last - first} compilations while measuring; {most} are allowed"
        yield Fault(text, f"at most {most}", str(last - first))
    if rule.max_graphs == 0 and 0 in (before.get("operators"), after.get("operators")):
        yield "no operator ran by itself; an eager execution runs them one by one"


def _graph_counts(rule: EvidenceRule, before: int, after: int, execution: str) -> Faults:
    """Yield a fault for too few or too many graphs, and for new graphs while measuring."""
    both = f"{before} and {after}"
    largest = max(before, after)
    if min(before, after) < rule.min_graphs:
        least = f"at least {rule.min_graphs}"
        text = (
            f"{before} graphs before and {after} after the test; {execution} requires {least}: it"
            " ran eager"
        )
        yield Fault(text, least, both)
    max_graphs = rule.max_graphs
    if max_graphs is not None and largest > max_graphs:
        limit = f"at most {max_graphs}"
        text = f"{largest} graphs; {execution} has {limit}: something was compiled"
        yield Fault(text, limit, str(largest))
    new = after - before
    most = rule.max_new_graphs_while_measuring
    if new < 0:
        text = (
            f"{before} graphs before and {after} after the test: the watched calls did not use the"
            " same graphs"
        )
        yield Fault(text, "the same graphs before and after", both)
    elif new > most:
        text = f"{new} new graphs while measuring; {most} are allowed"
        yield Fault(text, f"at most {most}", str(new))


def _breaks(rule: EvidenceRule, breaks: int | None, execution: str) -> Faults:
    """Yield a fault for too many graph breaks. `breaks` is None if the framework does not count
    them.
    """
    most = rule.max_graph_breaks
    if most is None or breaks is None or breaks <= most:
        return
    text = f"{breaks} graph breaks; {execution} may have {most}"
    yield Fault(text, f"at most {most}", str(breaks))
