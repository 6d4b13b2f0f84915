"""Shared code of the Keras 3 files. It sets and proves device and precision, and takes the
evidence.

The code that differs by backend is in `sut/keras/on_<backend>.py`.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import keras_hub
import numpy as np
from safetensors import SafetensorError

from formats.cell import INT8, INT8_WEIGHTS, SHARDS
from sut.contract import Call, Evidence, Unsupported, Workload
from sut.devices import HOST
from sut.evidence import backend_evidence, precision, supported
from sut.keras3 import exact
from sut.registry import QUANTIZE

backend = importlib.import_module(f"sut.keras.on_{keras.backend.backend()}")
"""The backend's module. It has EXECUTIONS, and the functions `configure`, `synchronise`, `product`,
`matrix_flops`, `watch`, `peak_device_bytes` and `about`. JAX's also has `divide_host` and `held`.
"""

PREDICTS = "predict_on_batch"
_LARGE = 1 << 24  # elements
# Weights of these dtypes count something, such as the samples that a Normalization has seen.
_COUNTERS = ("int32", "int64", "uint32", "bool")
# Axes of the mesh of devices.
_MODEL = "model"
_BATCH = "batch"
# The head of a model that does not tie it to its embedding: [hidden, vocabulary]. KerasHub's maps
# leave it out, so every device would have all of it.
_HEAD = "token_embedding/reverse_embeddings"


def configure(workload: Workload) -> None:
    """Set device and precision, before anything is compiled. Raises Unsupported if this machine or
    this file cannot run the workload.
    """
    name = keras.backend.backend()
    if name != workload.backend:
        raise Unsupported(
            f"Keras runs on {name} here, but {workload.backend} was requested: set"
            f" KERAS_BACKEND={workload.backend} before Keras is imported"
        )
    supported.check(workload, f"Keras on {name}", backend.EXECUTIONS)
    if SHARDS in workload.options and workload.device == HOST:
        backend.divide_host(workload.options[SHARDS])
    backend.configure(workload.device, workload.precision)


def load_model(
    workload: Workload,
    names_read: set[str] | None = None,
    may_lack: tuple[str, ...] = (),
    **arguments: Any,
) -> Any:
    """Return the task model or the backbone that KerasHub loads from the checkpoint folder. It has
    the workload's precision and no preprocessor. Raises Unsupported if the folder lacks a tensor.

    Args:
        names_read, may_lack: see `exact.tensors`.
        arguments: those of KerasHub's `from_preset`.
    """
    configure(workload)
    kind = kind_of(workload)
    if issubclass(kind, keras_hub.models.Task):
        arguments["preprocessor"] = None
    _distribute(workload, getattr(kind, "backbone_cls", kind))
    try:
        with exact.tensors(names_read, may_lack), nothing_drawn():
            model = kind.from_preset(str(workload.checkpoint), dtype=workload.dtype, **arguments)
    except (KeyError, SafetensorError) as e:  # a tensor or a value that the folder lacks
        words = f"{type(e).__name__}: {' '.join(str(e).split())}"
        raise Unsupported(f"KerasHub does not load this {workload.model}: {words}") from None
    backend.product(workload.dtype)  # compiled here, so that evidence compiles nothing
    return model


def _distribute(workload: Workload, backbone: Any) -> None:
    """Let Keras split the variables that are created after this call, if the workload has shards.

    `backbone`: KerasHub's class. Its own map says which axis of a weight is split. Mistral has no
    map, and Llama's is used: the layers, names and shapes of both are the same.
    """
    count = workload.options.get(SHARDS)
    if count is None:
        return
    devices = keras.distribution.list_devices()
    if len(devices) < count:
        raise Unsupported(
            f"--sut-option {SHARDS}={count}: {workload.backend} finds only {len(devices)} devices"
        )
    mesh = keras.distribution.DeviceMesh((1, count), (_BATCH, _MODEL), devices[:count])
    named = backbone if hasattr(backbone, "get_layout_map") else keras_hub.models.LlamaBackbone
    layout = named.get_layout_map(mesh, _MODEL, _BATCH)
    layout[_HEAD] = (_BATCH, _MODEL)
    parallel = keras.distribution.ModelParallel(layout_map=layout, batch_dim_name=_BATCH)
    keras.distribution.set_distribution(parallel)


def kind_of(workload: Workload) -> Any:
    """Return KerasHub's class of the model."""
    return getattr(keras_hub.models, workload.config["classes"]["keras_hub"])


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """A context in which initial values are zeros. Every variable is assigned later, and drawing
    random values for a large model takes minutes.
    """
    kinds = (
        keras.initializers.VarianceScaling,
        keras.initializers.RandomUniform,
        keras.initializers.RandomNormal,
        keras.initializers.TruncatedNormal,
    )
    own = [kind.__call__ for kind in kinds]
    for kind in kinds:
        kind.__call__ = _zeros
    try:
        yield
    finally:
        for kind, call in zip(kinds, own, strict=True):
            kind.__call__ = call


