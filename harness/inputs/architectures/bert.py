"""BERT's inputs: `input_ids` and `attention_mask`, int32 [samples, length], padded to one length.

The default is the data set `uneven`, because eager Transformers drops a mask of all ones and
compiled SUTs cannot. Keras' published benchmark pads texts, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.inputs.architectures import Architecture, Arrays, Dataset, text
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    ids = text.random_ids(size, (samples, size.inputs["sequence_length"]), stream)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _uneven(size: Size, samples: int, stream: int) -> Arrays:
    """Inputs of 10 % to 100 % of the sequence length (`text.uneven_lengths`), padded at the end."""
    width = size.inputs["sequence_length"]
    return text.random_padded(size, text.uneven_lengths(width, samples, stream), width, stream)


def _labelled(draw: Callable[[Size, int, int], Arrays]) -> Callable[[Size, int, int], Arrays]:
    """Return a function that adds to the inputs of `draw` a random class for each sample: `label`,
    int32 [samples].
    """

    def labelled(size: Size, samples: int, stream: int) -> Arrays:
        rng = np.random.default_rng([stream, *b"label"])
        label = rng.integers(size.config["num_labels"], size=samples, dtype=np.int32)
        return {**draw(size, samples, stream), "label": label}

    return labelled


def _read_labelled(
    model: Model, size: Size, path: Path, own: Tokenizer | None, seq_len: int | None
) -> tuple[Arrays, tuple[str, ...]]:
    prompts, unused = text.read(path, labels=True)
    classes = size.config["num_labels"]
    for prompt in prompts:
        if type(prompt.label) is not int or not 0 <= prompt.label < classes:
            found = "none" if prompt.label is None else repr(prompt.label)
            raise UsageError(
                f"{path}:{prompt.line}: {model.name} is trained on JSON Lines (.jsonl) with"
                f" `prompt` and `label`, a whole number from 0 to {classes - 1}; found {found}"
            )
    arrays, (first, *others) = text.of_one_length(
        model, size, prompts, path, own=own, seq_len=seq_len, closing=True
    )
    labels = np.array([prompt.label for prompt in prompts], np.int32)
    return {**arrays, "label": labels}, (first, *unused, *others)


def _weights_inputs(
    path: Path, model: Model, config: Mapping[str, Any], own: Tokenizer | None
) -> dict[str, Any]:
    """The full size's length, limited by the folder's positions."""
    length = min(model.sizes["full"].inputs["sequence_length"], config["max_position_embeddings"])
    return {"sequence_length": length, "special_ids": text.special_ids(path, config, own)}


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight of the encoder and each token. Pooler and head see only one
    token and are left out.
    """
    matrices = [t.shape for t in size.tensors if len(t.shape) == 2 and ".encoder." in t.name]
    weights = sum(map(math.prod, matrices))
    tokens = float(arrays["attention_mask"].sum(1).mean())
    return 2.0 * weights * tokens


_ANSWERS = Architecture(
    synthetic=_synthetic,
    uneven=_uneven,
    standard="uneven",
    synthetic_like=text.synthetic_of_padded,
    least_flops=_least_flops,
    counts_most=True,
    describe=text.describe_padded,
    dataset=Dataset(count=text.count, read=text.read_padded),
    with_sequence_length=text.with_sequence_length,
    weights_inputs=_weights_inputs,
)
_TRAINED = replace(
    _ANSWERS,
    synthetic=_labelled(_synthetic),
    uneven=_labelled(_uneven),
    dataset=Dataset(count=text.count, read=_read_labelled),
)
ARCHITECTURE = replace(_ANSWERS, trained=_TRAINED)
