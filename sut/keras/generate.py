"""Counts the multiplications of KerasHub and KerasNLP for a prompt and its answer, compared with
the least possible number.

`_build_cache` in `models/<model>/<model>_causal_lm.py` makes one pass over all columns of the
prompt and of the answer. Then `Sampler.__call__` makes one pass for each new token. The first of
these passes reads the last token of the prompt again (`next`: `index - 1`).
"""

from __future__ import annotations

FIRST_TOKEN = (
    "KerasHub and KerasNLP make two passes to the first token: one over the prompt and the"
    " answer's column, and one that reads the prompt's last token again; other SUTs make one"
)


def factor(layers: int, head: int, prompt: int, new: int, *, eager: bool) -> float:
    """Return KerasHub's multiplications divided by the needed ones, in products with weights.

    The answer needs prompt + new - 1 tokens through the layers, and new tokens through the head.
    KerasHub sends prompt + new columns and then new single tokens through the layers. Padding and
    attention's own products are not counted.

    Args:
        layers, head: the number of weights of all layers, and of the head.
        prompt, new: tokens of the prompt and of its answer.
        eager: whether nothing compiles the call. The head is then multiplied for all columns of the
            first pass, too; a compiler leaves these logits out, because they are not used.
    """
    least = (prompt + new - 1) * layers + new * head
    computed = (prompt + 2 * new) * layers + new * head
    if eager:
        computed += (prompt + new) * head
    return computed / least
