"""The model of a user's folder. `model_type` and `architectures` in config.json decide.

Tensors and configuration are those of the folder. A model of text or pictures that no file in
harness/inputs/models/ describes is unlisted, and so is a listed type of model with another head
than that of its file. Transformers and KerasHub load it by their general classes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from formats.workload import Config
from harness.errors import Refused, UsageError, about
from harness.inputs import models, user_config, user_folder
from harness.inputs.models import Model


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """What an unlisted model does.

    Attributes:
        ends: of the names of Transformers' classes that do it.
        like: the listed model whose task, answers, batch sizes, lengths, benchmark and measured
            disagreements count.
        classes: library → the name of its general class.
        needs: a key that config.json must have; empty: none.
        numbers: see `Model.numbers`.
        batch_size: scenario → the default; empty: that of `like`.
        own: attributes of its Model that differ from those of `like`.
    """

    ends: tuple[str, ...]
    like: str
    classes: Mapping[str, str]
    needs: str = ""
    numbers: tuple[str, ...] = (
        "vocab_size",
        "num_hidden_layers",
        "hidden_size",
        "max_position_embeddings",
    )
    batch_size: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """The architecture of its models."""
        return str(self.own.get("architecture") or models.load(self.like).architecture)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_FILE = Path(__file__).with_suffix(".toml")
_KINDS = tuple(
    _Kind(**{name: _frozen(value) for name, value in kind.items()})
    for kind in tomllib.loads(_FILE.read_text(encoding="utf-8"))["kind"]
)
"""The first one with a fitting end counts."""
_OTHER_NAMES = {
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "hidden_size": ("n_embd", "d_model", "dim"),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length"),
    "num_experts": ("num_local_experts",),
}
"""Number that the harness or KerasHub reads → its other names in configurations of Transformers,
the first one with a value counts.
"""


def model_of(path: Path, task: str | None = None, named: Model | None = None) -> Model:
    """The model of a user's folder: the listed one of its type, or else an unlisted one.

    Args:
        task: the task; None: that of `named`, the default of a listed model, or `generate` if the
            folder has a head that generates.
        named: the listed model of `--model`, whose type the folder must have; None: the folder
            decides.

    Raises UsageError if config.json does not name a model that can be measured.
    """
    path = user_folder.resolve(path)
    with about(f"--weights {path}"):
        return _model_of(path, task, named)


def _model_of(path: Path, task: str | None, named: Model | None) -> Model:
    user_folder.check(path)
    if named is None and not (path / "config.json").is_file():
        raise _unnamed("there is no config.json in it")
    config = user_config.load(path)
    kind = config.get("model_type")
    named_heads = config.get("architectures")
    heads = [str(each) for each in named_heads] if isinstance(named_heads, list) else []
    does = _kind(heads, config)
    if named and kind != named.config["model_type"]:
        raise Refused(
            f"config.json says model_type {kind}, and --model {named.name} is"
            f" {named.config['model_type']}: leave --model out, and the folder decides"
        )
    known = named or models.of_type(kind)
    listed = known if known and _does_as(known, does) else None
    if named and listed is None:
        raise _other_head(named, heads)
    if listed and listed.user_weights:
        if task is None and named:
            task = named.task
        elif task is None and does is _KINDS[0] and "generate" in listed.tasks:
            task = "generate"
        model = of_task(listed, task)
        # A model without a head reads a folder with any.
        if heads and model.native_class not in heads and model.architecture != "hidden_states":
            raise _other_head(model, heads)
        return model
    if not isinstance(kind, str) or not re.fullmatch(r"[\w.-]+", kind):
        raise _unnamed("config.json has no model_type")
    if does is None or config.get("is_encoder_decoder"):
        ends = ", ".join(f"…{end}" for each in _KINDS for end in each.ends)
        raise Refused(
            f"holds {', '.join(heads) or 'no named class'}. A folder of {kind} is measured if"
            f" `architectures` in its config.json is one of {ends}, without a decoder beside an"
            " encoder"
        )
    like = listed or models.load(does.like)
    if task not in (None, like.task):
        raise UsageError(f"--task {task}: this {kind} has only {like.task}: leave it out")
    # The name of a listed model that does something else is taken.
    name = heads[0] if known and not listed else kind
    return _unlisted(name, like, does, config)


def of_task(listed: Model, task: str | None) -> Model:
    """The listed model for a task; None: its default. Raises UsageError if it lacks the task."""
    if task not in (None, *listed.tasks):
        tasks = " and ".join(listed.tasks)
        raise UsageError(f"--task {task}: {listed.name} has only {tasks}: leave it out")
    return models.load(listed.name, task)


def _other_head(model: Model, heads: list[str]) -> Refused:
    needed = model.native_class
    return Refused(
        f"contains {', '.join(heads)}, and {model.name} here is {needed}: train the missing head"
        f" first. {needed}.from_pretrained(DIR).save_pretrained(NEW) adds a random head, which is"
        " only good for measuring speed"
    )


def _kind(heads: list[str], config: Config) -> _Kind | None:
    for each in _KINDS:
        is_named = any(head.endswith(each.ends) for head in heads)
        if is_named and (not each.needs or each.needs in config):
            return each
    return None


def _does_as(known: Model, does: _Kind | None) -> bool:
    """Return whether the listed model does what the folder's class does. A listed model without a
    head reads the folder of any language model.
    """
    if does is None or does is _KINDS[0]:
        return True
    architectures = {models.load(known.name, task).architecture for task in known.tasks}
    return does.architecture in architectures


def _unnamed(why: str) -> Refused:
    return Refused(
        f"{why}, so the model is not known: name it with --model ({', '.join(models.names())})"
    )


def _unlisted(name: str, like: Model, does: _Kind, config: Config) -> Model:
    other_names = {
        number: other
        for number, others in _OTHER_NAMES.items()
        for other in reversed(others)
        if number not in config and other in config
    }
    full = like.sizes["full"]
    if does.batch_size:
        full = replace(full, batch_size=does.batch_size)
    model = replace(
        like,
        name=name,
        like=like.name,
        classes=does.classes,
        sizes={**like.sizes, "full": full},
        weights=(),
        config={"model_type": config["model_type"]},
        also_called=other_names,
        user_weights=None,
        numbers=does.numbers,
        fit={},
    )
    return replace(model, **{key: _frozen(value) for key, value in does.own.items()})
