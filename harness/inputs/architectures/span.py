"""The inputs of a model that answers questions by a span of a text: those of `bert`, and
`token_type_ids` if the model has two types: 0 for the question, 1 for the text. All are int32
[samples, length].

`--dataset` is a file of SQuAD v1.1. Answers to padding are not compared.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from compliance.scoring.squad import features
from formats import bounds
from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import depth_limits, models, tokenizer
from harness.inputs.architectures import (
    Arrays,
    Counted,
    Draw,
    Noted,
    SizeInputs,
    UserFile,
    bert,
    text,
)
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer

_TYPES = "token_type_ids"
_OF_TEXT = 8
"""The question of a random input is an eighth of its width."""


def _with_types(draw: Draw) -> Draw:
    """Return a function that adds the types of the tokens to the random inputs of `draw`."""

    def typed(size: Size, samples: int, stream: int) -> Arrays:
        arrays = draw(size, samples, stream)
        if not size.inputs["has_types"]:
            return arrays
        mask = arrays["attention_mask"]
        is_text = np.arange(mask.shape[1]) >= mask.shape[1] // _OF_TEXT
        return {**arrays, _TYPES: mask * is_text.astype(np.int32)}

    return typed


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    made, rows = text.synthetic_of_padded(arrays, size, stream)
    if _TYPES in arrays:
        types = arrays[_TYPES]
        made[_TYPES] = np.concatenate([types[:rows], types])
    return made, rows


def _read(given: UserFile) -> Noted:
    """Read the questions of a file, and make their features. Raises UsageError."""
    if given.options.field:
        raise UsageError("--field: is for a file of prompts: leave it out")
    pieces = tokenizer.word_pieces(given.tokenizer)
    width = given.seq_len or features.WIDTH
    positions = text.positions(given.size.config)
    if width > positions:
        raise Refused(
            f"a feature has {width} tokens, and {given.model.name} has positions for {positions}:"
            f" give --seq-len {positions}"
        )
    try:
        questions = features.parse(bounds.content(given.path, bounds.JSON))
        made = features.make(questions, pieces, width)
    except OSError as e:
        raise Refused(f"cannot be read ({e.strerror})") from None
    except ValueError as e:
        raise Refused(str(e)) from None
    if not made:
        raise Refused("no question has a text")
    arrays = features.arrays(made, pieces, width)
    if not given.size.inputs["has_types"]:
        del arrays[_TYPES]
    note = (
        f"{given.path.name}: {len(questions)} questions, which are {len(made)} features of {width}"
        " tokens"
    )
    return arrays, (note,)


def _weights_inputs(path: Path, model: Model, config: Config, own: Tokenizer | None) -> SizeInputs:
    """Random inputs have the length of features, or that of the folder's positions."""
    listed = models.load(model.like)
    usual = 1
    if listed.user_weights and config["model_type"] == listed.config["model_type"]:
        usual = listed.user_weights.defaults["type_vocab_size"]
    return {
        "sequence_length": min(features.WIDTH, text.positions(config)),
        "special_ids": text.special_ids(config, own),
        "has_types": config.get("type_vocab_size", usual) > 1,
    }


ARCHITECTURE = replace(
    bert.ARCHITECTURE,
    synthetic=_with_types(bert.ARCHITECTURE.synthetic),
    uneven=_with_types(bert.ARCHITECTURE.uneven or bert.ARCHITECTURE.synthetic),
    synthetic_like=_synthetic_like,
    describe=text.describe_tokens,
    read=_read,
    weights_inputs=_weights_inputs,
    trained=None,
    limits=depth_limits.of_weights,
)
