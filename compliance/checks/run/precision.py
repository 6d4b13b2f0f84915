"""The checks of the precision that really ran, by the worker's evidence from before and after each
test: the weights in memory, and a product of the measured call.
"""

from __future__ import annotations

from compliance.findings.check import differs, judge, shorten
from compliance.subject import LoadGenRun, Subject
from formats.cell import QUANTIZED, UNKNOWN
from formats.checks import Checks, Fault, Faults
from formats.evidence import Evidence
from formats.record import Record
from formats.work import ITEM_BYTES

_STORED = {"tf32": "float32"}
"""Precision of a cell → the dtype that its weights have in memory, if it has another name."""
_LEAST_OF_WEIGHTS = 0.9
"""The share of the checkpoint's elements that must be loaded. SUTs leave out parts that they never
use. The smallest share is 0.907, for Stable Diffusion of size tiny without the encoder of its VAE.
"""

_LEAST_QUANTIZED = 0.5
"""The share of the elements that must have 8 bits if a model is quantised. Of models with large
vocabularies, libraries may leave embeddings as they are.
"""

_MOST_OF_SHARE = 1.25
"""The most bytes of parameters on one device, over those that it has if all have equal parts. Every
device has all norms, and frameworks may leave small weights whole.
"""


def checks(subject: Subject) -> Checks:
    """The checks of the precision, one for each test."""
    record = subject.recorded
    after = subject.performance.after
    good = f"{after.precision if after else None}, seen on the weights and on a product"
    if after and record.cell.shard_count > 1:
        good += f"; parameters on {after.shard_words}"
    if record.cell.precision == UNKNOWN:
        good = "unknown, as of every engine"
    results = []
    for test in subject.tests:
        faults = _faults(test, record)
        file = f"raw/{test.name}/outcome.json"
        results.append(judge(f"{test.name}-precision", faults, good, file))
    return results


def _faults(test: LoadGenRun, record: Record) -> Faults:
    evidence = test.evidence
    cell = record.cell
    expected = cell.computed_precision
    if evidence is None:
        yield test.no_evidence
        return
    for when, each in evidence.items():
        if each.precision != expected:
            sentence = "{found} {when} the test; the cell says {expected}"
            yield differs(sentence, each.precision, expected, when=when)
        # A SUT without a framework, such as the mock, has no weights that are counted.
        if record.framework:
            quantized = QUANTIZED.get(cell.quantized or "", "")
            precision = cell.precision
            yield from weights_faults(each, when, precision, record.parameters, quantized=quantized)
        if cell.shard_count > 1:
            yield from shards_faults(each, when, cell.shard_count)


def weights_faults(
    evidence: Evidence,
    when: str,
    precision: str,
    parameters: object,
    *,
    quantized: str = "",
) -> Faults:
    """Yield a fault for weights of another dtype than the precision's, and for weights that are
    missing in the evidence.

    Args:
        when: `before` or `after`.
        parameters: the number of elements of the checkpoint; None: it is not known, and the number
            of weights is not judged.
        quantized: the dtype that most elements must have, if the weights are quantised. Scales,
            norms and biases keep the precision.
    """
    elements = _elements(evidence)
    if elements is None:
        yield f"the evidence from {when} the test does not count the weights by dtype"
        return
    stored = _STORED.get(precision, precision)
    total = sum(elements.values())
    allowed = [stored, quantized] if quantized else [stored]
    found = elements.get(quantized, 0)
    if quantized and found < _LEAST_QUANTIZED * total:
        text = f"{found} of {total} elements of the weights are {quantized} {when} the test"
        yield Fault(text, f"at least {_LEAST_QUANTIZED:.0%}", str(found))
    for dtype, count in elements.items():
        if dtype not in allowed:
            sentence = (
                "{count} elements of the weights are {found} {when} the test; {precision} stores"
                " {expected}"
            )
            of = shorten(precision)
            yield differs(sentence, dtype, stored, count=count, when=when, precision=of)
    if type(parameters) is int and total < _LEAST_OF_WEIGHTS * parameters:
        sentence = (
            "the evidence from {when} the test accounts for {found} of {expected} parameters of the"
            " checkpoint"
        )
        yield differs(sentence, total, parameters, when=when)


def shards_faults(evidence: Evidence, when: str, count: int) -> Faults:
    """Yield a fault unless `count` devices hold the parameters, each about an equal part.

    `when`: `before` or `after`.
    """
    parts = evidence.shards
    devices = {device for device, _ in parts}
    if len(devices) != count or len(parts) != count:
        sentence = "{found} devices hold parameters {when} the test; the cell has {expected}"
        yield differs(sentence, len(devices), count, when=when)
        return
    held = [size for _, size in parts]
    whole = _bytes(evidence) or sum(held)
    most = _MOST_OF_SHARE * whole / count
    if max(held) > most:
        text = f"one of {count} devices holds {max(held)} of {whole} bytes {when} the test"
        yield Fault(text, f"at most {most:.0f}", str(max(held)))
    if sum(held) < whole:
        text = f"{count} devices hold {sum(held)} of {whole} bytes {when} the test"
        yield Fault(text, str(whole), str(sum(held)))


def _bytes(evidence: Evidence) -> int:
    """The bytes of all weights, each counted once. 0: the evidence does not count them."""
    elements = _elements(evidence) or {}
    return sum(count * ITEM_BYTES.get(dtype, 0) for dtype, count in elements.items())


def _elements(evidence: Evidence) -> dict[str, int] | None:
    """Dtype → elements of the loaded weights. None if the evidence has no such counts."""
    weights = evidence.detail.get("weights")
    if not isinstance(weights, dict):
        return None
    elements = {}
    for dtype, counts in weights.items():
        count = counts.get("elements") if isinstance(counts, dict) else None
        if type(count) is not int or count < 0:
            return None
        elements[str(dtype)] = count
    return elements
