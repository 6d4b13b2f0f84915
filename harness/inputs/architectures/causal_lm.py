"""The inputs of a model that generates text: `input_ids` [samples, width], `prompt_length` and
`max_new_tokens` [samples], all int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from formats.record import Record
from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import tokenizer
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Counted,
    Description,
    Noted,
    SizeInputs,
    UserFile,
    causal_lm_fit,
    text,
)
from harness.inputs.models import Model, Size
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


def _read(given: UserFile) -> Noted:
    size = given.size
    reader = given.tokenizer or tokenizer.of_bytes(closing=False)
    if given.options.chat and reader.encode_marked:
        reader = replace(reader, encode=reader.encode_marked)
    prompts, unused = given.prompts()
    rows = text.encode(given, prompts, reader)
    most = text.positions(size.config)
    # The tokens of an answer if its prompt does not say: those of the size, and more for a user's
    # weights. The longest prompt leaves `room` positions.
    room = most - max(map(len, rows))
    least = int(size.inputs["new_tokens"])
    default = max(least, min(size.inputs.get(_OF_PROMPTS, least), room))
    new = [p.max_new_tokens or default for p in prompts]
    for prompt, row, count in zip(prompts, rows, new, strict=True):
        if len(row) + count > most:
            raise UsageError(
                f"{given.path}:{prompt.line}: {len(row)} prompt tokens + {count} new ones are more"
                f" than the {most} positions of {given.model.name} {size.name}: shorten or split"
                " the prompt, or request fewer max_new_tokens"
            )
    notes = text.notes(given, rows, reader, unused)
    if default != size.inputs["new_tokens"] and not all(p.max_new_tokens for p in prompts):
        notes.append(
            f"an answer has at most {default} tokens, the default for prompts of yours;"
            " --new-tokens sets another number"
        )
    return arrays_of(rows, new, size), tuple(notes)


def arrays_of(rows: Sequence[Sequence[int] | np.ndarray], new: Sequence[int], size: Size) -> Arrays:
    """The inputs.

    Args:
        rows: the tokens of each prompt.
        new: the most tokens of each answer.
    """
    lengths = np.array([len(row) for row in rows], np.int32)
    return {
        "input_ids": text.padded(rows, int(lengths.max()), size),
        "prompt_length": lengths,
        "max_new_tokens": np.array(new, np.int32),
    }


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
    powers = {max(least, 1 << (n - 1).bit_length()) for n in lengths.tolist()}
    return sorted({min(power, longest) for power in powers})


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    """A warm-up row for each (prompt, new tokens) bucket, then rows with the inputs' lengths and
    other ids.
    """
    buckets = _config(arrays).values()
    shapes = np.array(list(product(*buckets)), np.int32)
    rows, width = arrays["input_ids"].shape
    lengths = np.concatenate([shapes[:, 0], arrays["prompt_length"]])
    warmup_ids = text.random_ids(size, (len(shapes), width), stream + 1)
    other_ids = text.random_ids(size, (rows, width), stream)
    ids = np.concatenate([warmup_ids, other_ids])
    is_prompt = np.arange(width) < lengths[:, None]
    synthetic = {
        "input_ids": np.where(is_prompt, ids, 0).astype(np.int32),
        "prompt_length": lengths,
        "max_new_tokens": np.concatenate([shapes[:, 1], arrays["max_new_tokens"]]),
    }
    return synthetic, len(shapes)


def _describe(arrays: Arrays) -> Description:
    prompt = arrays["prompt_length"]
    new = arrays["max_new_tokens"]
    return Description(
        config=_config(arrays),
        lengths=text.lengths(prompt, arrays["input_ids"].shape[1]),
        uneven=len(np.unique(prompt)) > 1 or len(np.unique(new)) > 1,
        new_tokens_per_sample=float(new.mean()),
    )


def _with_tokens(model: Model, size: Size, prompt: int | None, new: int | None) -> Size:
    """The size with prompts and answers of these lengths. Raises UsageError if the model has too
    few positions.
    """
    flags = []
    of_prompts: dict[str, int] = {}
    if prompt is not None:
        flags.append(f"--prompt-tokens {prompt}")
    if new is not None:
        flags.append(f"--new-tokens {new}")
        of_prompts = {_OF_PROMPTS: new}
    given = " ".join(flags)
    if prompt is None:
        prompt = int(size.inputs["prompt_length"])
    if new is None:
        new = int(size.inputs["new_tokens"])
    most = text.positions(size.config)
    if min(prompt, new) < 1:
        raise UsageError(f"{given}: a prompt and an answer have at least 1 token")
    if prompt + new > most:
        raise UsageError(
            f"{given}: {prompt} + {new} tokens are more than the {most} positions of {model.name}"
            f" {size.name}: request fewer"
        )
    lengths = {"prompt_length": prompt, "new_tokens": new, **of_prompts}
    return replace(size, inputs={**size.inputs, **lengths})


def _weights_inputs(path: Path, model: Model, config: Config, own: Tokenizer | None) -> SizeInputs:
    """The full size's lengths. Raises UsageError if the folder has too few positions for them."""
    full = model.sizes["full"].inputs
    most = text.positions(config)
    if full["prompt_length"] + full["new_tokens"] > most:
        lengths = f"{full['prompt_length']} + {full['new_tokens']}"
        raise Refused(f"max_position_embeddings {most}: {model.name} takes {lengths} tokens here")
    special_ids = text.special_ids(config, own)
    inputs = {**full, _OF_PROMPTS: _NEW_TOKENS, "special_ids": special_ids}
    if "trained_tokens" in full:
        inputs["trained_tokens"] = min(full["trained_tokens"], most)
    return inputs


def _least_flops(size: Size, arrays: Arrays) -> float:
    """Two operations for each weight of the layers and each token that passes them, and two for
    each weight of the head and each new token.
    """
    new = float(arrays["max_new_tokens"].mean())
    through = float(arrays["prompt_length"].mean()) + new - 1
    head = size.config["vocab_size"] * size.config["hidden_size"]
    return 2.0 * (text.layer_weights(size) * through + head * new)


def _show(directory: Path, record: Record, inputs: Path, reader: Tokenizer | None) -> None:
    if reader:
        decode = partial(_text, reader)
        decode_prompt = reader.decode_marked or decode
        words.write(directory, inputs, reader.name, decode, decode_prompt, record.end_tokens)


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
    read=_read,
    with_tokens=_with_tokens,
    weights_inputs=_weights_inputs,
    show=_show,
    generates_tokens=True,
    trained=causal_lm_fit.ARCHITECTURE,
)
