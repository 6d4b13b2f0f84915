"""A SUT with scripted latencies and answers, and no framework. The quick start uses it, and so do
the tests of scheduling, logs, failures and the audit.

Its "model" is arithmetic on the input ids, so that its answers can be right or wrong, and its
accuracy test is a real test.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from formats.cell import SHARDS
from sut import padding
from sut.contract import AsGiven, Batch, Call, Evidence, OnStep, Workload

_FEATURES = 8
_HELD_BYTES = 1 << 20
_FASTER = 2.0
_WORD_DIVISOR = 7.0
_SPIN_NS = 200_000  # time.sleep wakes up to this much late


class Mock(AsGiven):
    """A SUT with scripted latencies. Its methods are those of `sut.contract.Inference`."""

    in_flight = 2

    def __init__(self, workload: Workload):
        self.config = workload.config
        self.options = workload.options
        self.rank = workload.rank
        self.calls = 0
        self.vocabulary = workload.config["model"].get("vocab_size", 0)

    def predict(self, batch: Batch) -> tuple[Batch, int]:
        """Return the answers, and when they will be ready."""
        fail_as_told(self.options, self.calls)
        rise = self.options.get("jitter-ms", 0.0) * (self.calls % 10) / 10
        self.calls += 1
        latency_ms = self.options.get("latency-ms", 1.0) + rise
        ready_ns = time.perf_counter_ns() + int(latency_ms * 1e6)
        return self._answer(self._broken(batch)), ready_ns

    def to_host(self, outputs: tuple[Batch, int]) -> Batch:
        """Wait until the answers are ready."""
        answers, ready_ns = outputs
        time.sleep(max(0, ready_ns - time.perf_counter_ns() - _SPIN_NS) / 1e9)
        while time.perf_counter_ns() < ready_ns:
            continue
        return answers

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Hand over the tokens at equal distances, so that the last one comes when `predict` would
        have been done. With `wrong` = `at-once` the first one comes then, too.
        """
        answers, ready_ns = self.predict(batch)
        begin_ns = time.perf_counter_ns()
        at_once = self.options.get("wrong") == "at-once"
        steps = answers["tokens"].shape[1]
        for step in range(steps):
            due_ns = begin_ns + (ready_ns - begin_ns) * (step + 1) // steps
            if at_once:
                due_ns = ready_ns
            if step == 0 or not at_once:
                self.to_host((answers, due_ns))
            if not on_step(answers["tokens"][:, step]):
                return

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return one-hot logits of the token that follows each token, float32 [batch, length,
        vocabulary].
        """
        following = _next(_state(tokens), self.vocabulary)
        return 10 * (following[..., None] == np.arange(self.vocabulary)).astype(np.float32)

    def held(self) -> dict[str, Any]:
        """Return an equal part of the scripted bytes for each rank."""
        part = _HELD_BYTES // self.options[SHARDS]
        return {"device": f"mock {self.rank}", "bytes": part}

    def synchronise(self) -> None:
        """Return at once: nothing runs on a device."""

    def evidence(self, call: Call) -> Evidence:
        """Run the call without a profiler; nothing is compiled. The call does not count as a batch
        at which the mock is to fail.
        """
        calls = self.calls
        self.calls = -(1 << 62)
        call()
        self.calls = calls
        return Evidence(
            graphs=0,
            graph_breaks=None,
            precision="float32",
            detail={"call": "sut.mock", "compiler": "none"},
        )

    def _answer(self, batch: Batch) -> Batch:
        if "image" in batch:
            return _segmented(batch)
        if "noise" in batch:
            return _drawn(batch)
        if "pixel_values" in batch:
            # A model that classifies pictures answers with a sum of its values, from 0 to 9.
            part = batch["pixel_values"][:, :, ::16, ::16].astype(np.int64)
            return {"label": part.sum((1, 2, 3))[:, None] % 10}
        if "max_new_tokens" in batch:
            return self._generate(batch)
        state = _state(batch["input_ids"] * batch["attention_mask"])
        if "mask" not in self.config:  # one answer, and not one for each token
            state = state[:, -1]
        logits = np.stack([np.sin(state), np.cos(state)], -1)
        return {"logits": logits.astype(np.float32)}

    def _generate(self, batch: Batch) -> Batch:
        lengths = batch["prompt_length"].astype(np.int64)
        states = _state(batch["input_ids"])
        state = states[np.arange(len(lengths)), lengths - 1]
        _, new = padding.shape(batch, self.config)
        tokens = np.empty((len(lengths), new), np.int32)
        for step in range(new):
            tokens[:, step] = _next(state, self.vocabulary)
            state = state + tokens[:, step] * (lengths + step + 1)
        ends = self.config.get("end_tokens", ())
        n_tokens = padding.produced(tokens, batch["max_new_tokens"], ends)
        return {"tokens": tokens, "n_tokens": n_tokens}

    def _broken(self, batch: Batch) -> Batch:
        breakage = self.options.get("wrong")
        key = next(key for key in ("image", "pixel_values", "input_ids") if key in batch)
        if breakage == "swap-rows":
            return {**batch, key: batch[key][::-1]}
        if breakage == "zero-position":
            values = batch[key].copy()
            values[:, 0] = 0
            return {**batch, key: values}
        return batch


def fail_as_told(options: Mapping[str, Any], calls: int) -> None:
    """Raise, hang, be killed or exhaust memory if the options name this call, counted from 0."""
    if calls == options.get("raise-at"):
        raise RuntimeError(f"told to raise at batch {calls}")
    if calls == options.get("hang-at"):
        signal.pause()
    if calls == options.get("kill-at"):
        os.kill(os.getpid(), signal.SIGKILL)
    if calls == options.get("exhaust-memory-at"):
        hoard = []
        while True:
            hoard.append(np.ones(1 << 25))


def _segmented(batch: Batch) -> Batch:
    """Return the answers of a model that segments."""
    pixels = batch["image"][:, ::4, ::4].transpose(0, 3, 1, 2)
    logits = np.ascontiguousarray(pixels) - np.float32(0.5)
    coarse = np.ascontiguousarray(logits[:, :, ::7, ::7])
    points = batch["points"].mean((1, 2), keepdims=True)[:, 0]
    return {"mask": logits > 0, "logits": coarse, "score": coarse.mean((2, 3)) + points}


def _drawn(batch: Batch) -> Batch:
    """Return the answers of a model that generates images."""
    state = _state(batch["input_ids"])[:, -1, None, None, None]
    latents = batch["noise"] + np.float32(1e-9) * state
    pixels = (latents[..., :3].clip(-2, 2) * 60 + 128).astype(np.uint8)
    image = pixels.repeat(8, axis=1).repeat(8, axis=2)
    quarters = np.stack([latents / quarter for quarter in (4, 3, 2, 1)], axis=1)
    return {"image": image, "latents": quarters.astype(np.float32)}


def _state(ids: np.ndarray) -> np.ndarray:
    """Return the running sum of id × position, int64 [batch, length]. It depends on every id and
    every position.
    """
    positions = np.arange(1, ids.shape[1] + 1)
    return (ids.astype(np.int64) * positions).cumsum(1)


def _next(state: np.ndarray, vocabulary: int) -> np.ndarray:
    return (state * 31 + 7) % vocabulary


def load(workload: Workload) -> Mock:
    """Return the mock of a workload. It reads no weights."""
    return Mock(workload)


class MockTraining(AsGiven):
    """A logistic regression of 8 numbers, with scripted times. Its methods are those of
    `sut.contract.Training`.
    """

    def __init__(self, workload: Workload):
        self.constants = workload.config["optimizer"]
        self.options = workload.options
        self.weights = np.zeros(_FEATURES + 1)
        self.trainable = len(self.weights)
        self.steps = 0
        self.moments = np.zeros((2, len(self.weights)))
        self.losses: list[float] = []
        self.ready_ns = 0
        self.in_fit = False
        self.frozen = False

    def parameters(self) -> Iterator[np.ndarray]:
        """Yield the weights."""
        yield self.weights

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Make steps of `latency-ms`. As on a device, the loop goes on before a step is done."""
        self.in_fit = True
        for batch in self._broken(batches):
            fail_as_told(self.options, self.steps)
            self._step(batch)
            begin_ns = max(self.ready_ns, time.perf_counter_ns())
            self.ready_ns = begin_ns + int(self.options.get("latency-ms", 1.0) * 1e6)
            on_step(self._mean_loss)
        self.in_fit = False

    def _broken(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches in the order in which this mock takes them."""
        wrong = self.options.get("wrong-fit")
        if wrong == "shuffle":
            batches = list(batches)[::-1]
        earlier: Batch = {}
        for number, batch in enumerate(batches):
            yield earlier if wrong == "skip-batch" and number == 2 else batch
            earlier = batch

    def _step(self, batch: Batch) -> None:
        """Make one step of AdamW on the mean cross-entropy."""
        values = batch["image" if "image" in batch else "input_ids"]
        first = values.reshape(len(values), -1)[:, :_FEATURES]
        features = np.sin(first / _WORD_DIVISOR)
        inputs = np.concatenate([features, np.ones((len(features), 1))], 1)
        chances = 1 / (1 + np.exp(-(inputs @ self.weights)))
        # If a sample has many labels, the first one counts.
        labels = batch["label"].reshape(len(inputs), -1)
        label = labels[:, 0].astype(int) % 2
        right = np.where(label == 1, chances, 1 - chances)
        self.losses.append(float(-np.log(right).mean()))
        gradient = inputs.T @ (chances - label) / len(inputs)
        self.steps += 1
        c = self.constants
        betas = np.array([[c["beta_1"]], [c["beta_2"]]])
        self.moments = betas * self.moments + (1 - betas) * np.stack([gradient, gradient**2])
        mean, square = self.moments / (1 - betas**self.steps)
        step = mean / (np.sqrt(square) + c["epsilon"]) + c["weight_decay"] * self.weights
        update = self._rate() * step
        if self.options.get("wrong-fit") == "frozen":
            update[0] = 0.0
        self.weights -= update

    def _rate(self) -> float:
        """Return the learning rate of this step."""
        if self.frozen:
            return 0.0
        rate = float(self.constants["learning_rate"])
        wrong = self.options.get("wrong-fit")
        if wrong == "learning-rate" or (wrong == "other-when-timed" and len(self.losses) > 1):
            rate *= _FASTER
        return rate

    def _mean_loss(self) -> float:
        self.synchronise()
        mean = float(np.mean(self.losses))
        self.losses.clear()
        return mean

    def freeze(self) -> None:
        """Let later steps change nothing."""
        self.frozen = True

    def synchronise(self) -> None:
        """Wait for the steps that were begun. With `wrong-fit` = `early-end` it waits only after
        the loop is over.
        """
        if self.options.get("wrong-fit") == "early-end" and self.in_fit:
            return
        time.sleep(max(0, self.ready_ns - time.perf_counter_ns()) / 1e9)

    def evidence(self, call: Call) -> Evidence:
        """Run the call without a profiler; nothing is compiled."""
        call()
        return Evidence(
            graphs=0,
            graph_breaks=None,
            precision="float32",
            detail={"call": "sut.mock", "compiler": "none"},
        )


def load_training(workload: Workload) -> MockTraining:
    """Return a real training, so that its losses can be right or wrong. It reads no weights."""
    return MockTraining(workload)
