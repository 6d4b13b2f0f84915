"""The architectures: how their inputs are made, and which flags apply to them.

A new architecture needs a file here and a line in ARCHITECTURES.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from formats.cell import STANDARD_INPUTS
from formats.record import Record
from formats.workload import Config
from harness.errors import UsageError
from harness.inputs import prompt_files
from harness.inputs.depth_limits import Limits
from harness.inputs.models import Model, Size
from harness.inputs.models.drawn import Shapes
from harness.inputs.prompt_files import Prompt, PromptOptions
from harness.inputs.tokenizer import Tokenizer
from harness.inputs.user_folder import Document
from sut.contract import Batch

Arrays = dict[str, np.ndarray]
"""Named arrays, axis 0 = samples."""
Noted = tuple[Arrays, tuple[str, ...]]
"""Inputs, and notes for a reader of the result."""
Counted = tuple[Arrays, int]
"""Arrays, and how many of their first rows have each shape once, the largest last."""
SizeInputs = dict[str, Any]
"""The values of `Size.inputs`."""
Draw = Callable[[Size, int, int], Arrays]
"""(size, samples, stream) → random inputs."""

SEED = 20240611
"""The seed of random inputs."""
ARCHITECTURES = {
    "bert": "harness.inputs.architectures.bert",
    "causal_lm": "harness.inputs.architectures.causal_lm",
    "hidden_states": "harness.inputs.architectures.hidden_states",
    "image_classifier": "harness.inputs.architectures.image_classifier",
    "keras_file": "harness.inputs.architectures.keras_file",
    "picture_encoder": "harness.inputs.architectures.picture_encoder",
    "sam": "harness.inputs.architectures.sam",
    "span": "harness.inputs.architectures.span",
    "stable_diffusion": "harness.inputs.architectures.stable_diffusion",
    "token_classifier": "harness.inputs.architectures.token_classifier",
}
"""The architecture in a model's TOML → its module, which contains an `ARCHITECTURE`."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Facts about the inputs of one cell.

    Attributes:
        config: their shapes for the SUT, in addition to the model's configuration.
        lengths: their lengths for the record, in tokens; empty if inputs have no length.
        seq_len: the length to which every input is padded, if that is part of the cell; else None.
        uneven: whether the inputs cost different amounts.
        new_tokens_per_sample: average; None for an architecture that generates no tokens.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    seq_len: int | None = None
    uneven: bool = False
    new_tokens_per_sample: float | None = None


