"""`Cell` says what is measured. `SweepMark` says which measurement of a sweep it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from string import Formatter
from typing import Any

from formats.workload import Variables, Workload

MODES = ("quick", "valid", "submission")
SIZES = ("tiny", "mid", "full")
TASKS = ("predict", "generate")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
INT8, INT8_WEIGHTS = "int8", "int8-weights"
INT4, INT4_WEIGHTS = "int4", "int4-weights"
ONLY_WEIGHTS = (INT8_WEIGHTS, INT4_WEIGHTS)
QUANTIZED = {INT8: INT8, INT8_WEIGHTS: INT8, INT4: INT4, INT4_WEIGHTS: INT4}
"""The kinds of quantised weights, which are `--sut-option quantize=` → the dtype of the weights.
With `int8` and `int4` the products of the weights are of 8 bits; with ONLY_WEIGHTS their other
operands keep the precision.
"""
SHARDS = "shards"
"""The `--sut-option` with the number of devices on which the weights of a model are split."""
UNKNOWN = "unknown"
"""The precision of an engine that the harness cannot look into."""
END_TOKENS = ("stop", "ignore")
LORA = ("own", "matched")
STANDARD_INPUTS = ("synthetic", "uneven")
LENGTH_BUCKETS = "length-buckets"
"""The only switch of `--tuned` that sets `Job.length_buckets`."""


def about(text: str, **roles: Any) -> Mapping[str, Any]:
    """The metadata of a field of `Cell`.

    Args:
        text: the meaning of the field, for readers of a table of results.
        roles: the other properties of the field, which `fields_with` looks up. `enum`, `minimum`,
            `pattern`: see `formats.fields`. `not_work`: the field does not say what was computed,
            but by what. `inputs`: it is known only when inputs and weights are known. `sweeps`: a
            sweep takes several values of it; the field with the lowest number changes least often.
            `words`: a template that names its value in a sentence; a default value is not named.
            `axis`: a report shows how the speed depends on it; the role is its name in words.
            `shared`: a report names it once if all cells share its value. `sorts`: its place among
            the keys by which a table is sorted.
    """
    return {"text": text, **roles}


def _optional(text: str, default: Any = None, **roles: Any) -> Any:
    """A field of `Cell` with a default. See `about`."""
    return field(default=default, metadata=about(text, **roles))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that may change the figure. Two runs of equal cells may be compared.

    The metadata of a field says what sweeps, reports, estimates and the audit need to know about
    it. CONTRIBUTING.md lists the other places that a new field needs.

    Attributes:
        seq_len: tokens that every input is padded to (predict); None for a model that generates,
            because its lengths are those of its prompts.
        quantized: how the weights were quantised, of QUANTIZED; None: they have the precision.
        dataset: `synthetic` (random inputs of full length), `uneven` (random inputs of seeded
            lengths), or the first 12 hex digits of the sha256 of a user's inputs.
        weights: the first 12 hex digits of the checkpoint's digest.
        custom: the first 12 hex digits of the sha256 of --custom; None: the model has no code of
            its own.
        options: the SUT's own options.
        eos: for a model that generates: `stop` ends an answer at its end token, `ignore` always
            generates all requested tokens.
        lora: for a training by LoRA: `own`, which trains the parameters of the framework's own
            LoRA. Earlier releases also had `matched`, the same parameters in every SUT.
        steps: denoising steps of one image; None for a model that creates none.
        prompt_tokens, new_tokens: the tokens of each synthetic prompt and of its answer; None if
            the size or the data set gives them.
        stream: whether the SUT handed over each token at once, so that token latencies were
            measured.
        max_wait_ms: Server: how long a request waits for others before a smaller batch is formed;
            None: it does not. The largest batch is `batch_size`.
        max_latency_ms, max_ttft_ms, max_tpot_ms: Server: the limits that the requests had to meet:
            of whole answers, or of the first token and of each later token.
        rate: Server: requests a second as given; None: the highest rate within the limits was
            found.
        variables: environment variables that may change the figure, which the user has set; most
            cells have none.
        tuned: whether `--tuned` applied switches of `sut/tuning.toml`.
        switches: their names, sorted.
        packages: packages of the SUT's environment that are not as its lock has them (`--with`):
            `jax==0.10.1`, or with the first 12 hex digits of the sha256 of a build of the user's
            own, `jax==0.10.1@3f2a91c04d5e`. Sorted.
        requested_batch: the batch size that was requested, if a switch changed it to `batch_size`;
            None: no switch did.
        chat: the first 12 hex digits of the digest of the chat template and its variables; None: no
            template was applied to the prompts.
        replicas: `4`: the SUT ran as four replicas, each at a place of its own. `1/4`: it ran once,
            at the first of four places. None: it had the whole machine.
        threads: those of the SUT, or of each replica, which was pinned to as many cores. None: all
            processors of the affinity mask, at most the quota of the control groups, rounded up.
    """

    sut: str = field(metadata=about("framework, backend and execution", not_work=True, sweeps=10))
    model: str = field(metadata=about("", sweeps=1, sorts=1))
    size: str = field(metadata=about("", sweeps=3, sorts=2))
    task: str = field(
        metadata=about("predict, generate or fit", enum=(*TASKS, "fit"), sweeps=2, sorts=3)
    )
    scenario: str = field(metadata=about("Offline, SingleStream or Fit", sweeps=4, sorts=4))
    precision: str = field(
        metadata=about(
            "", enum=(*PRECISIONS, UNKNOWN), sweeps=9, shared=True, sorts=5, words="{precision}"
        )
    )
    batch_size: int = field(
        metadata=about(
            "samples", minimum=1, sweeps=5, axis="batch", sorts=6, words="batch {batch_size}"
        )
    )
    device: str = field(metadata=about("cpu or cuda", shared=True, words="{device}"))
    seq_len: int | None = _optional(
        "tokens every input is padded to; None of a model that generates",
        minimum=1,
        inputs=True,
        sweeps=6,
        axis="tokens an input",
        sorts=7,
        words="{seq_len} tokens",
    )
    prompt_tokens: int | None = _optional(
        "of each synthetic prompt, if it is not the size's own; None for a model that predicts",
        minimum=1,
        sweeps=7,
        axis="tokens a prompt",
        sorts=8,
        words="{prompt_tokens} + {new_tokens} tokens",
    )
    new_tokens: int | None = _optional(
        "of each answer; see prompt_tokens",
        minimum=1,
        sweeps=8,
        axis="tokens an answer",
        sorts=9,
    )
    steps: int | None = _optional(
        "how many steps of denoising make one image; None of a model that makes none",
        minimum=1,
        words="{steps} steps",
    )
    lora: str | None = _optional(
        "of a training by LoRA: own (what the framework's LoRA adapts) or matched (the same"
        " parameters everywhere)",
        enum=LORA,
        words="LoRA {lora}",
    )
    quantized: str | None = _optional(
        "how the weights were quantised: int8, int8-weights, int4 or int4-weights; None: not",
        enum=tuple(QUANTIZED),
        words="{quantized}",
    )
    dataset: str = _optional(
        "synthetic, uneven, or the first hex digits of the inputs' sha256",
        default="synthetic",
        inputs=True,
        words="inputs {dataset}",
    )
    chat: str | None = _optional(
        "the first hex digits of the digest of the chat template and its variables",
        words="chat template {chat}",
    )
    weights: str = _optional(
        "the first hex digits of the checkpoint's digest", default="seeded", inputs=True
    )
    custom: str | None = _optional(
        "the first hex digits of the sha256 of the code of a model's custom layers",
    )
    options: Mapping[str, Any] = field(
        default_factory=dict, metadata=about("the SUT's own options", not_work=True)
    )
    eos: str | None = _optional(
        "what ends an answer of a model that generates: stop or ignore", enum=END_TOKENS
    )
    stream: bool = _optional(
        "whether each token was handed over at once", default=False, not_work=True, sweeps=12
    )
    max_wait_ms: float | None = _optional(
        "how long a request waits for others of its batch",
        minimum=0,
        words="waits up to {max_wait_ms:g} ms",
    )
    max_latency_ms: float | None = _optional(
        "the limit of a request's latency",
        minimum=0,
        words="limit {max_latency_ms:g} ms",
    )
    max_ttft_ms: float | None = _optional(
        "the limit of the time to the first token",
        minimum=0,
        words="limit {max_ttft_ms:g} ms to the first token",
    )
    max_tpot_ms: float | None = _optional(
        "the limit of the time per output token after the first",
        minimum=0,
        words="limit {max_tpot_ms:g} ms a later token",
    )
    rate: float | None = _optional(
        "requests a second, if they were given and not found",
        minimum=0,
        sweeps=11,
        axis="requests a second",
        sorts=10,
        words="{rate:g} requests/s",
    )
    variables: Variables = field(
        default_factory=dict,
        metadata=about(
            "environment variables that may change the figure, which the user has set",
            shared=True,
        ),
    )
    tuned: bool = _optional(
        "whether switches of the SUT were applied that are not its defaults",
        default=False,
        sweeps=13,
        sorts=11,
        words="tuned",
    )
    switches: tuple[str, ...] = _optional("names of these switches", default=(), not_work=True)
    replicas: str | None = _optional(
        "4: four replicas, each on its own device or cores; 1/4: one of them by itself",
        pattern=r"^([2-9]|[1-9][0-9]+|1/([2-9]|[1-9][0-9]+))$",
        sweeps=14,
        sorts=12,
        words="replicas {replicas}",
    )
    cluster: str | None = _optional(
        "slurm or ray: this cluster ran the replicas; None: they ran on one machine",
        enum=("slurm", "ray"),
        sorts=13,
        words="on {cluster}",
    )
    threads: int | None = _optional(
        "of the SUT, or of each replica, as requested; None: as many as it may use",
        minimum=1,
        sweeps=15,
        axis="threads",
        sorts=14,
        words="threads {threads}",
    )
    packages: tuple[str, ...] = _optional(
        "packages of the SUT's environment in other versions than its lock has",
        default=(),
        not_work=True,
        sweeps=16,
    )
    requested_batch: int | None = _optional(
        "the batch size that was requested, if a switch changed it",
        minimum=1,
        not_work=True,
    )

    @property
    def replica_count(self) -> int:
        """The replicas that run at the same time. 1: there are none, or it is one by itself."""
        replicas = self.replicas
        if replicas is None or "/" in replicas:
            return 1
        return int(replicas)

    @property
    def shard_count(self) -> int:
        """The devices on which the weights of a model are split. 1: they are not split."""
        count = self.options.get(SHARDS)
        return count if type(count) is int and count > 1 else 1

    @property
    def device_count(self) -> int:
        """The devices of all replicas: as many as shards for each."""
        return self.replica_count * self.shard_count

    @property
    def computed_precision(self) -> str:
        """The precision that the evidence must show: `float32`, or `float32 with int8`."""
        return f"{self.precision} with {self.quantized}" if self.quantized else self.precision

    @property
    def judged_precision(self) -> str:
        """The precision whose limits the answers have to meet. Quantised weights have no precision
        of their own: the answers may be as far from float32 as those of bfloat16.
        """
        return "bfloat16" if self.quantized else self.precision

    @property
    def of_work(self) -> Cell:
        """The cell with the batch size that was requested, by which it is compared with others."""
        if self.requested_batch is None:
            return self
        return replace(self, batch_size=self.requested_batch, requested_batch=None)

    @cached_property
    def digest(self) -> str:
        """The first 8 hex digits of the sha256 of all values. They are a part of the run
        directory's name.
        """
        values = {name: getattr(self, name) for name in _NAMES}
        if not self.packages:  # so that runs of earlier releases keep their names
            del values["packages"]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """`mistral-full-generate/Offline/keras3-jax-bfloat16-b32-3f2a91c0`. The model comes first,
        so that a listing puts comparable cells together.
        """
        return f"{self.stem}{self.digest}"

    @property
    def stem(self) -> str:
        """The name before the digest. The digest is known only when weights and inputs are
        known.
        """
        work = f"{self.model}-{self.size}-{self.task}"
        sut = "-".join([self.sut, *(text.replace("==", "-") for text in self.packages)])
        return f"{work}/{self.scenario}/{sut}-{self.precision}-b{self.batch_size}-"


