"""The checks that compare the loaded samples and their order with those that follow from the
seeds.
"""

from __future__ import annotations

import itertools

from compliance.findings.check import differs, judge, not_applicable
from compliance.loadgen import sample_order as order
from compliance.loadgen.log import Log
from compliance.loadgen.random import Draws
from compliance.logs.trace import Trace
from compliance.rules import Rules
from compliance.subject import LoadGenRun, Subject, released
from formats.checks import Check, Checks, Fault, Faults

# Libraries are far smaller. Shuffling one needs a list of all its samples.
_LARGEST_LIBRARY = 10_000_000
_CHOSEN = ("effective_performance_issue_same", "effective_performance_issue_unique")
"""Settings with which LoadGen does not draw the samples."""


def loaded_sets(subject: Subject) -> Checks:
    """The checks of the sets that each test loaded."""
    good = "the set that follows from the seed"
    return [
        judge(f"{test.name}-loaded-set", _loaded(test, subject.rules), good, test.file)
        for test in subject.tests
    ]


def performance(subject: Subject) -> Check:
    """The check of the order in which the performance test issued its samples, by the trace."""
    file = subject.trace_file
    if subject.trace is None:
        return not_applicable("performance-order", subject.no_trace, file)
    faults = _order(subject.trace, subject.log)
    return judge("performance-order", faults, "the order that follows from the seeds", file)


def _loaded(test: LoadGenRun, rules: Rules) -> Faults:
    log = Log.of(test.detail, str(test.detail.get("effective_scenario")), rules)
    sets = log.sets
    total = log.count("qsl_reported_total_count", _LARGEST_LIBRARY)
    size = log.count("effective_performance_sample_count")
    requested = size
    if test.name != "performance":
        requested = log.count("effective_accuracy_sample_count")
    seed = log.seed("qsl_rng_seed")
    if sets is None or total is None or size is None or requested is None or seed is None:
        yield "the sets, a count or the seed is missing from the log"
        return
    count = sum(len(log.once(one)) for one in sets)
    expected_count = min(requested, total)
    if count != expected_count:
        sentence = "{found} samples were loaded; {expected} were requested"
        yield differs(sentence, count, expected_count, line=log.line("loaded_qsl_set"))
        return
    libraries = [total if rules.draws_from_library else expected_count]
    if not released(log, rules):
        libraries = [total, expected_count]
    for drawn_from, draws in itertools.product(libraries, Draws):
        expected = order.loaded_sets(drawn_from, size, seed, draws, log.per_query)[: len(sets)]
        if sets == expected:
            return
    sentence = (
        "the loaded sets are not those of the seed {seed}: they begin with {found}, the seed's with"
        " {expected}"
    )
    line = log.occurrences["loaded_qsl_set"][0].number
    first, by_seed = (one[:5].tolist() for one in (sets[0], expected[0]))
    yield differs(sentence, first, by_seed, line=line, seed=seed)


def _order(trace: Trace, log: Log) -> Faults:
    if trace.problems:
        yield trace.problems[0]
        return
    index = trace.index
    issued = log.performance_order(len(index))
    if issued is None:
        yield "the loaded set, effective_min_query_count or the seed is missing from the log"
        return
    if any(log.get(key) for key in _CHOSEN):
        yield "the samples were chosen by audit settings"
        return
    if stray := order.misplaced(issued, index):
        first, sample = stray
        seed = log.get("effective_sample_index_rng_seed")
        text = f"from sample {first} on the samples are not those of the seed {seed}"
        yield Fault(text, f"sample {first} has index {sample}", f"index {int(index[first])}")
