"""Workload: what a SUT is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All a SUT may know. No scenario, no test: it cannot behave differently in an accuracy run.

    Attributes:
        config: the model's configuration in Hugging Face names (`config.json` of the checkpoint)
            under "model"; the classes by framework under "classes"; for generate `prompt_buckets`
            and `new_token_buckets` (see `sut.padding`), and `end_tokens`, the ids at which an
            answer ends (none: each row gets all tokens it asks for); for fit `optimizer`, with the
            constants of AdamW, and perhaps `lora`: `rank`, `alpha` and `factors`, how they are laid
            out (`sut.adapters`).
        checkpoint: folder with config.json and model.safetensors in the native library's own names.
        precision: `float32`, `tf32` or `bfloat16`: parameters and matrix products.
        device: `cpu` or `cuda`.
        backend: Keras' backend, else None.
        execution: `eager`, `compile`, `script`, `graph` or `xla`.
        options: the SUT's own `--sut-option`s, already checked against the registry.
    """

    model: str
    task: str
    config: Mapping[str, Any]
    checkpoint: Path
    precision: str
    batch_size: int
    device: str
    backend: str | None
    execution: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Batches that Offline keeps submitted: the option `in_flight`, else 1, so that all SUTs
        are measured alike.
        """
        return int(self.options.get("in_flight", 1))
