"""Trains language models of Transformers by peft's LoRA; see `trainer`."""

from __future__ import annotations

from typing import Any

import peft
import torch

from sut import adapters
from sut.contract import Workload
from sut.native_torch import execution
from sut.native_torch.trainer import TrainerTraining, renamed

# Our labels stand where the tokens are that they follow: `labels` alone would be moved by one position, `shift_labels` are not.
_prepare = renamed(input_ids="input_ids", attention_mask="attention_mask", labels="label", shift_labels="label")
_CONFIG: dict[str, Any] = {"attention_dropout": 0.0, "use_cache": False}


def adapt(model: Any, workload: Workload) -> Any:
    """The model frozen, with peft's layers in the place of query and value. Their factors begin as `adapters.first` says."""
    lora, layers = workload.config["lora"], adapters.LAYERS
    config = peft.LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], lora_dropout=0.0, target_modules=list(layers), bias="none")
    adapted = peft.get_peft_model(model, config).get_base_model()
    with torch.no_grad():
        for number, layer in enumerate(adapted.model.layers):
            for name in layers:
                factor = getattr(layer.self_attn, name).lora_A["default"].weight
                factor.copy_(torch.from_numpy(adapters.first(workload.config["model"], lora, number, name)))
    return adapted


def load(workload: Workload) -> TrainerTraining:
    """The checkpoint's model, adapted, in the workload's precision and execution."""
    return TrainerTraining(execution.load_model(workload, adapt, **_CONFIG), workload, _prepare)
