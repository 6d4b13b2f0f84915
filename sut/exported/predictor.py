"""Models that answer in one run of a converted program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sut import converted_models
from sut.contract import Batch, Call, Evidence, Workload
from sut.evidence import backend_evidence
from sut.registry import QUANTIZE


class Predictor(ABC):
    """A converted model. Its methods are those of `sut.contract.Inference`.

    Attributes:
        backend: the module that `backend_evidence` needs, which also has `configure`.
        converter: the module that converts (`sut.converted_models`).
        measured: the measured function of the runtime.
    """

    backend: Any
    converter: str
    measured: str
    in_flight = 1  # a run returns the answers

    def __init__(self, workload: Workload, architecture: str, *, any_size: bool = True):
        """`any_size`: whether one conversion takes batches of any size and length."""
        self.backend.configure(workload)
        self.workload = workload
        self.architecture = architecture
        self.any_size = any_size
        # (model, its shape, if each has a program of its own) → its program
        self.programs: dict[tuple[str, str], Any] = {}

    @abstractmethod
    def opened(self, folder: Path) -> Any:
        """Return the program of the converted model in a folder: inputs by name → outputs by name.

        It has the attributes `held`, dtype → elements of its weights, and `computes`, the dtypes in
        which it computes as far as the runtime reports them.
        """

    @abstractmethod
    def watch(self, call: Call) -> dict[str, Any]:
        """Return the runtime's observations of a call."""

    def load(self, name: str, model: str, shapes: dict[str, Any]) -> Any:
        """Convert a model, unless it is in the cache, and return its program.

        Args:
            name: that of the converted model in the cache.
            model: an architecture, or a part of it (`stable_diffusion.unet`).
            shapes: name of an input → [its dtype, its shape].
        """
        arguments = (model, shapes, self.any_size)
        with converted_models.folder(self.workload, name, self.converter, *arguments) as folder:
            return self.opened(folder)

    def prepare(self, inputs: Batch) -> Batch:
        """Return ids and masks as int64, as PyTorch's models take them."""
        return {
            name: values.astype(np.int64) if values.dtype == np.int32 else values
            for name, values in inputs.items()
        }

    def predict(self, batch: Batch) -> Batch:
        """Return the model's outputs by name."""
        return self.run(self.architecture, batch)

    def run(self, model: str, batch: Batch) -> Batch:
        """Return a model's outputs, by name."""
        outputs: Batch = self.program(model, batch)(batch)
        return outputs

    def program(self, model: str, batch: Batch) -> Any:
        """Return the program of a model. It is converted and loaded for the first batch."""
        shape = "" if self.any_size else _shape(batch)
        if (model, shape) not in self.programs:
            quantized = self.workload.options.get(QUANTIZE, "")
            name = "-".join(filter(None, (model, quantized, shape)))
            shapes = {each: [str(array.dtype), array.shape] for each, array in batch.items()}
            self.programs[model, shape] = self.load(name, model, shapes)
        return self.programs[model, shape]

    def to_host(self, outputs: Batch) -> Batch:
        """Return the answers. Of hidden states it is every seventh channel."""
        answers = dict(outputs)
        if "hidden" in answers:
            hidden = answers["hidden"]
            answers["hidden"] = hidden[:, ::7] if hidden.ndim == 4 else hidden[..., ::7]
        return {name: np.ascontiguousarray(each) for name, each in answers.items()}

    def evidence(self, call: Call) -> Evidence:
        """See `backend_evidence.evidence`. Weights count once if several programs have them."""
        programs = {model: each for (model, _), each in self.programs.items()}.values()
        return backend_evidence.evidence(
            self.backend,
            self.workload,
            self.measured,
            partial(self.watch, call),
            held=sum((each.held for each in programs), Counter[str]()),
            computed={dtype for each in programs for dtype in each.computes},
            detail={},
        )

    def synchronise(self) -> None:  # noqa: B027, a processor needs no more
        """Do nothing: the processor is done on return."""


def _shape(batch: Batch) -> str:
    sizes: list[Any] = [side for values in batch.values() for side in values.shape]
    return "x".join(map(str, sizes))
