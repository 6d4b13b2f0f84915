"""Cell: what is measured. SweepMark: which measurement of a sweep it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MODES = ("quick", "valid", "submission")
SIZES = ("tiny", "base", "full")
TASKS = ("predict", "generate")
PRECISIONS = ("float32", "tf32", "bfloat16")
END_TOKENS = ("stop", "ignore")
LORA = ("own", "matched")
STANDARD_INPUTS = ("synthetic", "uneven")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that may change the figure. Two runs of equal cells may be compared.

    Attributes:
        seq_len: tokens every input is padded to (predict); None of a model that generates, whose lengths are those of its prompts.
        dataset: `synthetic` (random inputs, all of full length), `uneven` (random inputs of seeded lengths), or of a user's inputs the
            first 12 hex digits of their sha256.
        weights: the first 12 hex digits of the checkpoint's digest.
        options: the SUT's own options.
        eos: of a model that generates: `stop` ends an answer at its end token, `ignore` gives each answer all tokens it asks for.
        variables: environment variables that may change the figure, which the user has set; most cells have none.
        lora: of a training that adapts a model by LoRA: `own` trains what the framework's LoRA has, `matched` the same parameters in every
            SUT.
        steps: how many steps of denoising make one image; None of a model that makes none.
        prompt_tokens, new_tokens: of each synthetic prompt and of its answer; None where they are the size's own, or those of the dataset.
    """

    sut: str
    model: str
    size: str
    task: str
    scenario: str
    precision: str
    batch_size: int
    device: str
    seq_len: int | None = None
    dataset: str = "synthetic"
    weights: str = "seeded"
    options: Mapping[str, Any] = field(default_factory=dict)
    eos: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    lora: str | None = None
    steps: int | None = None
    prompt_tokens: int | None = None
    new_tokens: int | None = None

    @property
    def digest(self) -> str:
        """The first 8 hex digits of the sha256 of all its values: it names the run directory."""
        values = asdict(self)
        for name in ("variables", "lora", "steps", "prompt_tokens", "new_tokens"):  # cells of older releases have no such values
            if not values[name]:
                del values[name]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """`mistral-full-generate/Offline/keras3-jax-bfloat16-b32-3f2a91c0`: model first, so that a listing puts rivals together."""
        return f"{self.stem}{self.digest}"

    @property
    def stem(self) -> str:
        """Its name before the digest, which is known once weights and inputs are."""
        return f"{self.model}-{self.size}-{self.task}/{self.scenario}/{self.sut}-{self.precision}-b{self.batch_size}-"


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """Which measurement of a sweep an attempt is. An attempt without one was measured by itself.

    Attributes:
        id: the sweep's folder below `sweeps/`.
        series: the place of the cell in sweep.json, from 0.
        repeat: from 1.
        twin: whether it is the first cell once more, which shows how much two series of one cell differ.
    """

    id: str
    series: int
    repeat: int
    twin: bool = False
