"""ResNets of KerasHub from a folder of Transformers. KerasHub has no converter for such folders, so
its converter for the ResNets of timm gets their tensors under timm's names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras_hub
import numpy as np
from keras_hub.src.utils.timm import convert_resnet

from sut.checkpoint import weights_files
from sut.contract import Config, Unsupported, Workload
from sut.keras3 import runtime

_HEAD = "classifier.1"
_NO_PARAMETER = ".num_batches_tracked"
_CONFIG = {"architecture": "resnet"}
"""It tells timm's converter that norms follow convolutions."""
_WIDENED = {"bottleneck": 4, "basic": 1}
"""Channels of a stage over those within its blocks."""


class _Folder:
    """The tensors of a folder by timm's names, for KerasHub's converter.

    Attributes:
        names_read: the names in the folder of the tensors that were read.
    """

    def __init__(self, checkpoint: Path):
        self.checkpoint = checkpoint
        self.names = set(weights_files.names(checkpoint))
        self.names_read: set[str] = set()

    def port_weight(
        self,
        keras_variable: Any,
        hf_weight_key: str,
        hook_fn: Callable[[np.ndarray, Sequence[int]], np.ndarray] | None = None,
    ) -> None:
        """Assign a tensor to a variable, as KerasHub's SafetensorLoader does. Raises KeyError."""
        name = _name(hf_weight_key)
        if not name.startswith(_HEAD) and "resnet." + name in self.names:
            name = "resnet." + name
        if name not in self.names:
            raise KeyError(name)
        values = weights_files.tensor(self.checkpoint, name)
        self.names_read.add(name)
        if hook_fn:
            values = hook_fn(values, list(keras_variable.shape))
        keras_variable.assign(values)


def _name(timm: str) -> str:
    """The name of a tensor in Transformers, without `resnet.`, from its name in timm."""
    layer, _, kind = timm.rpartition(".")
    if layer == "fc":
        return f"{_HEAD}.{kind}"
    stage = re.fullmatch(r"layer(\d)\.(\d+)\.(.+)", layer)
    if not stage:
        part = {"conv1": "convolution", "bn1": "normalization"}[layer]
        return f"embedder.embedder.{part}.{kind}"
    place = f"encoder.stages.{int(stage[1]) - 1}.layers.{stage[2]}."
    number = stage[3][-1]
    if stage[3].startswith("downsample"):
        part = "normalization" if number == "1" else "convolution"
        return f"{place}shortcut.{part}.{kind}"
    part = "normalization" if stage[3].startswith("bn") else "convolution"
    return f"{place}layer.{int(number) - 1}.{part}.{kind}"


def load(workload: Workload) -> Any:
    """The checkpoint's classifier, or its backbone. Raises Unsupported if KerasHub's ResNet does
    not compute it.
    """
    runtime.configure(workload)
    tensors = _Folder(workload.checkpoint)
    config = workload.config["model"]
    try:
        with runtime.nothing_drawn():
            model = backbone = keras_hub.models.ResNetBackbone(
                **_arguments(config, workload), dtype=workload.dtype
            )
            if workload.config["classes"]["keras_hub"] != "Backbone":
                head = weights_files.tensor(workload.checkpoint, f"{_HEAD}.weight")
                model = keras_hub.models.ResNetImageClassifier(backbone, num_classes=len(head))
        convert_resnet.convert_weights(backbone, tensors, _CONFIG)
        if model is not backbone:
            convert_resnet.convert_head(model, tensors, _CONFIG)
    except (KeyError, ValueError) as e:
        words = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise Unsupported(
            f"KerasHub's ResNet does not load this folder: {words}: take native-torch"
        ) from None
    _check_all_read(tensors, model is backbone)
    # Keras requires that an input in a dict has the name of its layer, and that of its tensor.
    model.inputs[0].name = model.layers[0].name
    runtime.backend.product(workload.dtype)  # compiled here, so that evidence compiles nothing
    return model


def _arguments(config: Config, workload: Workload) -> dict[str, Any]:
    """The arguments of KerasHub's backbone. Raises Unsupported for a value of config.json that it
    lacks.
    """
    only = {"hidden_act": "relu", "downsample_in_bottleneck": False}
    for key, value in only.items():
        if config.get(key, value) != value:
            raise Unsupported(
                f"KerasHub's ResNet has {key} {value}, and config.json says {config[key]}: take"
                " native-torch"
            )
    channels, height, width = workload.config["pixel_shape"]
    kind = config.get("layer_type", "bottleneck")
    filters = [size // _WIDENED[kind] for size in config["hidden_sizes"]]
    first = 2 if config.get("downsample_in_first_stage") else 1
    return {
        "input_conv_filters": [config["embedding_size"]],
        "input_conv_kernel_sizes": [7],
        "stackwise_num_filters": filters,
        "stackwise_num_blocks": config["depths"],
        "stackwise_num_strides": [first, *(2 for _ in filters[1:])],
        "block_type": f"{kind}_block",
        "image_shape": (height, width, channels),
    }


def _check_all_read(tensors: _Folder, is_backbone: bool) -> None:
    """Raises Unsupported if a tensor was left out on which the answers depend."""
    unread = sorted(
        name
        for name in tensors.names - tensors.names_read
        if not name.endswith(_NO_PARAMETER) and not (is_backbone and name.startswith(_HEAD))
    )
    if unread:
        raise Unsupported(
            f"KerasHub's ResNet does not read {len(unread)} tensors of the folder, such as"
            f" {unread[0]}: take native-torch"
        )
