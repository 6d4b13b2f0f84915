"""`Workload`: the information that a SUT gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Config = Mapping[str, Any]
"""The configuration of a model, or of its LoRA."""
Variables = Mapping[str, str]
"""Name of an environment variable → its value."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Everything that a SUT may know. It does not contain the scenario or the test, so a SUT cannot
    behave differently in an accuracy run.

    Attributes:
        config: "model" is the model's configuration in Hugging Face names (`config.json` of the
            checkpoint), and "classes" the classes by framework. For generate there are also
            `prompt_buckets` and `new_token_buckets` (see `sut.padding`), and `end_tokens`, the ids
            at which an answer ends (none: each row gets all requested tokens). For fit there is
            also `optimizer`, with the constants of AdamW (empty for a user's file), and for LoRA
            `lora`, with `rank`, `alpha` and `factors`, the layout of its factors (`sut.adapters`).
            For an engine there are also `tokenizer`, the path of its tokenizer.json, and if it gets
            messages `conversations`, the ids of each prompt and its messages.
        checkpoint: folder with config.json and model.safetensors in the native library's own names.
        precision: `float32`, `tf32`, `bfloat16` or `float16`, for parameters and matrix products.
        device: `cpu` or `cuda`.
        backend: Keras' backend, else None.
        execution: `eager`, `compile`, `script`, `graph`, `xla` or `runtime`.
        options: the SUT's own `--sut-option`s, already checked against the registry.
        switches: names of the switches of `--tuned`, sorted (`sut/tuning.toml`).
        settings: what these switches set in the SUT's own code, by name.
        converted: folder in the cache for what a SUT's tools make of this checkpoint in this
            environment (`sut.converted_models`). None: nothing is kept.
        rank: if each shard is a process, the number of this one. The worker sets it.
        meeting: the file by which these processes find each other. The worker sets it.
    """

    model: str
    task: str
    config: Config
    checkpoint: Path
    precision: str
    batch_size: int
    device: str
    backend: str | None
    execution: str
    options: Mapping[str, Any] = field(default_factory=dict)
    switches: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    converted: Path | None = None
    rank: int = 0
    meeting: Path | None = None

    @property
    def dtype(self) -> str:
        """The dtype of the parameters: that of the precision. TF32 stores float32."""
        return "float32" if self.precision == "tf32" else self.precision

    @property
    def in_flight(self) -> int:
        """Batches that Offline keeps submitted: the option `in_flight`, else 1, so that all SUTs
        are measured in the same way.
        """
        return int(self.options.get("in_flight", 1))
