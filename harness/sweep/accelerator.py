"""Help for a sweep with a deadline on an accelerator: settings that save time, and the memory's
speed.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pynvml

from formats.result import Result
from harness.errors import HarnessError
from harness.execution import environments
from harness.inputs import models
from harness.request.request import Request
from sut.registry import REFERENCE, spec_of

_FEWEST_TOKENS = 8  # of an answer: with fewer, the prompt takes most of the time


def hold_open() -> None:
    """Hold the driver open. If it is not persistent, each opening starts the GPU again."""
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()


def bytes_per_second(request: Request, say: Callable[[str], None]) -> float:
    """Measure the bytes a second, read and written, that the device copies within its memory. 0:
    not known.
    """
    options = request.options
    device = request.device
    round_ = request.rules.round
    name = spec_of(REFERENCE).environment
    try:
        if options.python:
            torch = environments.adopt(options.python, name, round_, device, options.cache)
        else:
            torch = environments.ensure(options.cache, name, device, round_, say)
        command = [str(torch.python), "-P", "-m", "sut.evidence.copy_rate", device]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(environments.ROOT)},
        )
        return float(done.stdout)
    except (HarnessError, subprocess.SubprocessError, ValueError) as e:
        say(f"the speed of the device's memory is not known: {e}")
        return 0.0


def bandwidth_share(result: Result, copied: float) -> float | None:
    """The bytes of weights that decoding reads a second, over those that the device copies.

    Each step of a batch reads the weights once. Keys and values do not count, and neither do tables
    from which a token reads one row. An embedding that is also the head is read whole. None for a
    cell that generates fewer than 8 tokens.

    Args:
        copied: bytes a second, as `bytes_per_second` measures them.
    """
    cell = result.cell
    tokens = result.metrics.get("tokens_per_second")
    if not copied or not tokens or cell.task != "generate":
        return None
    if cell.model not in models.names():
        return None
    size = models.load(cell.model, cell.task).sizes.get(cell.size)
    if size is None:  # the size of a user's weights
        return None
    if (cell.new_tokens or size.inputs["new_tokens"]) < _FEWEST_TOKENS:
        return None
    tables = ["wpe.weight"]
    if not size.config.get("tie_word_embeddings", True):
        tables.append("model.embed_tokens.weight")
    rows = sum(math.prod(tensor.shape) for tensor in size.tensors if tensor.name in tables)
    bytes_per_step = size.weight_bytes(cell.precision) * (1 - rows / size.parameters)
    return bytes_per_step * tokens / cell.batch_size / copied