@dataclass(frozen=True, kw_only=True)
class UserFile:
    """A user's file or folder (`--dataset`), and the cell whose inputs it has.

    Attributes:
        tokenizer: that of the user's weights; None: they have none.
        seq_len: `--seq-len`; None: prompts are padded to the longest.
        options: how prompts are read.
    """

    path: Path
    model: Model
    size: Size
    tokenizer: Tokenizer | None = None
    seq_len: int | None = None
    options: PromptOptions = field(default_factory=PromptOptions)

    def prompts(self, labels: bool = False) -> tuple[list[Prompt], tuple[str, ...]]:
        """The prompts of the file, and notes about it. See `prompt_files.read`."""
        return prompt_files.read(self.path, self.options, labels)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The differences between architectures. Only `synthetic` is needed if every input has one
    shape and no flag applies.

    Attributes:
        synthetic: (size, samples, stream) → random inputs. Another stream gives other values.
            `size.inputs` has the values of the TOML.
        uneven: like `synthetic`, with seeded lengths; None: `--dataset uneven` is refused.
        standard: which of the two is used unless the user chooses.
        synthetic_like: (inputs, size, stream) → (arrays, count). The first `count` rows have each
            shape once, the largest last. The rows after them have the shapes of the inputs and
            other values. Another stream gives other values. None: every input has one shape.
        describe: inputs → their `Description`.
        read: a user's file or folder → (inputs, notes for the reader), or UsageError that names
            file and line; None: `--dataset` is refused.
        count: file or folder → the number of its inputs, before they are read, or UsageError; None:
            `--dataset` is a file.
        with_sequence_length: (model, size, `--seq-len`) → the size with this length, or UsageError;
            None: the flag is refused.
        with_tokens: (model, size, `--prompt-tokens`, `--new-tokens`; None: not given) → the size
            with these lengths, or UsageError; None: both flags are refused.
        with_steps: (model, size, `--steps`) → the size with as many denoising steps, or UsageError;
            None: the flag is refused.
        weights_inputs: (folder, model, its config.json, its tokenizer or None) → `inputs` of a size
            with a user's weights, or UsageError; None: `--weights` is refused.
        weights_config: (folder, tensor name → shape) → the config.json of a user's weights that
            have none, or UsageError; None: they have one.
        least_flops: (size, inputs) → the least floating-point operations of a sample, on average:
            those of the products with weights. None: not known.
        counts_most: whether `least_flops` counts most operations at the published sizes, so that
            its speed may be compared with that of a large matrix product.
        trained: the architecture for a training, whose inputs also have a `label`, int32 [samples,
            …]. None: it is not trained here.
        show: (run directory, its record, the .npz that every SUT read, a tokenizer for text or
            None) → None. It
            writes the first answers of the accuracy test to the run directory, as words or pictures
            for a reader.
        generates_tokens: whether answers are tokens, so that `--eos` applies.
        check: (model, size) → None, or UsageError if no random inputs can be drawn. None: they can
            always be drawn.
        limits: (size, precision, answers of the reference) → (limits of the answers by name, why
            the reference cannot judge answers or an empty text). None: `harness.inputs.limits` has
            the limits.
    """

    synthetic: Draw
    uneven: Draw | None = None
    standard: str = STANDARD_INPUTS[0]
    synthetic_like: Callable[[Arrays, Size, int], Counted] | None = None
    describe: Callable[[Arrays], Description] = lambda arrays: Description()
    read: Callable[[UserFile], Noted] | None = None
    count: Callable[[Path], int] | None = None
    with_sequence_length: Callable[[Model, Size, int], Size] | None = None
    with_tokens: Callable[[Model, Size, int | None, int | None], Size] | None = None
    with_steps: Callable[[Model, Size, int], Size] | None = None
    weights_inputs: Callable[[Path, Model, Config, Tokenizer | None], SizeInputs] | None = None
    weights_config: Callable[[Path, Shapes], Document] | None = None
    least_flops: Callable[[Size, Arrays], float] | None = None
    counts_most: bool = False
    trained: Architecture | None = None
    show: Callable[[Path, Record, Path, Tokenizer | None], None] = lambda *_: None
    generates_tokens: bool = False
    check: Callable[[Model, Size], None] | None = None
    limits: Callable[[Size, str, Batch], Limits] | None = None


def seeded(*stream: int) -> np.random.Generator:
    """A generator of random values. Another stream gives other values."""
    return np.random.default_rng([SEED, *stream])


def of(model: Model, trains: bool = False) -> Architecture:
    """The architecture of a model. `trains`: the one for a training, if there is one. Raises
    KeyError if it is not in ARCHITECTURES.
    """
    architecture = _of_name(model.architecture)
    return architecture.trained or architecture if trains else architecture


def _of_name(name: str) -> Architecture:
    architecture: Architecture = importlib.import_module(ARCHITECTURES[name]).ARCHITECTURE
    return architecture


def drawn(model: Model, inputs: str, trains: bool = False) -> Draw:
    """The function that draws the standard inputs of this name. Raises UsageError if the model's
    inputs have one length.
    """
    architecture = of(model, trains)
    if inputs == STANDARD_INPUTS[0]:
        return architecture.synthetic
    if architecture.uneven is None:
        here = " in a training" if trains else ""
        raise UsageError(
            f"--dataset {inputs}: the inputs of {model.name} have one length{here}: leave it out"
        )
    return architecture.uneven


def counts_most(name: str) -> bool:
    """Return `Architecture.counts_most` of the architecture of this name. False if it is not in
    ARCHITECTURES.
    """
    return name in ARCHITECTURES and _of_name(name).counts_most


def reader(model: Model, trains: bool = False) -> Callable[[UserFile], Noted]:
    """The reader of a user's file for a model. Raises UsageError if its architecture has none."""
    read = of(model, trains).read
    if read is None:
        raise UsageError(
            f"--dataset FILE: {model.name} is measured on synthetic inputs only: leave it out"
        )
    return read
