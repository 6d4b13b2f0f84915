"""Every SUT, as one literal dict. Read by the parent (list, environments) and by the worker; imports no framework."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType


@dataclass(frozen=True)
class SutSpec:
    """One framework + backend + execution.

    Attributes:
        module: template; {family} comes from the model's data (`bert`, `causal_lm`).
        environment: environments/<name>-<device>.txt; "core" = the harness' own.
        process_env: the framework's own variables, needed before its import.
        unsupported: "model" or "model/task" → the true reason.
        options: name of each `--sut-option` → (its type, or the words it takes; what it does).
        precisions: those it can compute in on some device.
        reads_weights: False: no checkpoint is made for it.
        reference: the SUT whose float32 answers this one is compared with.
        devices: where it can run.
    """

    module: str
    environment: str
    execution: str
    summary: str
    backend: str | None = None
    process_env: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, tuple[type | tuple[str, ...], str]] = field(default_factory=dict)
    reference: str = "native-torch-eager"
    devices: tuple[str, ...] = ("cpu", "cuda")
    precisions: tuple[str, ...] = ("float32", "tf32", "bfloat16")
    reads_weights: bool = True


_KERAS = {"HF_HUB_OFFLINE": "1"}
_TORCH = {"KINETO_LOG_LEVEL": "99"}  # torch.profiler, which evidence uses, says less
_NATIVE_TORCH = {"HF_HUB_OFFLINE": "1", **_TORCH}

SUTS: dict[str, SutSpec] = {
    "mock": SutSpec(
        "sut.mock",
        "core",
        "eager",
        "scripted latencies, no framework: a quick look, and what the harness is tested with",
        reference="mock",
        devices=("cpu",),
        precisions=("float32",),
        reads_weights=False,
        options={
            "latency-ms": (float, "time of one batch, in milliseconds (default 1)"),
            "jitter-ms": (float, "latencies rise from latency-ms by this much over each 10 batches, then fall back (default 0)"),
            "raise-at": (int, "raise an error at this batch"),
            "hang-at": (int, "never return from this batch"),
            "kill-at": (int, "SIGKILL the worker at this batch"),
            "exhaust-memory-at": (int, "allocate until the system refuses or kills, at this batch"),
            "wrong": (("swap-rows", "zero-position"), "break the answers: swap the rows of each batch, or zero position 0 of each input"),
        },
    ),
    "keras3-jax": SutSpec(
        "sut.keras3.{family}",
        "keras3-jax",
        "xla",
        "Keras 3 and KerasHub on JAX, compiled by XLA",
        "jax",
        {"KERAS_BACKEND": "jax", **_KERAS},
    ),
    "keras3-tensorflow": SutSpec(
        "sut.keras3.{family}",
        "keras3-tensorflow",
        "xla",
        "Keras 3 and KerasHub on TensorFlow, compiled by XLA",
        "tensorflow",
        {"KERAS_BACKEND": "tensorflow", **_KERAS},
    ),
    "keras3-tensorflow-graph": SutSpec(
        "sut.keras3.{family}",
        "keras3-tensorflow",
        "graph",
        "Keras 3 and KerasHub on TensorFlow, traced to graphs without XLA",
        "tensorflow",
        {"KERAS_BACKEND": "tensorflow", **_KERAS},
    ),
    "keras3-torch": SutSpec(
        "sut.keras3.{family}",
        "keras3-torch",
        "eager",
        "Keras 3 and KerasHub on PyTorch, nothing compiled",
        "torch",
        {"KERAS_BACKEND": "torch", **_KERAS, **_TORCH},
    ),
    "native-torch-eager": SutSpec(
        "sut.native_torch.{family}",
        "native-torch",
        "eager",
        "PyTorch and Transformers as they are, nothing compiled",
        process_env=_NATIVE_TORCH,
    ),
    "native-torch-compile": SutSpec(
        "sut.native_torch.{family}",
        "native-torch",
        "compile",
        'PyTorch and Transformers under torch.compile(mode="reduce-overhead")',
        process_env=_NATIVE_TORCH,
    ),
}

ALIASES = {"native-torch": "native-torch-compile"}
"""Other names of SUTs, as the published tables have them."""


def unsupported(sut: str, model: str, family: str, task: str, precision: str, device: str) -> str | None:
    """Why this SUT cannot run this cell, as far as that is known without running anything."""
    spec = SUTS[sut]
    if precision == "tf32" and device == "cpu":
        return "--precision tf32: a format of NVIDIA GPUs; on cpu there are float32 and bfloat16"
    if reason := spec.unsupported.get(model) or spec.unsupported.get(f"{model}/{task}"):
        return reason
    module = spec.module.format(family=family)
    if importlib.util.find_spec(module) is None:
        return f"{sut} has no {module.replace('.', '/')}.py, the file of {model}'s family"
    return None


def load_module(sut: str, family: str) -> ModuleType:
    """Import the SUT's file for this model family; only the worker calls it."""
    return importlib.import_module(SUTS[sut].module.format(family=family))
