"""Training without a framework: a classifier of 8 numbers in NumPy, in scripted time. What the harness is tested with.

It is a real training, so that its losses can be right or wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from sut.contract import Batch, Evidence, Workload
from sut.mock import fail_as_told

_FEATURES, _FASTER = 8, 2.0
_WORD_DIVISOR = 7.0


class MockTraining:
    """A logistic regression. Its methods are those of `sut.contract.Training`."""

    def __init__(self, workload: Workload):
        self.constants, self.options = workload.config["optimizer"], workload.options
        self.weights = np.zeros(_FEATURES + 1)
        self.trainable, self.steps = len(self.weights), 0
        self.moments = np.zeros((2, len(self.weights)))
        self.losses: list[float] = []
        self.ready_ns, self.in_fit, self.frozen = 0, False, False

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are."""
        return inputs

    def fit(self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]) -> None:
        """Each step takes `latency-ms`. As on a device, the loop goes on before a step is done."""
        self.in_fit = True
        for batch in self._broken(batches):
            fail_as_told(self.options, self.steps)
            self._step(batch)
            self.ready_ns = max(self.ready_ns, time.perf_counter_ns()) + int(self.options.get("latency-ms", 1.0) * 1e6)
            on_step(self._mean_loss)
        self.in_fit = False

    def _broken(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches in the order in which this mock takes them."""
        wrong, earlier = self.options.get("wrong-fit"), None
        if wrong == "shuffle":
            batches = list(batches)[::-1]
        for number, batch in enumerate(batches):
            yield earlier if wrong == "skip-batch" and number == 2 and earlier is not None else batch
            earlier = batch

    def _step(self, batch: Batch) -> None:
        """One step of AdamW on the mean cross-entropy."""
        values = batch["image" if "image" in batch else "input_ids"]
        features = np.sin(values.reshape(len(values), -1)[:, :_FEATURES] / _WORD_DIVISOR)
        inputs = np.concatenate([features, np.ones((len(features), 1))], 1)
        chances = 1 / (1 + np.exp(-(inputs @ self.weights)))
        label = batch["label"].reshape(len(inputs), -1)[:, 0].astype(int) % 2  # of many labels the first
        right = np.where(label == 1, chances, 1 - chances)
        self.losses.append(float(-np.log(right).mean()))
        gradient = inputs.T @ (chances - label) / len(inputs)
        c, self.steps = self.constants, self.steps + 1
        rate = 0.0 if self.frozen else c["learning_rate"] * (_FASTER if self._learns_faster() else 1.0)
        betas = np.array([[c["beta_1"]], [c["beta_2"]]])
        self.moments = betas * self.moments + (1 - betas) * np.stack([gradient, gradient**2])
        mean, square = self.moments / (1 - betas**self.steps)
        update = rate * (mean / (np.sqrt(square) + c["epsilon"]) + c["weight_decay"] * self.weights)
        self.weights -= np.where(np.arange(len(update)) == 0, 0.0, update) if self.options.get("wrong-fit") == "frozen" else update

    def _learns_faster(self) -> bool:
        wrong = self.options.get("wrong-fit")
        return wrong == "learning-rate" or (wrong == "other-when-timed" and len(self.losses) > 1)

    def _mean_loss(self) -> float:
        self.synchronise()
        mean = float(np.mean(self.losses))
        self.losses.clear()
        return mean

    def freeze(self) -> None:
        """From here on steps change nothing."""
        self.frozen = True

    def synchronise(self) -> None:
        """Wait for the steps that were begun. One that ends early waits once the loop is over."""
        if self.options.get("wrong-fit") == "early-end" and self.in_fit:
            return
        time.sleep(max(0, self.ready_ns - time.perf_counter_ns()) / 1e9)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """Nothing is compiled here, and there is no profiler to watch the call."""
        call()
        return Evidence(graphs=0, graph_breaks=None, precision="float32", detail={"call": "sut.mock_fit", "compiler": "none"})


def load(workload: Workload) -> MockTraining:
    """The mock of a workload; it reads no weights."""
    return MockTraining(workload)
