"""The models: each is a TOML file, read into frozen values. A new model of a known architecture
needs only a new file here.
"""

from __future__ import annotations

import importlib
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from formats.cell import UNKNOWN
from formats.workload import Config
from harness.inputs.models import drawn
from harness.inputs.models.drawn import Parts, Rule, Tensor

_HERE = Path(__file__).parent
_Table = dict[str, Any]
"""A table of a TOML file."""
ITEM_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2, UNKNOWN: 0}
"""Precision → bytes of a parameter. Those of an engine are not in our memory."""


@dataclass(frozen=True)
class Weight:
    """One row of a model's weight table, before its dimensions are known.

    Attributes:
        name: the native library's name. `{layer}` stands for each of num_hidden_layers,
            `{global_layer}` for the layers in the configuration's `global_attn_indexes`, and
            `{window_layer}` for the others. Words separated by commas, `{q,k}`, give one name each.
        shape: each axis is a product of configuration keys and whole numbers
            ("num_attention_heads*head_dim", "3*hidden_size").
        mean, std: of the normal distribution from which it is drawn.
        gain: if not None, std = gain / sqrt(fan-in), which keeps a product's scale at every width.
        residual: std is also divided by sqrt(num_hidden_layers), so that the sum that all layers
            add to the residual keeps its scale at every depth.
        unless: a configuration key; if its value is true, the model has no such tensor.
    """

    name: str
    shape: tuple[str, ...]
    mean: float = 0.0
    std: float = 0.0
    gain: float | None = None
    residual: bool = False
    unless: str | None = None


@dataclass(frozen=True)
class Size:
    """One size of a model.

    Attributes:
        published: the published model with these dimensions, if there is one; else empty.
        summary: its vocabulary and the sizes of its inputs in one line.
        precision: the default, and the precision of the stored file.
        batch_size: scenario → the default; 1 for scenarios that are not named.
        inputs: values for the architecture's module that draws inputs, such as `sequence_length`.
        config: exactly the content of the checkpoint's config.json.
        tensors: the checkpoint, in file order. Empty if they are not known.
        stored_bytes: the most bytes of the weights in float32, if `tensors` is empty.
    """

    name: str
    precision: str
    batch_size: Mapping[str, int]
    config: Config
    tensors: tuple[Tensor, ...]
    inputs: Mapping[str, Any]
    summary: str = ""
    stored_bytes: int = 0
    published: str = ""

    @cached_property
    def parameters(self) -> int:
        """The number of parameters; 0 if it is not known."""
        return sum(math.prod(t.shape) for t in self.tensors)

    @property
    def facts(self) -> str:
        """The model's depth, width and parameters, which a reader needs next to its name:
        `BERT base, 12 layers of 768, 109.5 M parameters`. What is not known is left out.
        """
        parameters = f"{self.parameters / 1e6:,.1f} M parameters" if self.parameters else ""
        return ", ".join(filter(None, (self.published, self.extent, parameters)))

    @property
    def extent(self) -> str:
        """Its layers and their width, or the channels of its UNet. Empty if they are not known."""
        if channels := self.config.get("unet_channels"):
            return f"UNet of {min(channels)} to {max(channels)} channels"
        layers, width = (self.config.get(key) for key in ("num_hidden_layers", "hidden_size"))
        if not isinstance(layers, int):
            return ""
        of_width = f" of {width}" if isinstance(width, int) else ""
        return f"{layers} layer{'s' if layers > 1 else ''}{of_width}"

    def weight_bytes(self, precision: str) -> int:
        """Bytes of the parameters in memory at this precision (tf32 is stored as float32)."""
        count = self.parameters or self.stored_bytes // ITEM_BYTES["float32"]
        return count * ITEM_BYTES[precision]


