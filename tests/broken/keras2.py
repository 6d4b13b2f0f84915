"""SUTs of Keras 2, each with one mistake: `python -m tests.broken.keras2 SPEC.json`."""

from __future__ import annotations

from typing import Any

from sut.contract import Workload
from sut.keras2.bert import load
from tests.broken import running


def recompile(sut: Any, **arguments: Any) -> Any:
    """`model.compile` again, as an author would who adds an argument."""
    sut.model.compile(optimizer="sgd", loss=None, metrics=None, **arguments)
    return sut


def honest(w: Workload) -> Any:
    """The SUT as it is."""
    return load(w)


def memo(w: Workload) -> Any:
    """The model is entered only for inputs that are new."""
    return running.keep_answers(load(w))


def without_xla(w: Workload) -> Any:
    """Keras is told not to compile by XLA."""
    return recompile(load(w), jit_compile=False)


def xla(w: Workload) -> Any:
    """Keras is told to."""
    return recompile(load(w), jit_compile=True)


def run_eagerly(w: Workload) -> Any:
    """Somebody debugged, and left run_eagerly."""
    return recompile(load(w), run_eagerly=True)


def mixed_policy(w: Workload) -> Any:
    """One layer makes bfloat16 of its float32 weights."""
    sut = load(w)
    sut.model.output_dense._set_dtype_policy("mixed_bfloat16")  # Keras 2 has no other way
    return sut


BOTH = (honest, run_eagerly, mixed_policy)
CASES: dict[str, dict[str, tuple[running.Case, ...]]] = {
    "keras2-tensorflow": {"bert": (*BOTH, memo, without_xla)},
    "keras2-tensorflow-graph": {"bert": (*BOTH, xla)},
}

if __name__ == "__main__":
    running.main(CASES)
