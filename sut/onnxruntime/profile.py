"""What ONNX Runtime's own profile says of the runs of a session. Standard library only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from sut.evidence import product_flops

Node = Mapping[str, Any]
"""The `args` of an event of the profile."""

_MATRICES = (
    "MatMul",
    "FusedMatMul",
    "Gemm",
    "FusedGemm",
    "MatMulNBits",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
)
"""Operators that multiply matrices, [..., rows, inner] first."""
_CONVOLUTIONS = ("Conv", "FusedConv", "ConvInteger")
_ATTENTIONS = ("GroupQueryAttention", "MultiHeadAttention", "Attention")
_TRANSPOSED = "ConvTranspose"
_UNKNOWN_WORK = ("Einsum", "LSTM", "GRU", "RNN")
_ON_INTEGERS = (
    "MatMulNBits",  # with accuracy_level 4, the builder's default for a CPU
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "ConvInteger",
)
_BITS = {"double": 64, "float": 32, "float16": 16, "bfloat16": 16, "int8": 8, "uint8": 8}
_NODE = "_kernel_time"


@dataclass
class Observed:
    """What runs of sessions did.

    Attributes:
        flops: floating-point operations of the matrix products. They are not known if there is a
            product `without_flops`.
        bits: bits of the first operands of products → number of products.
        operators: operator → number of its nodes that ran.
        providers: execution provider → number of nodes that it ran.
        cache: dtype of the keys and values of earlier tokens → number of nodes that read them.
        threads: the threads of the session's pool, with the one that calls it.
    """

    flops: int = 0
    without_flops: int = 0
    bits: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    providers: Counter[str] = field(default_factory=Counter)
    cache: Counter[str] = field(default_factory=Counter)
    threads: int = 1

    def add(self, nodes: Iterable[Node], times: int = 1) -> None:
        """Add the nodes of a run, which ran so many times."""
        for node in nodes:
            name = node["op_name"]
            self.operators[name] += times
            self.providers[node["provider"]] += times
            stats = node.get("thread_scheduling_stats")
            if isinstance(stats, dict):
                self.threads = max(self.threads, 1 + len(stats.get("sub_threads", ())))
            if name in _UNKNOWN_WORK:
                self.without_flops += times
            elif name in (*_MATRICES, *_CONVOLUTIONS, _TRANSPOSED, *_ATTENTIONS):
                self._add_product(name, node, times)

    def _add_product(self, name: str, node: Node, times: int) -> None:
        kinds = [next(iter(each)) for each in node["input_type_shape"]]
        bits = 8 if name in _ON_INTEGERS else _BITS.get(kinds[0], 0)
        if name == "GroupQueryAttention":
            self.cache[kinds[1]] += times
            bits = min(bits, _BITS.get(kinds[1], 0))
        self.bits[str(bits)] += times
        flops = _flops(name, node)
        if flops is None:
            self.without_flops += times
        else:
            self.flops += times * flops

    def detail(self, provider: str) -> dict[str, Any]:
        """Return the counts for an evidence's detail. `provider`: the one that should have run all
        nodes.
        """
        elsewhere = self.providers.total() - self.providers[provider]
        return {
            "nodes_elsewhere": elsewhere,
            "flops": None if self.without_flops else self.flops,
            "product_bits": dict(sorted(self.bits.items())),
            "providers": dict(self.providers),
            "kernels": dict(self.operators.most_common(8)),
            **({"cache": dict(self.cache)} if self.cache else {}),
        }


def nodes(path: Path) -> list[Node]:
    """Return the nodes that ran, from the file of a profile, in their order."""
    events = json.loads(path.read_text(encoding="utf-8"))
    return [each["args"] for each in events if _is_node(each)]


def spans(path: Path) -> list[tuple[str, int, int]]:
    """Return (operator, beginning, duration) of each node that ran, from the file of a profile, in
    microseconds since the profile began.
    """
    events = json.loads(path.read_text(encoding="utf-8"))
    return [(each["args"]["op_name"], each["ts"], each["dur"]) for each in events if _is_node(each)]


def _is_node(event: Mapping[str, Any]) -> bool:
    return event.get("cat") == "Node" and event["name"].endswith(_NODE)


def _flops(name: str, node: Node) -> int | None:
    """Return the operations of a product: two for each multiplication. None: not known, because a
    packed kernel of a convolution has no shape in the profile.
    """
    inputs = _shapes(node["input_type_shape"])
    outputs = _shapes(node["output_type_shape"])
    if name in _MATRICES:
        return product_flops.matmul(inputs[0], outputs[0], transposed=False)
    if name in (*_CONVOLUTIONS, _TRANSPOSED):
        kernel = next((each for each in inputs[1:] if len(each) == len(inputs[0])), None)
        places = inputs[0] if name == _TRANSPOSED else outputs[0]
        return None if kernel is None else 2 * prod(places) * prod(kernel[1:])
    key = inputs[1]
    # The keys of a cache are [batch, heads, length, width]. Its length is that of its memory.
    return 4 * prod(outputs[0]) * key[-2]


def _shapes(described: Iterable[Mapping[str, Sequence[int]]]) -> list[Sequence[int]]:
    return [shape for each in described for shape in each.values()]
