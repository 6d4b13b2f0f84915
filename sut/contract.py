"""This module defines the contract of a SUT: its task (`Workload`), the methods that it must have
(`Inference` or `Training`), and its proof of what ran (`Evidence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from formats.evidence import Evidence
from formats.workload import Config, Workload

__all__ = [
    "AsGiven",
    "Batch",
    "Call",
    "Config",
    "Engine",
    "Evidence",
    "Inference",
    "OnStep",
    "Training",
    "Unsupported",
    "Workload",
]

Call = Callable[[], Any]
"""The function whose work is watched. Its result is not used."""
Batch = Mapping[str, np.ndarray]
"""Named arrays of inputs or of answers; axis 0 is the batch."""


class Unsupported(Exception):
    """`load` raises it if this SUT cannot run this workload. The table shows its message."""


class Inference(Protocol):
    """A loaded model. A SUT file is a module with `load(workload: Workload) -> Inference`."""

    in_flight: int
    """Batches that Offline keeps submitted. A SUT whose `predict` blocks has 1; others have
    `Workload.in_flight`.
    """

    def prepare(self, inputs: Batch) -> Batch:
        """Rename, transpose or cast the inputs; MLPerf's rules allow nothing more. It is called
        when LoadGen loads samples, before the clock starts.
        """

    def predict(self, batch: Batch) -> Any:
        """Answer one prepared batch. It may return before the device is done."""

    def to_host(self, outputs: Any) -> Batch:
        """Block until the answers are C-contiguous in host memory.

        With the task `predict`, they have the model's answer keys. With `generate`, they are
        `tokens` int32 [batch, new] and `n_tokens` int32 [batch], the number of tokens of each row's
        answer. The rest of a row is padding.
        """

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return teacher-forced logits, float32 [batch, length, vocabulary], for `tokens` int32
        [batch, length].

        Only a SUT that generates has this method. It is never timed.
        """

    def forced_logits(self, batch: Batch, tokens: np.ndarray) -> np.ndarray:
        """Return the logits that choose each new token, float32 [batch, new, vocabulary], in a
        generation that takes `tokens`, int32 [batch, new], one by one through its cache.

        Only a SUT has this method whose generation may compute otherwise than `logits`, such as
        with a cache of another precision. Its answers are then judged by this method, which is
        never timed. `batch`: prepared prompts.
        """

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Generate the answers of one prepared batch, and hand over each token at once.

        Only a SUT that can stream has this method. It calls `on_step` with the next token of each
        row, int32 [batch], as soon as these tokens are in host memory. It stops if `on_step`
        returns False. That happens at the latest after the largest `max_new_tokens` of the batch.
        The tokens of a row, up to its end, are those that `predict` generates. Tokens after a row's
        end are ignored.
        """

    def held(self) -> Mapping[str, Any]:
        """Return the `device` of this process in words, and the `bytes` of parameters that it
        holds, as the framework reports them.

        Only a SUT has this method whose shards are processes (`SutSpec.ranks`).
        """

    def synchronise(self) -> None:
        """Wait for the device. Every measured time ends here or in `to_host`."""

    def evidence(self, call: Call) -> Evidence:
        """Return what the framework itself reports of `call`. `call` runs the timed code: `predict`
        and `to_host` of prepared batches.

        The SUT must run `call` exactly once, under the framework's profiler. This run is not timed.
        Its shapes have run before, so it compiles nothing. A reference is not measured and needs no
        such method.
        """


class Engine(Inference, Protocol):
    """A SUT that forms its own batches, such as a server behind a network. The scenarios hand it
    each sample at once. `scenarios.worker.queries.engine` gives it `predict` and `to_host`.
    """

    silence_s: float
    """Seconds after which it gives up if none of its requests is answered."""
    most_in_flight: int
    """The requests that it can take at a time."""

    def submit(
        self,
        sample: Batch,
        on_first: Callable[[np.ndarray], None] | None,
        on_end: Callable[[Batch | Exception], None],
    ) -> None:
        """Begin to answer one prepared sample, with axis 0 of length 1, and return at once.

        Both functions are called from one thread of the SUT.

        Args:
            on_first: call it with the first token, int32 [1, 1], when it has arrived; None: the
                whole answer is requested.
            on_end: call it once, with the complete answer as `to_host` returns it, or with an
                error, which ends the test. `in_one_part`, bool [1], says of a streamed answer that
                its tokens arrived at one moment.
        """


class AsGiven:
    """A SUT that takes the inputs as they are."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs unchanged."""
        return inputs


OnStep = Callable[[Callable[[], float]], None]
"""It gets a function that waits for a step and returns a mean loss (`Training.fit`)."""


class Training(Protocol):
    """A model to train, just loaded from its checkpoint. A SUT's file that can train has
    `load_training(workload: Workload) -> Training`.

    All SUTs train alike: AdamW with the constants of `config["optimizer"]`, weight decay on every
    trained parameter, a constant learning rate, no clipping of gradients and no dropout. Libraries
    differ in where they add epsilon (`sut.registry.adamw_of`). The loss
    is the mean cross-entropy of a batch's labels. A label of -100 is ignored. An image encoder's
    labels are features, and its loss is their mean squared error. With `config["lora"]` the model's
    own parameters are frozen, and LoRA's factors are trained (`sut.adapters`). A `.keras` file is
    trained by its own losses and optimizer, and the names of its labels begin with `label`.
    """

    trainable: int
    """The number of parameters that the optimizer changes."""

    def prepare(self, inputs: Batch) -> Batch:
        """Rename, transpose or cast the inputs and their `label`, before the clock starts."""

    def parameters(self) -> Iterable[np.ndarray]:
        """Return the trained parameters as they are now, each time in the same order. The harness
        copies each array before it takes the next one. The reference's training also has `noise`,
        which says which of them have a gradient that is only rounding.
        """

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Make one step on each prepared batch, in order, by the framework's own loop.

        Args:
            steps: the number of batches.
            on_step: call it after each step, with a function that waits for the step and returns
                the mean loss of the steps since that function's last call. A timed run calls that
                function only at the first step and at the last one.
        """

    def freeze(self) -> None:
        """Set the learning rate to zero. `fit` then computes losses by the same compiled steps, and
        changes no parameter.
        """

    def synchronise(self) -> None:
        """Wait for the device."""

    def evidence(self, call: Call) -> Evidence:
        """Return what the framework itself reports of `call`, which makes some more steps by `fit`.
        The SUT must run `call` exactly once.
        """
