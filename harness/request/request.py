"""The request for one cell, with every default filled in, and values derived from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compliance import rules
from formats.cell import LORA, Cell, cell_words, sut_words
from formats.job import Launch, Limits, Place, Serving
from harness.execution.pins import Pin
from harness.inputs import architectures, user_weights
from harness.inputs.architectures import Architecture
from harness.inputs.dataset import UserInputs
from harness.inputs.models import ITEM_BYTES, Model, Size
from harness.inputs.used_files import Stamp
from harness.request.official import OfficialRun
from harness.request.options import Options
from harness.request.tuning import Tuned
from scenarios.table import UNTIMED_STEPS
from sut import adapters, registry
from sut.registry import QUANTIZE, SUTS, SutSpec

if TYPE_CHECKING:  # it imports Jinja, which few runs need
    from harness.inputs.chat import Template

_QUICK_SAMPLES = 64
STEPS = {"quick": 20, "valid": 100}
"""Timed steps of a training in each mode. The published benchmarks time 100."""
# A quick test is planned to last --duration. LoadGen's least duration is a quarter of that, because
# a SUT may be four times as fast as it was while calibrating on a busy machine. A test may last ten
# times --duration if a figure needs that (three batches, a pass over uneven prompts).
_LEAST_SHARE = 0.25
LONGEST_TIMES = 10
_TRAINED_BYTES = 12  # for each parameter: its gradient and AdamW's two moments


@dataclass(frozen=True)
class _Pace:
    """How a mode measures. `rate_margin`: a factor on the calibrated rate. Ten minutes must not end
    INVALID only because the machine was busier while calibrating than while measuring. A quick test
    may.
    """

    calibration_s: float
    rate_margin: float
    trace_bytes: int


_OFFICIAL = _Pace(20.0, 1.15, 256 << 20)
_PACE = {"quick": _Pace(1.5, 1.0, 32 << 20), "valid": _OFFICIAL, "submission": _OFFICIAL}


@dataclass(frozen=True, kw_only=True)
class Request:
    """One requested cell, before the digests of its weights and inputs are known.

    Attributes:
        requested_batch: see `Cell.requested_batch`.
        rival_sample_ns: see `Limits`.
        allowed_s: the seconds that a quick test may always take (`Limits.allowed_ms`).
        given: the user's prompts, which are read to find faults in them. None: there are none, or
            `--dataset` holds pictures or arrays, which are read later.
        count: the number of the user's inputs. None without --dataset, and in a training.
        used: the stamps of the user's files before they were read.
        official_run: the official benchmark of `--benchmark`; None without the flag.
        system: fields of the system description that the user has given.
        reasons: notes for a reader on defaults, flags and the user's files.
    """

    options: Options
    model: Model
    size: Size
    precision: str
    batch_size: int
    device: str
    duration: float
    rival_sample_ns: float = 0.0
    allowed_s: float = 0.0
    rules: rules.Rules
    sut_options: Mapping[str, Any]
    pins: tuple[Pin, ...] = ()
    end_tokens: tuple[int, ...] = ()
    weights: user_weights.Folder | None = None
    used: Mapping[Path, Stamp] = field(default_factory=dict)
    chat: Template | None = None
    serving: Serving | None = None
    stream: bool = False
    given: UserInputs | None = None
    count: int | None = None
    tuned: Tuned = Tuned()
    requested_batch: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    launch: Launch | None = None
    official_run: OfficialRun | None = None
    system: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @property
    def spec(self) -> SutSpec:
        """The SUT's entry in the registry."""
        return SUTS[self.options.sut]

    @property
    def references(self) -> tuple[str, ...]:
        """The names of the references with whose answers the SUT's are compared."""
        return self.spec.references.get(self.model.architecture, (self.spec.reference,))

    @property
    def architecture(self) -> Architecture:
        """The architecture of the model, which decides its inputs."""
        return architectures.of(self.model, self.trains)

    @property
    def linked(self) -> Mapping[Path, Stamp]:
        """The stamps of the files that workers read from the user's folder."""
        if self.weights is None or self.weights.names:
            return {}
        own = self.weights.own_files
        return {file: stamp for file, stamp in self.used.items() if file in own}

    @property
    def trains(self) -> bool:
        """True if training steps are timed, without LoadGen."""
        return self.options.trains

    @property
    def task(self) -> str:
        """The task of the SUT: `fit`, or a task of the model."""
        return registry.FIT if self.trains else self.model.task

    @property
    def benchmark(self) -> str:
        """The name of the benchmark, which names its folders."""
        if self.official_run:
            return self.official_run.name
        return "-".join(filter(None, (self.model.name, self.size.name, self.model.second_task)))

    @property
    def loadgen_name(self) -> str:
        """The name by which LoadGen looks up its configuration. It has its own settings only for
        the names of official benchmarks.
        """
        own = self.official_run.row.loadgen_name if self.official_run else ""
        return own or self.benchmark

    @property
    def official(self) -> str:
        """The official benchmark that is run, or to which the model is mapped in this round."""
        if self.official_run:
            return self.official_run.name
        return self.model.benchmark[self.rules.round]

    @property
    def label(self) -> str:
        """The cell in a few words."""
        without = ["device"]
        if self.inputs == self.architecture.standard:
            without.append("dataset")
        cell = self.cell()
        model = f"{cell.model} {cell.size}"
        words = [sut_words(cell), model, self.model.second_task, cell.scenario]
        return " ".join(filter(None, [*words, *cell_words(cell, without)]))

    @property
    def tokens(self) -> tuple[int, int] | None:
        """Tokens of each synthetic prompt and of its answer. None if they are the size's defaults,
        or if the user's prompts decide.
        """
        default = self.weights.size if self.weights else self.model.sizes[self.size.name]
        inputs = self.size.inputs
        lengths = ("prompt_length", "new_tokens")
        is_default = all(inputs.get(name) == default.inputs.get(name) for name in lengths)
        if self.options.dataset or is_default:
            return None
        return int(inputs["prompt_length"]), int(inputs["new_tokens"])

    @property
    def inputs(self) -> str:
        """The standard inputs if the user gives none: `synthetic` or `uneven`."""
        return self.options.standard or self.architecture.standard

    def cell(
        self, dataset: str | None = None, weights: str = "seeded", seq_len: int | None = None
    ) -> Cell:
        """The cell. If the digests of inputs and weights are not given, its name is right except
        for the digest.

        `dataset`: the beginning of the digest of a user's inputs; None: standard inputs.
        """
        return Cell(
            sut=self.options.sut,
            model=self.model.name,
            size=self.size.name,
            task=self.task,
            scenario=self.options.scenario,
            precision=self.precision,
            batch_size=self.batch_size,
            device=self.device,
            seq_len=seq_len or self.options.seq_len,
            dataset=dataset or self.inputs,
            weights=weights,
            options=dict(self.sut_options),
            eos=self.eos,
            variables=self.variables,
            lora=self.lora,
            quantized=self.sut_options.get(QUANTIZE),
            steps=self.size.config.get("denoising_steps"),
            prompt_tokens=self.tokens and self.tokens[0],
            new_tokens=self.tokens and self.tokens[1],
            chat=self.chat.digest[:12] if self.chat else None,
            custom=self.model.file.code_digest if self.model.file else None,
            stream=self.stream,
            tuned=bool(self.tuned.switches),
            switches=self.tuned.names,
            replicas=self.options.replicas,
            threads=self.options.thread_count,
            cluster=self.cluster,
            requested_batch=self.requested_batch,
            packages=tuple(pin.text for pin in self.pins),
            **self._limits(),
        )

    @property
    def cluster(self) -> str | None:
        """See `Cell.cluster`."""
        on = self.options.replicas_on
        return on and on.partition(":")[0]

    def _limits(self) -> dict[str, float | None]:
        """How requests are batched and judged, by the names of `Cell`. Empty if none arrive."""
        if self.serving is None:
            return {}
        values = asdict(self.serving)
        del values["percentile"]  # it follows from the mode
        values["max_wait_ms"] = values["max_wait_ms"] or None
        return values

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The sizes of the scenario's batches, ascending. Server has all powers of two below the
        largest batch, so that no size is compiled while requests wait.
        """
        batch_size = self.batch_size
        if self.serving is None:
            return (batch_size,)
        smaller = [1 << power for power in range((batch_size - 1).bit_length())]
        return (*smaller, batch_size)

    @property
    def eos(self) -> str | None:
        """See `Cell.eos`."""
        if not self.architecture.generates_tokens:
            return None
        return "stop" if self.end_tokens else "ignore"

    @property
    def lora(self) -> str | None:
        """See `Cell.lora`."""
        return LORA[0] if self.trains and "lora" in self.model.fit else None

    @property
    def lora_config(self) -> dict[str, Any]:
        """`rank`, `alpha` and `factors` (`sut.adapters`). Empty if no LoRA is trained."""
        if self.lora is None:
            return {}
        return {**self.model.fit["lora"], "factors": self.spec.lora}

    @property
    def optimizer(self) -> dict[str, float]:
        """The constants of a training's optimizer. Empty if nothing is trained."""
        return dict(self.model.fit["optimizer"]) if self.trains else {}

    @property
    def adamw(self) -> str:
        """See `sut.registry.adamw_of`."""
        return registry.adamw_of(self.options.sut)

    def state_bytes(self, precision: str) -> int:
        """Bytes of the weights at a precision. A training adds the gradients and both moments of
        the parameters that it changes, in float32.
        """
        return self.size.weight_bytes(precision) + _TRAINED_BYTES * (self.trained_parameters or 0)

    def batch_bytes(self, precision: str) -> int:
        """A lower bound of the bytes of one batch: the widest activation of a transformer, and the
        keys and values of a model that generates. 0: not known.
        """
        config = self.size.config
        inputs = self.size.inputs
        if self.options.dataset and self.options.seq_len is None:
            return 0  # the prompts may be short
        length = inputs.get("sequence_length", inputs.get("prompt_length", 0))
        values = length * config.get("intermediate_size", 0)
        if "new_tokens" in inputs and not self.trains and "num_attention_heads" in config:
            heads = config["num_attention_heads"]
            width = config.get("head_dim") or config.get("hidden_size", 0) // heads
            heads = config.get("num_key_value_heads", heads)
            tokens = length + inputs["new_tokens"]
            layers = config.get("num_hidden_layers", 0)
            values += 2 * layers * heads * width * tokens
        return self.batch_size * values * ITEM_BYTES[precision]

    @property
    def trained_parameters(self) -> int | None:
        """The number of parameters that a training changes. None if nothing is trained."""
        if self.lora_config:
            return adapters.parameters(self.size.config, self.lora_config)
        if not self.trains:
            return None
        starts = tuple(self.model.fit.get("trained", [""]))
        return sum(math.prod(t.shape) for t in self.size.tensors if t.name.startswith(starts))

    @property
    def samples(self) -> int:
        """The number of distinct synthetic samples. It is small in mode quick, and smaller for
        models with large samples. In other modes it is the data-set size of the mapped official
        benchmark.

        For a training it is the number of samples in all steps.
        """
        if self.trains:
            return (UNTIMED_STEPS + STEPS[self.options.mode]) * self.batch_size
        if self.options.mode == "quick":
            return int(self.size.inputs.get("quick_samples", _QUICK_SAMPLES))
        return self.rules.benchmarks[self.official].dataset_size

    def loaded(self, count: int) -> int:
        """The number of samples, out of `count`, that LoadGen keeps loaded. It is all of them, or
        as many as the official benchmark requires.
        """
        if self.official_run is None:
            return count
        return min(count, self.official_run.row.performance_sample_count)

    def limits(self, count: int, uneven: bool = False) -> Limits:
        """LoadGen's settings for a QSL of `count` samples. `uneven`: samples cost different
        amounts.
        """
        if self.trains:
            return Limits(min_duration_ms=0, min_query_count=0, performance_sample_count=count)
        pace = _PACE[self.options.mode]
        if self.options.mode == "quick":
            planned_ms = round(self.duration * 1e3)
            return Limits(
                min_duration_ms=max(1, int(_LEAST_SHARE * planned_ms)),
                min_query_count=1,
                performance_sample_count=self.loaded(count),
                equal_issue=uneven,
                calibration_seconds=min(pace.calibration_s, self.duration),
                rate_margin=pace.rate_margin,
                trace_bytes=pace.trace_bytes,
                planned_ms=planned_ms,
                longest_ms=LONGEST_TIMES * planned_ms,
                allowed_ms=int(self.allowed_s * 1e3),
                rival_sample_ns=self.rival_sample_ns,
            )
        scenario = self.rules.scenarios[self.options.scenario]
        return Limits(
            min_duration_ms=scenario.min_duration_ms,
            min_query_count=scenario.min_query_count(count),
            performance_sample_count=self.loaded(count),
            equal_issue=uneven or self.rules.benchmarks[self.official].equal_issue,
            calibration_seconds=pace.calibration_s,
            rate_margin=pace.rate_margin,
            trace_bytes=pace.trace_bytes,
        )
