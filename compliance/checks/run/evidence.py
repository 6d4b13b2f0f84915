"""The checks of the execution that really ran. They compare the worker's evidence from before and
after each test with the round's [evidence].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compliance.findings.check import differs, judge, shorten
from compliance.rules import EvidenceRule, Rules
from compliance.subject import LoadGenRun, Subject
from formats.cell import UNKNOWN, Cell
from formats.checks import Checks, Fault, Faults
from formats.evidence import Evidence
from formats.figures import MOST_IN_ONE_PART, NOT_SEEN
from formats.frameworks import ENGINE, FRAMEWORKS
from formats.record import Record
from formats.work import ATTENTION

Detail = Mapping[str, Any]
"""What a framework reports of a watched call, by name."""
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


def checks(subject: Subject) -> Checks:
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
        shown = good
        if test.outcome and test.outcome.forked > 0:
            shown += "; in a fork of a process that had imported the framework"
        file = f"raw/{test.name}/outcome.json"
        results.append(judge(f"{test.name}-evidence", faults, shown, file))
    return results


def _count_in(detail: Detail, name: str) -> int:
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
    yield from _contradictions(rule, evidence, execution)
    yield from _of_engine(record)
    for when, each in evidence.items():
        yield from thread_faults(each, record.cell)
        if test.job:
            yield from switch_faults(each, test.job.workload.settings, test.job.variables)
        if rule.least_of_work and record.cell.shard_count == 1:
            yield from work_faults(rule.least_of_work, each, when, record)
    yield from _uncounted(rule, evidence, record.framework)


def _in_one_part(test: LoadGenRun, record: Record) -> Faults:
    """Yield a sentence if the tokens of too many streamed answers were handed over at one moment.
    An engine may do so if no limit is on its later tokens.
    """
    share = test.outcome.in_one_part if test.outcome else 0.0
    limited = record.execution != ENGINE or record.cell.max_tpot_ms is not None
    if limited and share > MOST_IN_ONE_PART:
        yield NOT_SEEN.format(share=share)


def _of_engine(record: Record) -> Faults:
    """Yield a fault if a SUT whose framework or precision is known is called an engine, which would
    spare it all other evidence, or if only its precision is unknown.
    """
    precision = record.cell.precision
    execution = record.execution
    if (execution == ENGINE) != (precision == UNKNOWN):
        sentence = (
            "the execution is {execution} and the precision {found}; that of an {engine} is"
            " {expected}, and no other is"
        )
        yield differs(sentence, precision, UNKNOWN, execution=execution, engine=ENGINE)
    if execution == ENGINE and record.framework:
        sentence = "the execution is {engine}, and {found} computes in the worker"
        yield differs(sentence, record.framework, "no framework", engine=ENGINE)


def work_faults(least: float, evidence: Evidence, when: str, record: Record) -> Faults:
    """Yield a fault if the watched call ran less than the part `least` of the operations that its
    samples take on the reference. Operations that the framework does not report are not judged.
    """
    flops = evidence.detail.get("flops")
    expected = _operations(record, evidence.detail)
    if type(flops) is int and flops < least * expected:
        text = (
            f"{flops / 1e9:.3g} GFLOP watched {when} the test, and the same samples take"
            f" {expected / 1e9:.3g} on the reference: a part of the model did not run"
        )
        yield Fault(text, f"at least {least:g} of it", f"{flops / max(1.0, expected):.2g}")


def _operations(record: Record, detail: Detail) -> float:
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


def thread_faults(evidence: Evidence, cell: Cell) -> Faults:
    """Yield a fault if the SUT ran on another number of processors, or if its framework multiplied
    with another number of threads, than the cell names. A framework may not report its threads.
    Shards share them.
    """
    threads = cell.threads
    if threads is None:
        return
    counts = {"processors of the SUT": evidence.detail.get("processors")}
    products = evidence.detail.get("matrix_products")
    multiplied = products.get("threads") if isinstance(products, dict) else None
    if type(multiplied) is int and cell.shard_count == 1:
        counts["threads of its matrix products"] = multiplied
    for name, count in counts.items():
        if count != threads:
            sentence = "{name}: {found}; the cell says threads {expected}"
            yield differs(sentence, count, threads, name=name)


def switch_faults(
    evidence: Evidence, settings: Mapping[str, str], variables: Mapping[str, str]
) -> Faults:
    """Yield a fault for each setting and environment variable of the cell's switches that the
    evidence does not show.

    Args:
        settings, variables: what the switches set. The value of a variable may be a list of flags,
            to which others were added.
    """
    sentence = "the {name} is {found} in the worker; the cell's switches set it to {expected}"
    found_settings = evidence.detail.get("settings") or {}
    found_variables = evidence.detail.get("variables") or {}
    for name, value in settings.items():
        found = found_settings.get(name, "not set")
        if found != value:
            yield differs(sentence, found, value, name=f"setting {name}")
    for name, value in variables.items():
        found = found_variables.get(name, "not set")
        if not set(value.split()) <= set(str(found).split()):
            yield differs(sentence, found, value, name=f"variable {name}")


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
    evidence = {"before": before, "after": after}
    faults = [
        *_contradictions(rule, evidence, execution),
        *_uncounted(rule, evidence, framework),
    ]
    return [str(fault) for fault in faults]


def _uncounted(rule: EvidenceRule, evidence: Mapping[str, Evidence], framework: str) -> Faults:
    """Yield a sentence if the evidence lacks counters that the framework always has. Without this
    check a missing counter would be ignored.
    """
    counters = FRAMEWORKS[framework].counters if framework in FRAMEWORKS else ()
    judged = {*rule.a_batch, *rule.a_pass}
    if rule.least_of_work:
        judged.add("flops")
    for when, each in evidence.items():
        lacking = judged.intersection(counters) - each.detail.keys()
        if lacking:
            words = ", ".join(_WORDS[name] for name in counters if name in lacking)
            yield (
                f"the evidence from {when} the test does not count {words}; {framework} counts them"
            )


def _contradictions(rule: EvidenceRule, evidence: Mapping[str, Evidence], execution: str) -> Faults:
    for when, each in evidence.items():
        yield from _share(rule, each, when=when, execution=execution)
        yield from _xla(rule, each, when=when, execution=execution)
        yield from _counts(rule, each, when=when, execution=execution)
    before, after = evidence.values()
    yield from _other_programs(rule, before.detail, after.detail)
    yield from _constant(before.detail, after.detail)
    yield from _changed(before.detail, after.detail)
    yield from _graph_counts(rule, before.graphs, after.graphs, execution)
    breaks = after.graph_breaks  # None: the framework does not count them
    most = rule.max_graph_breaks
    if most is not None and breaks is not None and breaks > most:
        text = f"{breaks} graph breaks; {execution} may have {most}"
        yield Fault(text, f"at most {most}", str(breaks))


def _share(rule: EvidenceRule, evidence: Evidence, **words: Any) -> Faults:
    """Yield a fault if too small a share of the measured call ran compiled, or the share was not
    measured. A model may have graphs that it never runs. `words`: `when` and `execution`.
    """
    share = evidence.compiled_share
    least = rule.min_compiled_share
    if least is None:
        return
    if share is None:
        yield (
            f"the share of forward passes that ran compiled is missing {words['when']} the test;"
            f" {words['execution']} requires {least:g}"
        )
    elif not least <= share <= 1:
        sentence = (
            "{found} of the forward passes ran compiled {when} the test; {execution} requires"
            " {expected}: the rest ran eager"
        )
        yield differs(sentence, f"{share:.3g}", f"{least:g}", **words)


def _xla(rule: EvidenceRule, evidence: Evidence, **words: Any) -> Faults:
    """Yield a fault if XLA compiled too few or too many programs. `words`: see `_share`."""
    programs = evidence.detail.get("xla_programs")
    least = rule.min_xla_programs
    most = rule.max_xla_programs
    if programs is None:
        if rule.xla_programs_counted:
            sentence = "the number of XLA programs is missing {when} the test; {execution}"
            yield f"{sentence.format(**words)} requires it"
    elif type(programs) is not int or programs < 0:
        sentence = "the number of XLA programs {when} the test is {found}, which is not {expected}"
        yield differs(sentence, repr(programs), "a count", **words)
    elif least is not None and programs < least:
        sentence = (
            "{found} XLA programs {when} the test; {execution} requires {expected}: XLA did not"
            " compile the model"
        )
        yield differs(sentence, programs, f"at least {least}", **words)
    elif most is not None and programs > most:
        sentence = (
            "{found} XLA programs {when} the test; {execution} has {expected}: XLA compiled a part"
            " of the model"
        )
        yield differs(sentence, programs, f"at most {most}", **words)


def _counts(rule: EvidenceRule, evidence: Evidence, **words: Any) -> Faults:
    """Yield a fault for each count of the watched call that the execution cannot have, such as
    operators that ran by themselves or separately compiled parts. `words`: see `_share`.

    A SUT that streams calls its compiled code for each token. The limits of a batch are then those
    of a token. In each batch it may begin one token more than it hands over.
    """
    counts = evidence.detail
    batches = counts.get("batches", 1)
    calls = (rule.a_batch, "batch", "batches", batches, 0)
    if "steps" in counts:
        calls = (rule.a_batch, "streamed token", "streamed tokens", counts["steps"], batches)
    units = (calls, (rule.a_pass, "pass", "passes", counts.get("forward_passes"), 0))
    sentence = (
        "{found} {name} in {among} watched {when} the test; {execution} has {expected} in each"
        " {unit}"
    )
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
            words |= {"name": _WORDS[name], "among": among, "unit": unit}
            yield differs(sentence, value, allowed, **words)


def _within(value: Any, number: Any, more: Any, least: float, most: float) -> bool:
    """Whether a count of `number` batches or passes, or of up to `more` in addition, is within the
    limits of one of them.
    """
    if not all(type(each) is int for each in (value, number, more)):
        return False
    return bool(least * number <= value <= most * (number + more))


def _constant(before: Detail, after: Detail) -> Faults:
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


def _changed(before: Detail, after: Detail) -> Faults:
    """Yield a fault for each fact that no batch changes, and that differs before and after the
    test.
    """
    for name in sorted({*before} & {*after}):
        one, other = before[name], after[name]
        fact = isinstance(one, str) or name in _FACTS
        if fact and name not in _REMARKS and one != other:
            sentence = "{name} is {expected} before the test and {found} after it"
            yield differs(sentence, other, one, name=name)


def _other_programs(rule: EvidenceRule, before: Detail, after: Detail) -> Faults:
    """Yield a fault for compilations of other programs while measuring, and for an eager execution
    without operators. Both apply only if the SUT counts them.
    """
    first = before.get("compilations")
    last = after.get("compilations")
    most = rule.max_new_graphs_while_measuring
    if isinstance(first, int) and isinstance(last, int) and last - first > most:
        sentence = "{found} compilations while measuring; {most} are allowed"
        yield differs(sentence, last - first, f"at most {most}", most=most)
    if rule.max_graphs == 0 and 0 in (before.get("operators"), after.get("operators")):
        yield "no operator ran by itself; an eager execution runs them one by one"


def _graph_counts(rule: EvidenceRule, before: int, after: int, execution: str) -> Faults:
    """Yield a fault for too few or too many graphs, and for new graphs while measuring."""
    both = f"{before} and {after}"
    counts = f"{before} graphs before and {after} after the test"
    largest = max(before, after)
    if min(before, after) < rule.min_graphs:
        least = f"at least {rule.min_graphs}"
        yield Fault(f"{counts}; {execution} requires {least}: it ran eager", least, both)
    max_graphs = rule.max_graphs
    if max_graphs is not None and largest > max_graphs:
        sentence = "{found} graphs; {execution} has {expected}: something was compiled"
        yield differs(sentence, largest, f"at most {max_graphs}", execution=execution)
    most = rule.max_new_graphs_while_measuring
    if after < before:
        text = f"{counts}: the watched calls did not use the same graphs"
        yield Fault(text, "the same graphs before and after", both)
    elif after - before > most:
        sentence = "{found} new graphs while measuring; {most} are allowed"
        yield differs(sentence, after - before, f"at most {most}", most=most)
