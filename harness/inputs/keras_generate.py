"""How KerasHub and KerasNLP generate: how much they multiply for a prompt and its answer, compared with the least.

`_build_cache` in `models/<model>/<model>_causal_lm.py` makes one pass over all columns, those of the prompt and those of the answer. Then
`Sampler.__call__` makes one pass for each new token, the first of which reads the last token of the prompt again (`next`: `index - 1`).
"""

from __future__ import annotations

from harness.inputs.families import text
from harness.inputs.models import Size

FIRST_TOKEN = (
    "KerasHub and KerasNLP make two passes to the first token: one over the prompt and the answer's column, one that reads the prompt's "
    "last token again; other SUTs make one"
)


def least_weights(size: Size, prompt: int, new: int) -> int:
    """Return how many weights are multiplied for a prompt of `prompt` tokens and an answer of `new`, at least.

    prompt + new - 1 tokens go through the layers, and new tokens through the head.
    """
    return (prompt + new - 1) * text.layer_weights(size) + new * _head_weights(size)


def weights(size: Size, prompt: int, new: int, *, all_logits: bool = False) -> int:
    """Return how many weights KerasHub multiplies for the same answer.

    prompt + new columns and then new single tokens go through the layers, and new tokens through the head.

    Args:
        all_logits: whether the head is multiplied for all columns of the first pass, too. The logits of that pass are not used, and a
            compiler leaves them out.
    """
    unused = (prompt + new) * _head_weights(size) if all_logits else 0
    return (prompt + 2 * new) * text.layer_weights(size) + new * _head_weights(size) + unused


def _head_weights(size: Size) -> int:
    return int(size.config["vocab_size"] * size.config["hidden_size"])
