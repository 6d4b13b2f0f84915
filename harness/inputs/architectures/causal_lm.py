"""The inputs of a model that generates text: `input_ids` [samples, width], `prompt_length` and
`max_new_tokens` [samples], all int32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.inputs import prompt_files, tokenizer
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Dataset,
    Description,
    causal_lm_fit,
    text,
)
from harness.inputs.models import Model, Size
from harness.inputs.prompt_files import PromptOptions
from harness.inputs.tokenizer import Tokenizer
from harness.samples import words

_OF_PROMPTS = "new_tokens_of_prompts"
"""Key of `Size.inputs`: the most tokens of an answer to a user's prompt by the user's weights."""
_NEW_TOKENS = 128


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    length = size.inputs["prompt_length"]
    return {
        "input_ids": text.random_ids(size, (samples, length), stream),
        "prompt_length": np.full(samples, length, np.int32),
        "max_new_tokens": np.full(samples, size.inputs["new_tokens"], np.int32),
    }


def _uneven(size: Size, samples: int, stream: int) -> Arrays:
    """Prompts of 10 % to 100 % of the size's prompt length (`text.uneven_lengths`). All answers
    have one length.
    """
    width = size.inputs["prompt_length"]
    lengths = text.uneven_lengths(width, samples, stream)
    return {
        "input_ids": text.random_padded(size, lengths, width, stream)["input_ids"],
        "prompt_length": lengths,
        "max_new_tokens": np.full(samples, size.inputs["new_tokens"], np.int32),
    }


def _read(
    model: Model,
    size: Size,
    path: Path,
    own: Tokenizer | None,
    seq_len: int | None,
    options: PromptOptions,
) -> tuple[Arrays, tuple[str, ...]]:
    reader = own or tokenizer.of_bytes(closing=False)
    if options.chat and reader.encode_marked:
        reader = replace(reader, encode=reader.encode_marked)
    prompts, unused = prompt_files.read(path, options)
    rows = text.encode(model, size, prompts, path, reader)
    most = size.config["max_position_embeddings"]
    default = _default_new_tokens(size, most - max(map(len, rows)))
    new = [p.max_new_tokens or default for p in prompts]
    for prompt, row, count in zip(prompts, rows, new, strict=True):
        if len(row) + count > most:
            raise UsageError(
                f"{path}:{prompt.line}: {len(row)} prompt tokens + {count} new ones are more than"
                f" the {most} positions of {model.name} {size.name}: split the paragraph with an"
                " empty line, or ask for fewer max_new_tokens"
            )
    lengths = np.array([len(row) for row in rows], np.int32)
    arrays = {
        "input_ids": text.padded(rows, int(lengths.max()), size),
        "prompt_length": lengths,
        "max_new_tokens": np.array(new, np.int32),
    }
    first, *others = text.notes(path, size, rows, reader, own)
    if default != size.inputs["new_tokens"] and not all(p.max_new_tokens for p in prompts):
        others.append(
            f"an answer has at most {default} tokens, the default for prompts of yours;"
            " --new-tokens sets another number"
        )
    return arrays, (first, *unused, *others)


def _default_new_tokens(size: Size, room: int) -> int:
    """The tokens of an answer if its prompt does not say: those of the size, and more for a user's
    weights.

    Args:
        room: positions that the longest prompt leaves.
    """
    least = int(size.inputs["new_tokens"])
    return max(least, min(size.inputs.get(_OF_PROMPTS, least), room))


def _config(arrays: Arrays) -> dict[str, list[int]]:
    return {
        "prompt_buckets": _buckets(arrays["prompt_length"], 16),
        "new_token_buckets": _buckets(arrays["max_new_tokens"], 8),
    }


def _buckets(lengths: np.ndarray, least: int) -> list[int]:
    """The lengths to which a SUT may pad. If all are equal, it is that length. Otherwise they are
    powers of two, the last cut to the longest, so that a compiled SUT needs few shapes.
    """
    longest = int(lengths.max())
    if int(lengths.min()) == longest:
        return [longest]
    powers = {max(least, 1 << int(n - 1).bit_length()) for n in lengths.tolist()}
    return sorted({min(p, longest) for p in powers})


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> tuple[Arrays, int]:
    """A warm-up row for each (prompt, new tokens) bucket, then rows with the inputs' lengths and
    other ids.
    """
    shapes = np.array(list(product(*_config(arrays).values())), np.int32)
    rows, width = arrays["input_ids"].shape
    lengths = np.concatenate([shapes[:, 0], arrays["prompt_length"]])
    ids = np.concatenate(
        [
            text.random_ids(size, (count, width), each)
            for count, each in ((len(shapes), stream + 1), (rows, stream))
        ]
    )
    synthetic = {
        "input_ids": np.where(np.arange(width) < lengths[:, None], ids, 0).astype(np.int32),
        "prompt_length": lengths,
        "max_new_tokens": np.concatenate([shapes[:, 1], arrays["max_new_tokens"]]),
    }
    return synthetic, len(shapes)


def _describe(arrays: Arrays) -> Description:
    return Description(
        config=_config(arrays),
        lengths=text.lengths(arrays["prompt_length"], arrays["input_ids"].shape[1]),
        uneven=any(
            len(set(arrays[key].tolist())) > 1 for key in ("prompt_length", "max_new_tokens")
        ),
        new_tokens_per_sample=float(arrays["max_new_tokens"].mean()),
    )


def _with_tokens(model: Model, size: Size, prompt: int | None, new: int | None) -> Size:
    """The size with prompts and answers of these lengths. Raises UsageError if the model has too
    few positions.
    """
    flags = {"--prompt-tokens": ("prompt_length", prompt), "--new-tokens": ("new_tokens", new)}
    told = " ".join(f"{flag} {value}" for flag, (_, value) in flags.items() if value is not None)
    lengths = {
        name: int(size.inputs[name]) if value is None else value for name, value in flags.values()
    }
    of_prompts = {} if new is None else {_OF_PROMPTS: new}
    most = size.config["max_position_embeddings"]
    if min(lengths.values()) < 1:
        raise UsageError(f"{told}: a prompt and an answer have at least 1 token")
    if sum(lengths.values()) > most:
        asked = f"{lengths['prompt_length']} + {lengths['new_tokens']} tokens"
        raise UsageError(
            f"{told}: {asked} are more than the {most} positions of {model.name} {size.name}: ask"
            " for fewer"
        )
    return replace(size, inputs={**size.inputs, **lengths, **of_prompts})


def _weights_inputs(
    path: Path, model: Model, config: Mapping[str, Any], own: Tokenizer | None
) -> dict[str, Any]:
    """The full size's lengths. Raises UsageError if the folder has too few positions for them."""
    full, most = model.sizes["full"].inputs, config["max_position_embeddings"]
    if full["prompt_length"] + full["new_tokens"] > most:
        lengths = f"{full['prompt_length']} + {full['new_tokens']}"
        raise UsageError(
            f"--weights {path}: max_position_embeddings {most}: {model.name} takes {lengths} tokens"
            " here"
        )
    trained = {name: min(full[name], most) for name in ("trained_tokens",) if name in full}
    special_ids = text.special_ids(path, config, own)
    return {**full, **trained, _OF_PROMPTS: _NEW_TOKENS, "special_ids": special_ids}


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight of the layers and each token that passes them, and two for
    each weight of the head and each new token.
    """
    new = float(arrays["max_new_tokens"].mean())
    through = float(arrays["prompt_length"].mean()) + new - 1
    return 2.0 * (
        text.layer_weights(size) * through
        + size.config["vocab_size"] * size.config["hidden_size"] * new
    )


def _show(directory: Path, inputs: Path, reader: Tokenizer | None) -> None:
    if reader:
        words.write(directory, inputs, reader.name, partial(_text, reader))


def _text(reader: Tokenizer, ids: Sequence[int]) -> str:
    """The text of any ids. A model may answer with ids that its tokenizer does not have."""
    return reader.decode([i for i in ids if 0 <= i < reader.vocabulary])


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    uneven=_uneven,
    synthetic_like=_synthetic_like,
    least_flops=_least_flops,
    counts_most=True,
    describe=_describe,
    dataset=Dataset(count=prompt_files.count, read=_read),
    with_tokens=_with_tokens,
    weights_inputs=_weights_inputs,
    show=_show,
    generates_tokens=True,
    trained=causal_lm_fit.ARCHITECTURE,
)
