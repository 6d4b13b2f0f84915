"""The models: each is a TOML file, read into frozen values. A new model of a known architecture
needs only a new file here.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from formats.cell import UNKNOWN
from formats.workload import Config
from harness.inputs.models import drawn
from harness.inputs.models.drawn import Parts, Tensor, Weight

_HERE = Path(__file__).parent
_Table = dict[str, Any]
"""A table of a TOML file."""
_NUMBERS = (
    "vocab_size",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
)
"""Keys of config.json that the harness or a SUT needs as whole numbers, if a model has them."""
ITEM_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2, UNKNOWN: 0}
"""Precision → bytes of a parameter. Those of an engine are not in our memory."""


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
class UserWeights:
    """How a user's own folder (`--weights`) is completed for the classes of a model.

    Attributes:
        defaults: Transformers' values for keys that config.json lacks.
        always: key of config.json → the value that replaces that of the folder.
        convert: the call or command that converts a pickle's weights to safetensors; {file} is its
            path. Empty: that of Transformers.
    """

    defaults: Config = field(default_factory=dict)
    always: Config = field(default_factory=dict)
    convert: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A user's own file that contains a whole model.

    Attributes:
        digest: its BLAKE3, as 64 hex digits.
        version: the version of the library that saved it.
        code: the Python code of its custom layers; None: it has none.
        notes: notes for a reader of the result.
    """

    path: Path
    digest: str
    version: str
    code: bytes | None
    notes: tuple[str, ...]

    @property
    def code_digest(self) -> str | None:
        """The first 12 hex digits of the sha256 of `code`."""
        return None if self.code is None else hashlib.sha256(self.code).hexdigest()[:12]


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
        weights: the table of its seeded checkpoint's tensors.
        parts: the parts of a model with several, each in a folder of its checkpoint; None: one.
        config: the content of every size's config.json.
        also_called: key of config.json → the library's name of that number.
        fit: how it is trained; empty if that is not known. `optimizer`: the constants of AdamW.
            `tolerance`: precision → the loosest limits of its losses. `lora`: `rank` and `alpha`,
            if only LoRA's factors are trained. `trained`: the beginnings of the names of the
            tensors that are trained, if not all are.
        file: the user's own file, from which everything else was read; None: it is a model of a
            TOML.
        user_weights: how a user's folder is completed for `classes`; None: a folder of its type is
            loaded by the general classes of an unlisted model (harness.inputs.unlisted).
        numbers: the keys of a folder's config.json whose values must be whole numbers.
        like: for an unlisted model, the listed one whose measured disagreements count. Empty: the
            model is listed.
    """

    name: str
    architecture: str
    task: str
    tasks: tuple[str, ...]
    benchmark: Mapping[str, str]
    answer_keys: tuple[str, ...]
    score: str
    tolerance: Mapping[str, Mapping[str, float]]
    sizes: Mapping[str, Size]
    fit: Mapping[str, Any]
    classes: Mapping[str, str] = field(default_factory=dict)
    logits_rows: int = 0
    weights: tuple[Weight, ...] = ()
    parts: Parts | None = None
    config: Config = field(default_factory=dict)
    also_called: Mapping[str, str] = field(default_factory=dict)
    user_weights: UserWeights | None = None
    numbers: tuple[str, ...] = ()
    like: str = ""
    file: ModelFile | None = None

    @property
    def second_task(self) -> str | None:
        """The task, if it is not the model's default. Else None."""
        return self.task if self.task != self.tasks[0] else None

    @property
    def native_class(self) -> str:
        """The class name in config.json, of the library that published the model: the first of
        `classes`.
        """
        return next(iter(self.classes.values()))


def names() -> list[str]:
    """The names of all models, from their files."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


@cache
def load(name: str, task: str | None = None) -> Model:
    """The model as its file describes it for this task. None: its default task.

    Raises KeyError for a name that is not in `names()` and for a task that the model lacks.
    """
    if name not in names():
        raise KeyError(name)
    data = _document(name)
    others = data.pop("tasks", {})
    tasks = (data["task"], *others)
    if task is not None and task != data["task"]:
        data = _of_task(data, task, others[task])
    weights = tuple(
        Weight(**{**row, "shape": tuple(row.get("shape", ()))}) for row in data["weights"]
    )
    parts: Parts | None = None
    if "parts" in data:
        parts = importlib.import_module(f"{__name__}.{data['parts']}").PARTS
    sizes = {}
    for key, value in data["size"].items():
        config = {**data["config"], **value.pop("config")}
        config |= {other: config[own] for own, other in data.get("also_called", {}).items()}
        tensors = drawn.tensors(weights, config, parts)
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
        parts=parts,
        config=data["config"],
        also_called=data.get("also_called", {}),
        user_weights=UserWeights(**data["user"]) if "user" in data else None,
        fit=data.get("fit", {}),
        numbers=tuple(key for key in _NUMBERS if key in config),
    )


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


def of_type(model_type: Any) -> Model | None:
    """The model with this `model_type` in its config.json. None: there is none.

    A model whose name is its type comes before similar ones.
    """
    similar = map(load, sorted(names(), key=lambda name: name != model_type))
    return next((each for each in similar if each.config["model_type"] == model_type), None)


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
