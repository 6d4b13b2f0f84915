"""Cell: what is measured. SweepMark: which measurement of a sweep it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from formats.fields import NONE, choices, least

MODES = ("quick", "valid", "submission")
SIZES = ("tiny", "base", "full")
TASKS = ("predict", "generate")
PRECISIONS = ("float32", "tf32", "bfloat16")
END_TOKENS = ("stop", "ignore")
LORA = ("own", "matched")
STANDARD_INPUTS = ("synthetic", "uneven")


def about(text: str, constraint: Mapping[str, Any] = NONE, **roles: Any) -> Mapping[str, Any]:
    """The metadata of a field of `Cell`.

    Args:
        text: what the field holds, for readers of a table of results.
        constraint: of `formats.fields`.
        roles: what else the field is. Each role is asked for by `fields_with`: not_work: it does
            not say what was computed, but by what. late: cells of older releases lack it, so their
            digests leave it out if it is empty. inputs: it is known only once inputs and weights
            are. sweeps: a sweep takes several values of it; of the lowest number the value changes
            least often. words: how a sentence names its value, as a template of fields; a value
            that is the default is not named. axis: a report shows how the speed depends on it; in
            words. shared: a report says it once, if all cells have it in common. sorts: its place
            among the keys by which a table is sorted.
    """
    return {"text": text, **constraint, **roles}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that may change the figure. Two runs of equal cells may be compared.

    The metadata of a field says all that other modules need to know of it, so that a new field is
    added here only.

    Attributes:
        seq_len: tokens every input is padded to (predict); None for a model that generates, whose
            lengths are those of its prompts.
        dataset: `synthetic` (random inputs, all of full length), `uneven` (random inputs of seeded
            lengths), or for a user's inputs the first 12 hex digits of their sha256.
        weights: the first 12 hex digits of the checkpoint's digest.
        options: the SUT's own options.
        eos: for a model that generates: `stop` ends an answer at its end token, `ignore` gives each
            answer all tokens it asks for.
        lora: for a training that adapts a model by LoRA: `own` trains what the framework's LoRA
            has, `matched` the same parameters in every SUT.
        steps: how many steps of denoising make one image; None for a model that makes none.
        prompt_tokens, new_tokens: of each synthetic prompt and of its answer; None if they are the
            size's own, or the data set's.
        variables: environment variables that may change the figure, which the user has set; most
            cells have none.
    """

    sut: str = field(metadata=about("framework, backend and execution", not_work=True, sweeps=10))
    model: str = field(metadata=about("", sweeps=1, sorts=1))
    size: str = field(metadata=about("", sweeps=3, sorts=2))
    task: str = field(
        metadata=about("predict, generate or fit", choices((*TASKS, "fit")), sweeps=2, sorts=3)
    )
    scenario: str = field(metadata=about("Offline, SingleStream or Fit", sweeps=4, sorts=4))
    precision: str = field(
        metadata=about("", choices(PRECISIONS), sweeps=9, shared=True, sorts=5, words="{precision}")
    )
    batch_size: int = field(
        metadata=about(
            "samples", least(1), sweeps=5, axis="batch", sorts=6, words="batch {batch_size}"
        )
    )
    device: str = field(metadata=about("cpu or cuda", shared=True, words="{device}"))
    seq_len: int | None = field(
        default=None,
        metadata=about(
            "tokens every input is padded to; None of a model that generates",
            least(1),
            inputs=True,
            sweeps=6,
            axis="tokens an input",
            sorts=7,
            words="{seq_len} tokens",
        ),
    )
    prompt_tokens: int | None = field(
        default=None,
        metadata=about(
            "of each synthetic prompt, where it is not the size's own; None of a model that"
            " predicts",
            least(1),
            late=True,
            sweeps=7,
            axis="tokens a prompt",
            sorts=8,
            words="{prompt_tokens} + {new_tokens} tokens",
        ),
    )
    new_tokens: int | None = field(
        default=None,
        metadata=about(
            "of each answer, beside prompt_tokens",
            least(1),
            late=True,
            sweeps=8,
            axis="tokens an answer",
            sorts=9,
        ),
    )
    steps: int | None = field(
        default=None,
        metadata=about(
            "how many steps of denoising make one image; None of a model that makes none",
            least(1),
            late=True,
            words="{steps} steps",
        ),
    )
    lora: str | None = field(
        default=None,
        metadata=about(
            "of a training by LoRA: own (what the framework's LoRA adapts) or matched (the same"
            " parameters everywhere)",
            choices(LORA),
            late=True,
            words="LoRA {lora}",
        ),
    )
    dataset: str = field(
        default="synthetic",
        metadata=about(
            "synthetic, uneven, or the first hex digits of the inputs' sha256",
            inputs=True,
            words="inputs {dataset}",
        ),
    )
    weights: str = field(
        default="seeded",
        metadata=about("the first hex digits of the checkpoint's digest", inputs=True),
    )
    options: Mapping[str, Any] = field(
        default_factory=dict, metadata=about("the SUT's own options", not_work=True)
    )
    eos: str | None = field(
        default=None,
        metadata=about(
            "what ends an answer of a model that generates: stop or ignore", choices(END_TOKENS)
        ),
    )
    variables: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            "environment variables that may change the figure, which the user has set",
            late=True,
            shared=True,
        ),
    )

    @property
    def digest(self) -> str:
        """The first 8 hex digits of the sha256 of all its values: it names the run directory."""
        values = asdict(self)
        for name in fields_with("late"):
            if not values[name]:
                del values[name]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """`mistral-full-generate/Offline/keras3-jax-bfloat16-b32-3f2a91c0`: model first, so that a
        listing puts rivals together.
        """
        return f"{self.stem}{self.digest}"

    @property
    def stem(self) -> str:
        """Its name before the digest, which is known once weights and inputs are."""
        work = f"{self.model}-{self.size}-{self.task}"
        return f"{work}/{self.scenario}/{self.sut}-{self.precision}-b{self.batch_size}-"


def fields_with(role: str) -> dict[str, Any]:
    """Name of each field of `Cell` that has a role (see `about`) → the value of that role, in the
    order of the fields.
    """
    return {each.name: each.metadata[role] for each in fields(Cell) if role in each.metadata}


def ordered_by(role: str) -> tuple[str, ...]:
    """The fields of `Cell` with a role that is a number, the lowest number first."""
    numbers = fields_with(role)
    return tuple(sorted(numbers, key=lambda name: numbers[name]))


WORK = {
    name: text for name, text in fields_with("text").items() if name not in fields_with("not_work")
}
"""Name of each field that says what was computed → what it holds. SUTs whose values are equal may
be compared.
"""


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """Which measurement of a sweep an attempt is. An attempt without one was measured by itself.

    Attributes:
        id: the sweep's folder below `sweeps/`.
        series: the place of the cell in sweep.json, from 0.
        repeat: from 1.
        twin: whether it is the first cell once more, which shows how much two series of one cell
            differ.
    """

    id: str
    series: int
    repeat: int
    twin: bool = False