def _zeros(initializer: Any, shape: Sequence[int], dtype: Any = None, **_: Any) -> Any:
    """The `__call__` of an initializer that returns zeros. JAX compiles a program for each shape of
    `ops.zeros`. For small arrays this takes longer than a copy of numpy's zeros.
    """
    name = keras.backend.standardize_dtype(dtype)
    if math.prod(shape) < _LARGE:
        return keras.ops.convert_to_tensor(np.zeros(shape, name))
    return keras.ops.zeros(shape, name)


def quantize(model: Any, workload: Workload) -> None:
    """Quantise the weights by Keras' own function, if the workload requests it. Raises Unsupported
    in Keras' words if it fails.
    """
    kind = workload.options.get(QUANTIZE)
    if kind is None:
        return
    config = None
    if kind == INT8_WEIGHTS:
        config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    try:
        # Keras warns of each layer that has no quantised form.
        with warnings.catch_warnings(action="ignore"):
            model.quantize(None if config else INT8, config=config)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as e:
        words = " ".join(str(e).split())
        raise Unsupported(
            f"Keras does not quantise this model on {workload.backend}: {type(e).__name__}: {words}"
        ) from None


def compile_to_predict(model: Any, workload: Workload) -> Any:
    """Compile the model, without optimizer, loss and metrics, and return it."""
    model = predictor(model)
    quantize(model, workload)
    model.compile(optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla")
    return model


def predictor(model: Any) -> Any:
    """Return the model that `predict_on_batch` of this backend runs. On OpenVINO that of KerasHub's
    tasks fails (TypeError: openvino.Model gets constants for its parameters), so a Keras model of
    the same layers takes their place.
    """
    is_task = isinstance(model, keras_hub.models.Task)
    if is_task and keras.backend.backend() == "openvino":
        return keras.Model(model.input, model.output)
    return model


def synchronise(model: Any) -> None:
    """Wait for the backend's device."""
    backend.synchronise(model)


def evidence(model: Any, workload: Workload, name: str, call: Call, **versions: str) -> Evidence:
    """See `backend_evidence.evidence`. With LoRA only the frozen weights count, because its factors
    are float32 in every precision.

    Args:
        versions: versions of more libraries, by name.
    """
    variables = model.non_trainable_weights if "lora" in workload.config else model.weights
    weights = [
        (keras.backend.standardize_dtype(each.dtype), math.prod(each.shape))
        for each in variables
        if each.dtype not in _COUNTERS
    ]
    layers = [layer for layer in model._flatten_layers() if layer._trainable_variables]
    return backend_evidence.evidence(
        backend,
        workload,
        f"{type(model).__name__}.{name}",
        lambda: backend.watch(model, call),
        held=precision.count_elements(weights),
        computed={layer.compute_dtype for layer in layers},
        detail={
            "jit_compile": bool(model.jit_compile),
            "keras": keras.__version__,
            "keras_hub": keras_hub.__version__,
            **({"shards": backend.held(model.weights)} if SHARDS in workload.options else {}),
            **versions,
        },
    )
