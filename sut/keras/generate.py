"""How KerasHub and KerasNLP generate.

`_build_cache` in `models/<model>/<model>_causal_lm.py` makes one pass over all columns of the
prompt and of the answer. Then `Sampler.__call__` makes one pass for each new token. The first of
these passes reads the last token of the prompt again (`next`: `index - 1`).
"""

from __future__ import annotations

FIRST_TOKEN = (
    "KerasHub and KerasNLP make two passes to the first token: one over the prompt and the"
    " answer's column, and one that reads the prompt's last token again; other SUTs make one"
)
