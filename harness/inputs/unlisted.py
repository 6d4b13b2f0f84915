"""The model of a user's folder if `--model` is left out. `model_type` and `architectures` in
config.json decide.

A language model that no file in harness/inputs/models/ describes is unlisted: its tensors and its
configuration are those of the folder, and Transformers and KerasHub load it by their general
classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.inputs import models, user_config
from harness.inputs.models import Model, UserWeightsRules

_HEADS = ("ForCausalLM", "LMHeadModel")
"""The ends of the names of Transformers' classes that generate text."""
_CLASSES = {"transformers": "AutoModelForCausalLM", "keras_hub": "CausalLM"}
_LIKE = "llama"
"""The model whose batch sizes, lengths, benchmark and measured disagreements count instead."""
_BUFFERS = (".rotary_emb.inv_freq", ".attention.bias", ".attn.bias", ".masked_bias")
"""The ends of the names of tensors without parameters, which old releases of Transformers saved."""
_TIED = {"lm_head.weight": "model.embed_tokens.weight"}
_OTHER_NAMES = {
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "hidden_size": ("n_embd", "d_model"),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length"),
}
"""Number that the harness reads → its other names in configurations of Transformers."""


def model_of(path: Path, task: str | None = None) -> Model:
    """The model of a user's folder: the listed one of its type, or else an unlisted one.

    Args:
        task: a task of a listed model; None: its default, or `generate` if the folder has a head
            that generates.

    Raises UsageError if config.json does not name a model that can be measured.
    """
    if not path.is_dir():
        raise UsageError(
            f"--weights {path}: is not a directory (names of the Hub are not downloaded); give a"
            " folder with config.json and model.safetensors"
        )
    if not (path / "config.json").is_file():
        raise _unnamed(path, "there is no config.json in it")
    config = user_config.load(path)
    kind = config.get("model_type")
    heads = _strings(config.get("architectures"))
    generates = any(head.endswith(_HEADS) for head in heads)
    if known := models.of_type(kind):
        tasks = models.load(known).tasks
        if task is None and generates and "generate" in tasks:
            task = "generate"
        if task is not None and task not in tasks:
            raise UsageError(f"--task {task}: {known} has only {' and '.join(tasks)}: leave it out")
        return models.load(known, task)
    if not isinstance(kind, str) or not re.fullmatch(r"[\w.-]+", kind):
        raise _unnamed(path, "config.json has no model_type")
    if heads and not generates:
        raise UsageError(
            f"--weights {path}: holds {', '.join(heads)}. A folder of {kind} is measured only if it"
            f" holds a language model that generates ({' or '.join(f'…{end}' for end in _HEADS)})"
        )
    if task not in (None, "generate"):
        raise UsageError(f"--task {task}: {kind} only generates: leave it out")
    return _unlisted(kind, config)


def _unnamed(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--weights {path}: {why}, so the model is not known: name it with --model"
        f" ({', '.join(models.names())})"
    )


def _strings(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _unlisted(kind: str, config: Mapping[str, Any]) -> Model:
    other_names = {
        name: other
        for name, others in _OTHER_NAMES.items()
        for other in others
        if name not in config and other in config
    }
    return replace(
        models.load(_LIKE),
        name=kind,
        like=_LIKE,
        classes=_CLASSES,
        weights=(),
        config={"model_type": kind},
        also_called=other_names,
        user_weights=UserWeightsRules(ignored=_BUFFERS, tied=_TIED),
        fit={},
    )