@dataclass(frozen=True)
class UserWeightsRules:
    """A model's rules for a user's own folder (`--weights`). The tensors of the folder must also
    fit the model's.

    Attributes:
        defaults: Transformers' values for keys that config.json lacks.
        only: key of config.json → the values that every SUT supports.
        renamed: end of a tensor's legacy name → end of its present name; every SUT's library reads
            both.
        always: key of config.json → the value that replaces that of the folder.
        any_head: whether a model with any head, or without one, is accepted. The tensors of its
            head are not read.
        prefixes: beginning of a part's tensor names in some folders → their beginning here.
        prefix: the beginning of the names of the body's tensors in a model that has a head.
        optional: ends of the names of tensors that may be missing, because no answer depends on
            them.
        ignored: ends of the names of tensors without parameters.
        tied: name of a tensor that may be missing → the tensor that it must equal.
        convert: the call or command that converts a pickle's weights to safetensors; {file} is its
            path. Empty: that of Transformers.
        rope: the ways in which config.json may scale rotary positions, by Transformers' names. A
            SUT that lacks one reports it.
        numbers: keys of an unlisted model's config.json whose values must be whole numbers.
        adds: "beginning" and "end" → whether a tokenizer.model of this architecture adds that mark
            if tokenizer_config.json does not say.
    """

    defaults: Config = field(default_factory=dict)
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    always: Config = field(default_factory=dict)
    any_head: bool = False
    prefixes: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    optional: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)
    convert: str = ""
    rope: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    adds: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A user's own file that contains a whole model.

    Attributes:
        digest: its BLAKE3, as 64 hex digits.
        version: the version of the library that saved it.
        code: the Python code of its custom layers; None: it has none.
        code_digest: the first 12 hex digits of the sha256 of `code`.
        notes: notes for a reader of the result.
    """

    path: Path
    digest: str
    version: str
    code: bytes | None
    code_digest: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model, as its TOML describes it for one task.

    Attributes:
        architecture: the architecture, which decides the SUT's file and the module of
            harness.inputs.architectures that makes its inputs.
        task: `predict` or `generate`.
        tasks: all tasks in its file, the default first.
        benchmark: round → the official benchmark to which it is mapped.
        classes: framework → the name of its class there.
        answer_keys: keys of `to_host`, in payload order.
        score: a name in compliance.scoring.accuracy.SCORES.
        tolerance: precision → its named limits.
        logits_rows: rows whose teacher-forced logits are compared (generate).
        weights: the table of its checkpoint's tensors. Empty if the checkpoint is drawn by `rules`
            from the native library's names and shapes.
        parts: the parts of a model with several, each in a folder of its checkpoint; None: one.
        config: the content of every size's config.json.
        also_called: key of config.json → the library's name of that number.
        fit: how it is trained; empty if that is not known. `optimizer`: the constants of AdamW.
            `tolerance`: precision → the loosest limits of its losses. `lora`: `rank` and `alpha`,
            if only LoRA's factors are trained. `trained`: the beginnings of the names of the
            tensors that are trained, if not all are.
        file: the user's own file, from which everything else was read; None: it is a model of a
            TOML.
        distilled_from: the model from which it was distilled; None: none.
        like: for an unlisted model (harness.inputs.unlisted), the listed one whose measured
            disagreements count. Empty: the model is listed.
    """

    name: str
    architecture: str
    task: str
    tasks: tuple[str, ...]
    benchmark: Mapping[str, str]
    classes: Mapping[str, str]
    answer_keys: tuple[str, ...]
    score: str
    tolerance: Mapping[str, Mapping[str, float]]
    logits_rows: int
    sizes: Mapping[str, Size]
    weights: tuple[Weight, ...]
    rules: tuple[Rule, ...]
    parts: Parts | None
    config: Config
    also_called: Mapping[str, str]
    user_weights: UserWeightsRules
    fit: Mapping[str, Any]
    distilled_from: str | None
    like: str = ""
    file: ModelFile | None = None

    @property
    def second_task(self) -> str | None:
        """The task, if it is not the model's default. Else None."""
        return self.task if self.task != self.tasks[0] else None

    @property
    def reads_folders(self) -> bool:
        """Whether a user's folder must have the tensors of this model's table. Without a table the
        folder is that of an unlisted model (harness.inputs.unlisted).
        """
        return bool(self.weights or self.parts)

    @property
    def native_class(self) -> str:
        """The class name in config.json, of the library that published the model: the first of
        `classes`.
        """
        return next(iter(self.classes.values()))

    @property
    def dimensions(self) -> frozenset[str]:
        """The configuration keys in the shapes of the weight table, and `num_hidden_layers`."""
        factors = {"num_hidden_layers"}
        for weight in self.weights:
            for axis in weight.shape:
                factors.update(axis.split("*"))
        return frozenset(factor for factor in factors if not factor.isdigit())

    def tensors(self, config: Config) -> tuple[Tensor, ...]:
        """The checkpoint of a configuration, in file order.

        Tensors are ordered by table row, then by layer. No reader depends on the order, and it lets
        the file be written in one pass.
        """
        if self.parts:
            return drawn.tensors(self.rules, self.parts.shapes(config))
        return _tensors(self.weights, config)


