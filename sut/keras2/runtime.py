"""Shared code of the Keras 2 files. It sets and proves device and precision, and takes the
evidence.

The evidence is that of Keras 3 on TensorFlow.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tensorflow as tf
import tf_keras

from sut.contract import Call, Evidence, Workload
from sut.evidence import backend_evidence, precision, supported
from sut.keras import on_tensorflow as backend

PREDICTS = "predict_step in a tf.function"


def configure(workload: Workload) -> None:
    """Set device and precision, before anything is compiled. Raises Unsupported if this machine or
    this file cannot run the workload.
    """
    supported.check(workload, "Keras 2", backend.EXECUTIONS)
    backend.configure(workload.device, workload.precision)
    # KerasNLP's classifier gives its head no other dtype.
    tf_keras.mixed_precision.set_global_policy(workload.dtype)
    backend.product(workload.dtype)  # compiled here, so that evidence compiles nothing


def compile_to_predict(model: Any, workload: Workload, **arguments: Any) -> Any:
    """Compile the model, with more `arguments` of its `compile`, and return it. Keras 2 requires an
    optimizer.
    """
    model.compile(
        optimizer="sgd",
        loss=None,
        metrics=None,
        jit_compile=workload.execution == "xla",
        **arguments,
    )
    model.predict_on_batch = partial(_predict_on_batch, model)
    return model


def _predict_on_batch(model: Any, batch: Any) -> Any:
    """Return the answers, as numpy. Keras 2's own method builds a data pipeline for each batch,
    which can take longer than the model.

    The compiled function is Keras' step with its settings. It is stored in Keras' own attribute, so
    `compile` removes it.
    """
    if model.predict_function is None:

        def step(inputs: Any) -> Any:
            return model.predict_step((inputs,))

        model.predict_function = (
            step if model.run_eagerly else tf.function(step, jit_compile=model.jit_compile)
        )
    return tf.nest.map_structure(lambda answer: answer.numpy(), model.predict_function(batch))


def synchronise(model: Any) -> None:
    """Wait for the device."""
    backend.synchronise(model)


def evidence(model: Any, workload: Workload, name: str, call: Call, **versions: str) -> Evidence:
    """See `backend_evidence.evidence`. `versions`: versions of the model's libraries, by name."""
    weights = [(each.dtype.name, each.shape.num_elements()) for each in model.weights]
    layers = [layer for layer in model._flatten_layers() if layer._trainable_weights]
    return backend_evidence.evidence(
        backend,
        workload,
        f"{type(model).__name__}.{name}",
        lambda: backend.watch(model, call),
        held=precision.count_elements(weights),
        computed={layer.compute_dtype for layer in layers},
        detail={
            "jit_compile": bool(model.jit_compile),
            "tf_keras": tf_keras.__version__,
            **versions,
        },
    )
