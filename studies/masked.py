"""Runs studies/turns.py with GPT-2's mask left out, or computed in each call.
studies/causal_mask.py runs it in a SUT's environment.

`python -m studies.masked SPEC.json` reads "mask", true or false, from the specification. If it is
true, a trace and a graph compute Transformers' own mask, and eager PyTorch computes a plain
triangle that all rows share.
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
    """Return no mask. Transformers then calls scaled_dot_product_attention as causal, which is
    right if nothing is padded or packed.
    """


if __name__ == "__main__":
    main(Path(sys.argv[1]))
