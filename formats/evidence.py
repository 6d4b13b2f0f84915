"""The proof of which execution and precision a worker really ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Evidence:
    """What a framework reported of a watched call.

    A LoadGen test takes it after the warm-up and once more at its end. A training takes it twice at
    its end. A new graph between the two is a finding.

    Attributes:
        graphs: compiled graphs so far (XLA programs, Dynamo graphs, traced modules); 0 = eager.
        graph_breaks: breaks of a captured graph; None if the framework does not count them.
        precision: determined from the loaded weights and a probe product, never from a flag.
        compiled_share: the share of the model's forward passes that ran compiled, in one probe of
            the measured call. A model may have a compiled graph that the measured call never
            enters. None if the framework compiles the whole call as one program.
        peak_device_bytes: the most bytes that the framework has allocated on the accelerator since
            it was loaded; None on a CPU.
        matrix_flops: floating-point operations a second of a large matrix product in the measured
            precision, on the same device. A model that is faster than this did not compute its
            answers. None: not measured.
        detail: further facts for a sceptical reader, as JSON values.
    """

    graphs: int
    graph_breaks: int | None
    precision: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    compiled_share: float | None = None
    peak_device_bytes: int | None = None
    matrix_flops: float | None = None

    @property
    def shards(self) -> list[tuple[str, int]]:
        """(device, bytes of its parameters) of each shard. Empty if the detail has no such list."""
        shards = self.detail.get("shards")
        if not isinstance(shards, list):
            return []
        found = []
        for each in shards:
            size = each.get("bytes") if isinstance(each, dict) else None
            if type(size) is not int or size < 0:
                return []
            found.append((str(each.get("device")), size))
        return found

    @property
    def shard_words(self) -> str:
        """The number of devices that hold parameters, and the bytes of each, in words."""
        sizes = ", ".join(f"{size / 1e6:.4g} MB" for _, size in self.shards)
        return f"{len(self.shards)} devices ({sizes})"

    def at_once(self, count: int) -> int:
        """How many of `count` shards multiply with processors or a device of their own. The host
        devices of JAX (`cpu:0`, `cpu:1`, …) share all threads.
        """
        share_threads = any(device.startswith("cpu:") for device, _ in self.shards)
        return 1 if share_threads else count