def names() -> list[str]:
    """The names of all models, from their files."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


def load(name: str, task: str | None = None) -> Model:
    """The model as its file describes it for this task. None: its default task.

    Raises KeyError for a name that is not in `names()` and for a task that the model lacks, and
    ValueError if its file contradicts itself.
    """
    if name not in names():
        raise KeyError(name)
    data = _document(name)
    others = data.pop("tasks", {})
    tasks = (data["task"], *others)
    if task is not None and task != data["task"]:
        data = _of_task(data, task, others[task])
    weights = tuple(_weight(row) for row in data.get("weights", ()))
    rules = tuple(Rule(**rule) for rule in data.get("rules", ()))
    if bool(weights) is bool(rules):
        raise ValueError(
            f"{name}.toml: needs either [[weights]], a table of all tensors, or [[rules]], and not"
            " both"
        )
    parts: Parts | None = None
    if "parts" in data:
        parts = importlib.import_module(f"{__name__}.{data['parts']}").PARTS
    sizes = {}
    for key, value in data["size"].items():
        config = {**data["config"], **value.pop("config")}
        config |= {other: config[own] for own, other in data.get("also_called", {}).items()}
        if weights:
            tensors = _tensors(weights, config)
        elif parts:
            tensors = drawn.tensors(rules, parts.shapes(config))
        else:
            layers = config["num_hidden_layers"]
            tensors = drawn.tensors(rules, drawn.shapes(_HERE / f"{name}-{key}.json", layers))
        sizes[key] = Size(name=key, config=config, tensors=tensors, **value)
    answer = data["answer"]
    return Model(
        name=name,
        architecture=data["architecture"],
        task=data["task"],
        tasks=tasks,
        benchmark=data["benchmark"],
        classes=data["classes"],
        answer_keys=tuple(answer["keys"]),
        score=answer["score"],
        tolerance=answer["tolerance"],
        logits_rows=answer.get("logits_rows", 0),
        sizes=sizes,
        weights=weights,
        rules=rules,
        parts=parts,
        config=data["config"],
        also_called=data.get("also_called", {}),
        user_weights=_user_weights(data.get("user", {})),
        fit=data.get("fit", {}),
        distilled_from=data.get("distilled_from"),
    )


def _weight(row: _Table) -> Weight:
    return Weight(**{**row, "shape": tuple(row["shape"])})


def _of_task(data: _Table, task: str, change: _Table) -> _Table:
    """The file's data for another task. Answers, classes and inputs are those of the task, and its
    rows of weights replace rows of the same name.
    """
    rows = {row["name"]: row for row in (*data.get("weights", ()), *change.get("weights", ()))}
    kept = dict(data)
    del kept["answer"], kept["classes"]
    kept["size"] = {key: dict(size) for key, size in data["size"].items()}
    for size in kept["size"].values():
        size.pop("inputs", None)
    return {**_merged(kept, change), "task": task, "weights": list(rows.values())}


def of_type(model_type: Any) -> str | None:
    """The name of the model with this `model_type` in its config.json. None: there is none.

    A model whose name is its type comes before similar ones.
    """
    similar = sorted(names(), key=lambda name: name != model_type)
    return next((n for n in similar if load(n).config["model_type"] == model_type), None)


def in_group(group: str) -> list[str]:
    """The models with this `group` in their file. Empty: the models without a group, which `--model
    all` means.
    """
    return [name for name, own in _groups().items() if own == group]


def groups() -> list[str]:
    """All groups. Each is a benchmark from which models were taken."""
    return sorted(set(_groups().values()) - {""})


@cache
def _groups() -> dict[str, str]:
    """Model → its group."""
    return {name: _document(name).get("group", "") for name in names()}


def _document(name: str) -> _Table:
    """The data of a model's file. A file that is `like` another contains only the differences,
    table by table.
    """
    data = tomllib.loads((_HERE / f"{name}.toml").read_text(encoding="utf-8"))
    like = data.pop("like", None)
    return _merged(_document(like), data) if like else data


def _merged(base: _Table, change: _Table) -> _Table:
    """`base` with the values of `change`. Tables that both have are merged in the same way."""
    merged = {**base, **change}
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merged(base[key], value)
    return merged


def _user_weights(data: _Table) -> UserWeightsRules:
    """The rules of a model's file, with tuples instead of lists."""
    rules = dict(data)
    rules["only"] = {key: tuple(values) for key, values in data.get("only", {}).items()}
    for key in ("optional", "ignored", "rope"):
        rules[key] = tuple(data.get(key, ()))
    return UserWeightsRules(**rules)


def _tensors(weights: Sequence[Weight], config: Config) -> tuple[Tensor, ...]:
    """The tensors of a weight table, row by row."""
    tensors: list[Tensor] = []
    for weight in weights:
        if weight.unless and config.get(weight.unless):
            continue
        tensors += [_tensor(weight, name, config) for name in _expanded(weight.name, config)]
    return tuple(tensors)


def _expanded(name: str, config: Config) -> list[str]:
    """All names that a row of the table stands for. With several braces the last one changes
    fastest.
    """
    before, brace, rest = name.partition("{")
    if not brace:
        return [name]
    inside, _, after = rest.partition("}")
    names = []
    for word in _words(inside, config):
        names += [f"{before}{word}{end}" for end in _expanded(after, config)]
    return names


def _words(inside: str, config: Config) -> Sequence[int | str]:
    """The words that a pair of braces stands for."""
    layers = range(config["num_hidden_layers"])
    of_image = config.get("global_attn_indexes", ())
    if inside == "layer":
        return layers
    if inside == "global_layer":
        return [n for n in layers if n in of_image]
    if inside == "window_layer":
        return [n for n in layers if n not in of_image]
    return inside.split(",")


def _tensor(weight: Weight, name: str, config: Config) -> Tensor:
    shape = tuple(_length(axis, config) for axis in weight.shape)
    std = weight.std
    if weight.gain is not None:
        std = weight.gain / math.sqrt(drawn.fan_in(shape))
    if weight.residual:
        std /= math.sqrt(config["num_hidden_layers"])
    return Tensor(name=name, shape=shape, mean=weight.mean, std=std)


def _length(axis: str, config: Config) -> int:
    """The length of an axis, which is a product of configuration keys and whole numbers."""
    return math.prod(int(config.get(factor, factor)) for factor in axis.split("*"))
