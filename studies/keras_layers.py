"""Where the time of one call goes, with Keras on JAX and without Keras: a table in Markdown, and a
picture.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m studies.keras_layers \\
        [--batch-size N] [--seconds N] [--out FILE.svg]

The call is `predict` and `to_host` of bert. First both SUTs take turns, as in
studies/keras_cost.py. That gives the time of a call. Then each SUT calls by itself for the same
time, and the running Python frame is sampled a thousand times a second. That gives the shares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from harness.execution import environments
from harness.inputs import models
from harness.report import figures
from studies.keras_cost import in_turns, pair
from studies.turns import LAYERS
from sut.registry import SUTS

_KERAS = "keras3-jax"


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of the turns, and of each SUT's frames"
    )
    parser.add_argument("--out", type=Path, default=environments.ROOT / "docs" / "keras-layers.svg")
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args()
    model = models.load("bert")
    with pair(_KERAS, model, model.sizes[flags.size], flags.batch_size, flags.cache) as peers:
        us = 1e3 * np.median(in_turns(peers, flags.seconds), axis=1)
        shares = [peer.layers(flags.seconds) for peer in peers]
    suts = (_KERAS, str(SUTS[_KERAS].without_keras))
    times = {}
    for sut, share, whole in zip(suts, shares, us, strict=True):
        times[sut] = {name: share[name] * whole for name in LAYERS}
    lines = [_row("µs of a call", suts), "|---|---|---|"]
    for name in LAYERS:
        lines.append(_row(name, [f"{times[sut][name]:,.0f}" for sut in suts]))
    lines.append(_row("together", [f"{whole:,.0f}" for whole in us]))
    sys.stdout.write("\n".join(lines) + "\n")
    title = f"Where the time of one call goes: bert {flags.size}, batch {flags.batch_size}, CPU"
    picture = figures.stacks(times, "layers", "microseconds of a call", title)
    flags.out.write_text(figures.as_file(picture), encoding="utf-8")


def _row(name: str, columns: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(columns)} |"


if __name__ == "__main__":
    main()
