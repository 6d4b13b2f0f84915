"""What GPT-2's explicit causal mask costs native PyTorch: each execution with the mask and without it, in turns. A table in Markdown.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m benchmarks.causal_mask [--size S] [--tokens A B …] [--batch-size N] [--seconds N]

(after one `./run.sh list`, which makes that environment). No input is padded or packed, so `scaled_dot_product_attention` may be told that
it is causal, and needs no mask. Without a cache of keys and values Transformers looks at the positions to see that. A trace and a graph
of torch.compile cannot look, and make a mask in each call. Here each execution runs with a mask and without it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.keras_cost import BLOCKS, in_turns
from benchmarks.turns import Peer
from compliance import rules
from harness.comparison import statistics
from harness.execution import environments
from harness.inputs import checkpoint, models
from harness.inputs.models import Size
from sut.contract import Workload
from sut.registry import SUTS

_EXECUTIONS = ("native-torch-eager", "native-torch-script", "native-torch-compile")


def main() -> None:
    """Measure what the flags name, and print a row for each execution and length."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each length; there are ten turns at least")
    parser.add_argument("--cache", type=Path, default=environments.ROOT / ".cache")
    flags = parser.parse_args()
    size = models.load("gpt2", "predict").sizes[flags.size]
    _say("| batch × tokens | | with a mask | without | speed without the mask over that with it | speed with it over eager without |")
    _say("|---|---|---|---|---|---|")
    for tokens in flags.tokens:
        times = _times(size, flags.batch_size, tokens, flags.seconds, flags.cache)
        blocks = [[float(np.median(part)) for part in np.array_split(row, BLOCKS)] for row in times]
        for n, sut in enumerate(_EXECUTIONS):
            masked, bare = 2 * n, 2 * n + 1
            ratios = (_ratio(blocks[bare], blocks[masked]), _ratio(blocks[masked], blocks[1]))
            _say(
                f"| {flags.batch_size} × {tokens} | `{sut}` | {np.median(times[masked]):.3g} ms | {np.median(times[bare]):.3g} ms "
                f"| {' | '.join(ratios)} |"
            )


def _times(size: Size, rows: int, tokens: int, seconds: float, cache: Path) -> np.ndarray:
    """Milliseconds of a call, float64 [executions × (with, without the mask), turns]."""
    model = models.load("gpt2", "predict")
    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder = Path(name)
        ids = np.random.default_rng(0).integers(3, size.config["vocab_size"], (rows, tokens)).astype(np.int32)
        np.savez(folder / "inputs.npz", allow_pickle=False, input_ids=ids)
        path = checkpoint.ensure(model, size, folder).path
        peers = []
        for sut in _EXECUTIONS:
            spec = SUTS[sut]
            python = environments.ensure(cache, spec.environment, "cpu", rules.CURRENT, environments.say_on_stderr).python
            workload = Workload(
                model=model.name,
                task=model.task,
                config={"model": dict(size.config), "classes": dict(model.classes)},
                checkpoint=path,
                precision="float32",
                batch_size=rows,
                device="cpu",
                backend=spec.backend,
                execution=spec.execution,
            )
            for mask in ("always", "never"):
                specification = {
                    "sut": sut,
                    "name": f"{sut}-{mask}",
                    "mask": mask,
                    "family": model.family,
                    "workload": {**asdict(workload), "checkpoint": str(path)},
                    "inputs": str(folder / "inputs.npz"),
                }
                peers.append(Peer(specification, python, spec.process_env, folder, "benchmarks.masked"))
                ends.callback(peers[-1].close)
        return in_turns(peers, seconds)


def _ratio(a: list[float], b: list[float]) -> str:
    ratio = statistics.compare(a, b, higher_is_better=False, paired=True)
    return f"{ratio.value:.2f} ({statistics.interval(ratio.low or 0, ratio.high or 0)})"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
