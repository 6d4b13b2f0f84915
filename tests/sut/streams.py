"""Runs in a SUT's environment: the tokens of prompts, whole and streamed, in batches of each size.

`python -m tests.sut.streams SPEC.json` writes tokens.npz and facts.json beside it. Without "streams"
no prompt is streamed, and there are no facts.
"""

import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks import answers
from formats.writing import write_json
from scenarios.worker.queries.streaming import Streamed
from scenarios.worker.watching.evidence import watch
from sut.evidence import compilations
from tests.support.files import read_json
from tests.sut.one_mistake import arrays

STOP = 5


def main(specification):
    spec = read_json(specification)
    inputs, sut, found = arrays(spec["inputs"]), answers.load(spec), {}
    ways = {"whole": whole, "streamed": streamed} if spec["streams"] else {"whole": whole}
    for size in spec["batch_sizes"]:
        batches = [sut.prepare(rows) for rows in split(inputs, size)]
        for way, tokens in ways.items():
            found[f"{way} {size}"] = stacked([tokens(sut, each) for each in batches], inputs)
    np.savez(specification.with_name("tokens.npz"), **found)
    if spec["streams"]:
        write_json(specification.with_name("facts.json"), facts_of(sut, batches, inputs, found))


def facts_of(sut, batches, inputs, found):
    compiled = compilations.count() or 0
    facts = {"stopped": stopped(sut, batches[0])}
    for each in batches:
        streamed(sut, each)
    facts["compiled_again"] = (compilations.count() or 0) - compiled
    facts["seen"] = seen(Streamed(sut, ()), batches)
    end = int(found["whole 1"][0, 2])
    ending = Streamed(sut, [end])
    ended = ending.predict(batches[0])
    facts["ended"] = ended["n_tokens"].tolist()
    facts["ended_tokens"] = ended["tokens"][0].tolist()
    first = [sut.prepare(rows) for rows in split(inputs, 1)][:1]
    facts["seen_ended"] = seen(ending, [*first, *batches])
    return facts


def split(inputs, size):
    """The inputs in batches of this size."""
    rows = range(0, len(inputs["input_ids"]), size)
    return [{name: values[row : row + size] for name, values in inputs.items()} for row in rows]


def stacked(tokens, inputs):
    """The tokens of all batches, [rows, most new tokens]. -1: the row did not request it."""
    most = inputs["max_new_tokens"].max()
    equal = [np.pad(each, ((0, 0), (0, max(0, most - each.shape[1]))))[:, :most] for each in tokens]
    own = np.arange(most) < inputs["max_new_tokens"][:, None]
    return np.where(own, np.concatenate(equal), -1)


def whole(sut, batch):
    """The tokens of the whole answers, [rows, new]."""
    return sut.to_host(sut.predict(batch))["tokens"]


def streamed(sut, batch):
    """The tokens that the SUT hands over, [rows, most new tokens]."""
    steps = []

    def on_step(tokens):
        assert tokens.dtype == np.int32 and tokens.shape == batch["prompt_length"].shape
        steps.append(tokens.copy())
        return len(steps) < batch["max_new_tokens"].max()

    sut.stream(batch, on_step)
    return np.stack(steps, axis=1)


def stopped(sut, batch):
    """How many tokens the SUT hands over if the fifth call says that it is enough."""
    calls = 0

    def on_step(tokens):
        nonlocal calls
        calls += 1
        return calls < STOP

    sut.stream(batch, on_step)
    return calls


def seen(sut, batches):
    """The evidence of one streamed batch, and of all."""
    return [asdict(watch(sut, batches[:1])), asdict(watch(sut, batches))]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
