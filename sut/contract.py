"""This module defines what a SUT is told (Workload), what it must do (Inference or Training), and
how it proves what ran (Evidence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from formats.workload import Workload

__all__ = ["Batch", "Evidence", "Inference", "Training", "Unsupported", "Workload"]

Batch = Mapping[str, np.ndarray]
"""Named arrays, axis 0 = batch: inputs and answers alike."""


class Unsupported(Exception):
    """Raised by `load`: this SUT cannot run this workload; the message is the reason in the
    table.
    """


@dataclass(frozen=True)
class Evidence:
    """The proof of which execution and precision really ran.

    A LoadGen test takes it after the warm-up and once more at its end. A training takes it twice at
    its end. A new graph between the two is a finding.

    Attributes:
        graphs: compiled graphs so far (XLA programs, Dynamo graphs, traced modules); 0 = eager.
        graph_breaks: breaks of a captured graph; None where the framework does not count them.
        precision: read off the loaded weights and a probe product, never off a flag.
        compiled_share: the share of the model's forward passes that ran compiled, in one probe of
            the measured call. A model may hold a compiled graph that the measured call never
            enters. None where the framework compiles the whole call as one program.
        peak_device_bytes: most bytes the framework held on the accelerator since it was loaded;
            None on a CPU.
        matrix_flops: floating-point operations a second of a large matrix product in the measured
            precision, on the same device. A model that is faster than this did not compute what it
            answered. None: not measured.
        detail: whatever else a sceptic would ask for; JSON values.
    """

    graphs: int
    graph_breaks: int | None
    precision: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    compiled_share: float | None = None
    peak_device_bytes: int | None = None
    matrix_flops: float | None = None


class Inference(Protocol):
    """A loaded model. A SUT file is a module with `load(workload: Workload) -> Inference`."""

    in_flight: int
    """Batches that Offline keeps submitted. A SUT whose `predict` blocks has 1; others have
    `Workload.in_flight`.
    """

    def prepare(self, inputs: Batch) -> Batch:
        """Rename, transpose, cast: called when LoadGen loads samples, before the clock (MLPerf's
        closed list, nothing more).
        """

    def predict(self, batch: Batch) -> Any:
        """Answer one prepared batch; may return before the device is done."""

    def to_host(self, outputs: Any) -> Batch:
        """Block until the answers are C-contiguous in host memory.

        predict: the model's answer keys. generate: `tokens` int32 [batch, new] and `n_tokens` int32
        [batch], the count of each row's own tokens; what stands in a row beyond its count is
        padding.
        """

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Teacher-forced logits, float32 [batch, length, vocabulary], for `tokens` int32 [batch,
        length].

        Of a SUT that generates; one that predicts has none. Never timed.
        """

    def synchronise(self) -> None:
        """Wait for the device: every time that is taken ends here or in `to_host`."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """Return what the framework itself sees of `call`, which makes the timed call: `predict`
        and `to_host` of prepared batches.

        The SUT must make `call` exactly once, under the framework's profiler. It is not timed. Its
        shapes have run before, so that it compiles nothing.
        """


class Training(Protocol):
    """A model to train, fresh from its checkpoint. A SUT's file that trains has
    `load_training(workload: Workload) -> Training`.

    All SUTs train alike: AdamW with the constants of `config["optimizer"]`, weight decay on every
    parameter that is trained, a constant learning rate, no clipping of gradients, no dropout, the
    mean cross-entropy of a batch's labels as its loss. A label of -100 is none. An image encoder
    has features as its labels, and their mean squared error as its loss. With `config["lora"]` the
    model's own parameters are frozen, and LoRA's factors are trained (`sut.adapters`).
    """

    trainable: int
    """How many parameters the optimizer changes."""

    def prepare(self, inputs: Batch) -> Batch:
        """Rename, transpose, cast: of inputs with their `label`. Called before the clock."""

    def fit(
        self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]
    ) -> None:
        """One step on each of the prepared batches, in their order, by the framework's own loop.

        Args:
            steps: how many batches there are.
            on_step: to be called after each step, with a function that waits for the step and gives
                the mean loss of the steps since it was called last. A timed run calls it at the
                first step and at the last one only.
        """

    def freeze(self) -> None:
        """From here on `fit` computes losses and changes no parameter, by the same compiled steps:
        the learning rate is zero.
        """

    def synchronise(self) -> None:
        """Wait for the device."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """Return what the framework itself sees of `call`, which makes some more steps by `fit`.
        The SUT must make it exactly once.
        """