_NAMES = tuple(each.name for each in fields(Cell))


def fields_with(role: str) -> dict[str, Any]:
    """Name of each field of `Cell` that has a role (see `about`) → the value of that role, in the
    order of the fields.
    """
    return {each.name: each.metadata[role] for each in fields(Cell) if role in each.metadata}


def ordered_by(role: str) -> tuple[str, ...]:
    """The fields of `Cell` that have a role, sorted by its number, the lowest first."""
    numbers = fields_with(role)
    return tuple(sorted(numbers, key=lambda name: numbers[name]))


WORK = {
    name: text for name, text in fields_with("text").items() if name not in fields_with("not_work")
}
"""Name of each field that says what was computed → its meaning. SUTs with equal values of these
fields may be compared.
"""

IN_WORKLOAD = tuple(each.name for each in fields(Workload) if each.name in fields_with("text"))
"""The fields of `Cell` that the SUT's `Workload` has, too."""


def cell_words(cell: Cell, without: Collection[str] = ()) -> list[str]:
    """The fields of a cell with the role `words`, in words. A default value is not named.

    `without`: fields that are not named.
    """
    if cell.task == "fit":
        without = (*without, "steps")
    defaults = {each.name: each.default for each in fields(Cell)}
    texts = {name: "…" if name in without else getattr(cell, name) for name in defaults}
    if cell.precision == UNKNOWN:
        texts["precision"] = f"precision {UNKNOWN}"
    named = []
    for name, template in fields_with("words").items():
        needed = {field for _, field, _, _ in Formatter().parse(template) if field} or {name}
        if not needed <= set(without) and getattr(cell, name) != defaults[name]:
            named.append(template.format(**texts))
    return named


def title_words(cell: Cell, facts: str = "", without: Collection[str] = ()) -> list[str]:
    """A cell in words, without its SUT: the model, the task, the scenario, and `cell_words`.

    `facts`: of the model, such as its parameters.
    """
    model = f"{cell.model} {cell.size}"
    model = f"{model} ({facts})" if facts else model
    return [model, cell.task, cell.scenario, *cell_words(cell, without)]


def sut_words(cell: Cell) -> str:
    """The SUT of a cell with its packages, options and switches."""
    parts = [cell.sut, *cell.packages]
    if cell.stream:
        parts.append("streamed")
    parts += [f"{name}={value}" for name, value in sorted(cell.options.items())]
    if cell.switches:
        parts.append(f"tuned={'+'.join(cell.switches)}")
    return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """The place of an attempt in a sweep. An attempt without a mark was not measured by a sweep.

    Attributes:
        id: the sweep's folder below `sweeps/`.
        series: the place of the cell in sweep.json, from 0.
        repeat: from 1.
        control: whether it is the control run: the first cell measured again, which shows how much
            two series of one cell differ.
    """

    id: str
    series: int
    repeat: int
    control: bool = False
