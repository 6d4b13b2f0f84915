"""How fast a device copies within its own memory, measured by torch.

`python -m sut.evidence.copy_rate DEVICE` prints the bytes read and written a second.
"""

from __future__ import annotations

import sys
import time

import torch

_ELEMENTS = 1 << 28  # 1 GiB of float32
_COPIES = 10
_ROWS = 4


def measure(device: str) -> float:
    """Return the bytes read and written a second, of the fastest of four rows of ten copies."""
    source = torch.ones(_ELEMENTS, device=device)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(_ROWS):
        start = time.perf_counter()
        for _ in range(_COPIES):
            target.copy_(source)
        target[-1].item()  # waits for the copies
        best = max(best, 2 * _COPIES * source.nbytes / (time.perf_counter() - start))
    return best


if __name__ == "__main__":
    sys.stdout.write(f"{measure(sys.argv[1])}\n")
