"""Runs in a SUT's environment, for studies/causal_mask.py: studies/turns.py with GPT-2's mask left
out, or made in each call.

`python -m studies.masked SPEC.json`: the specification's "mask" is true or false. With it a trace
and a graph make Transformers' own mask, and eager PyTorch makes a plain triangle that all rows
share.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

from transformers.models.gpt2 import modeling_gpt2

from studies import turns


def main(specification: Path) -> None:
    """Answer until the input ends."""
    if json.loads(specification.read_text(encoding="utf-8"))["mask"]:
        modeling_gpt2.create_causal_mask = functools.partial(
            modeling_gpt2.create_causal_mask, allow_is_causal_skip=False
        )
    else:
        modeling_gpt2.create_causal_mask = _none
    turns.main(specification)


def _none(**inputs: Any) -> None:
    """No mask: then Transformers tells scaled_dot_product_attention that it is causal, which is
    right where nothing is padded or packed.
    """


if __name__ == "__main__":
    main(Path(sys.argv[1]))
