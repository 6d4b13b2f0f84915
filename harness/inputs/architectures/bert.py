"""BERT's inputs: `input_ids` and `attention_mask`, int32 [samples, length], padded to one length.

The default is the data set `uneven`, because eager Transformers drops a mask of all ones and
compiled SUTs cannot. Keras' published benchmark pads texts, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.errors import UsageError
from harness.inputs.architectures import Architecture, Arrays, Draw, Noted, UserFile, text
from harness.inputs.models import Size


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    ids = text.random_ids(size, (samples, size.inputs["sequence_length"]), stream)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _uneven(size: Size, samples: int, stream: int) -> Arrays:
    """Inputs of 10 % to 100 % of the sequence length (`text.uneven_lengths`), padded at the end."""
    width = size.inputs["sequence_length"]
    return text.random_padded(size, text.uneven_lengths(width, samples, stream), width, stream)


def _labelled(draw: Draw) -> Draw:
    """Return a function that adds to the inputs of `draw` a random class for each sample: `label`,
    int32 [samples].
    """

    def labelled(size: Size, samples: int, stream: int) -> Arrays:
        rng = np.random.default_rng([stream, *b"label"])
        label = rng.integers(size.config["num_labels"], size=samples, dtype=np.int32)
        return {**draw(size, samples, stream), "label": label}

    return labelled


def _read_labelled(given: UserFile) -> Noted:
    prompts, unused = given.prompts(labels=True)
    classes = given.size.config["num_labels"]
    for prompt in prompts:
        if type(prompt.label) is not int or not 0 <= prompt.label < classes:
            found = "none" if prompt.label is None else repr(prompt.label)
            raise UsageError(
                f"{given.path}:{prompt.line}: {given.model.name} is trained on JSON Lines (.jsonl)"
                f" with `prompt` and `label`, a whole number from 0 to {classes - 1}; found {found}"
            )
    arrays, notes = text.of_one_length(given, prompts, unused, closing=True)
    labels = np.array([prompt.label for prompt in prompts], np.int32)
    return {**arrays, "label": labels}, notes


_ANSWERS = Architecture(
    synthetic=_synthetic,
    uneven=_uneven,
    standard="uneven",
    synthetic_like=text.synthetic_of_padded,
    least_flops=text.least_flops,
    counts_most=True,
    describe=text.describe_padded,
    read=text.read_padded,
    with_sequence_length=text.with_sequence_length,
    weights_inputs=text.weights_inputs,
)
_TRAINED = replace(
    _ANSWERS,
    synthetic=_labelled(_synthetic),
    uneven=_labelled(_uneven),
    read=_read_labelled,
)
ARCHITECTURE = replace(_ANSWERS, trained=_TRAINED)
