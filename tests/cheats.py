"""SUTs that cheat: `python -m tests.cheats NAME PARENT REPLIES` is the real worker, with one of them
where the registry has the mock.
"""

import dataclasses
import sys
import time
import types
from pathlib import Path

import mlperf_loadgen
import numpy as np

from scenarios.worker import __main__ as worker
from sut import mock, registry

END = 2


def phase():
    """What any SUT could find out, though its Workload does not say it: the folder of the job that
    this process does.
    """
    return Path.cwd().name


def run_worker(suts):
    """Run the worker with the SUT (name → `load`) that the first argument names."""
    chosen = types.ModuleType("tests.chosen")
    chosen.load = suts[sys.argv[1]]
    sys.modules[chosen.__name__] = chosen
    registry.SUTS["mock"] = dataclasses.replace(registry.SUTS["mock"], module=chosen.__name__)
    worker.main([sys.argv[0], *sys.argv[2:]])


def faster(workload, times):
    latency_ms = workload.options["latency-ms"] / times
    return mock.Mock(
        dataclasses.replace(workload, options={**workload.options, "latency-ms": latency_ms})
    )


class Caches(mock.Mock):
    """Keeps every answer by the sample's content and gives it again in a tenth of the time."""

    def __init__(self, workload):
        super().__init__(workload)
        self.kept = {}

    def predict(self, batch):
        key = batch["input_ids"].tobytes()
        if key in self.kept:
            return self.kept[key], time.perf_counter_ns() + int(self.options["latency-ms"] * 1e5)
        answers, ready_ns = super().predict(batch)
        self.kept[key] = answers
        return answers, ready_ns


class CompletesTwice(mock.Mock):
    """Gets hold of LoadGen in its own process and reports the first answers of each test twice."""

    def __init__(self, workload):
        super().__init__(workload)
        complete, tests = mlperf_loadgen.QuerySamplesComplete, set()

        def twice(responses):
            complete(responses)
            if phase() not in tests:
                complete(responses)
            tests.add(phase())

        mlperf_loadgen.QuerySamplesComplete = twice


class EndsTwice(mock.Mock):
    """Ends every answer with two end tokens, which count as tokens and cost nothing."""

    def _answer(self, batch):
        answers = super()._answer(batch)
        tokens = np.array(answers["tokens"])
        tokens[:, -2:] = END
        return {**answers, "tokens": tokens}


def knows_the_answers(workload):
    """Gives the right answers in half the time in every test: what it does not compute cannot be
    told from what it computes fast.
    """
    return faster(workload, 2)


def sleeps_less(workload):
    """Does next to no work in the performance run, and gives the right answers nevertheless."""
    return faster(workload, 100 if phase() == "performance" else 1)


class Skips(mock.Mock):
    """Answers all samples of a batch but the last."""

    def _answer(self, batch):
        answers = super()._answer(batch)
        if phase() == "accuracy":
            return answers
        return {key: value[:-1] for key, value in answers.items()}


class SmallBatches(mock.Mock):
    """Computes row by row in the accuracy run; where it is timed, the first row of a batch stands
    for all of it.
    """

    def _answer(self, batch):
        numbers = range(len(batch["input_ids"]))
        if phase() != "accuracy":
            numbers = [0] * len(numbers)
        parts = ({key: value[n : n + 1] for key, value in batch.items()} for n in numbers)
        rows = [super(SmallBatches, self)._answer(part) for part in parts]
        return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}


class StopsEarly(mock.Mock):
    """Generates half of the tokens asked for wherever it is timed."""

    def _answer(self, batch):
        answers = super()._answer(batch)
        if phase() == "accuracy":
            return answers
        return {**answers, "n_tokens": answers["n_tokens"] // 2}


class TwoFaced(mock.Mock):
    """Computes in the accuracy run only; elsewhere the answer is made up."""

    def predict(self, batch):
        answers, ready_ns = super().predict(batch)
        if phase() == "accuracy":
            return answers, ready_ns
        return {"logits": np.zeros_like(answers["logits"])}, time.perf_counter_ns()


if __name__ == "__main__":
    run_worker(globals())
