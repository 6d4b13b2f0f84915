"""What GPT-2's explicit causal mask costs native PyTorch: a table in Markdown.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m studies.causal_mask \\
        [--size S] [--tokens A B …] [--batch-size N] [--seconds N]

The first `./run.sh list` creates that environment. No input is padded or packed, so
`scaled_dot_product_attention` needs no mask: its argument `is_causal` is sufficient. Without a
cache of keys and values Transformers looks at the positions to see whether inputs are packed. A
trace and a graph of torch.compile cannot look at them, and compute a mask in each call. Here each
execution runs with a mask and without it, in turns.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from harness.execution import environments
from harness.inputs import models
from studies import keras_cost

_EXECUTIONS = ("native-torch-eager", "native-torch-script", "native-torch-compile")


def main() -> None:
    """Run the measurements that the flags select, and print a row for each execution and length."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of each length; there are ten turns at least"
    )
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args()
    model = models.load("gpt2", "predict")
    size = model.sizes[flags.size]
    members = [(sut, {"mask": mask}) for sut, mask in product(_EXECUTIONS, (True, False))]
    keras_cost.say(
        "| batch × tokens | | with a mask | without | speed without it over that with it | speed"
        " with it over eager without |"
    )
    keras_cost.say("|---|---|---|---|---|---|")
    for tokens in flags.tokens:
        shape = (flags.batch_size, tokens)
        ids = np.random.default_rng(0).integers(3, size.config["vocab_size"], shape)
        inputs = {"input_ids": ids.astype(np.int32)}
        with keras_cost.together(
            members, model, size, inputs, flags.cache, "studies.masked"
        ) as peers:
            times = keras_cost.in_turns(peers, flags.seconds)
        eager_without = times[1]
        for sut, masked, bare in zip(_EXECUTIONS, times[::2], times[1::2], strict=True):
            columns = (
                f"{flags.batch_size} × {tokens}",
                f"`{sut}`",
                f"{np.median(masked):.3g} ms",
                f"{np.median(bare):.3g} ms",
                keras_cost.speed(bare, masked),
                keras_cost.speed(masked, eager_without),
            )
            keras_cost.say(f"| {' | '.join(columns)} |")


if __name__ == "__main__":
    main()
