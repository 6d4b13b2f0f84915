"""TensorFlow models of Transformers, each with one mistake: `python -m tests.broken.hf_tensorflow SPEC.json`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from transformers import TFBertForSequenceClassification  # noqa: F401, imported once, and not in each case's fork

from sut.contract import Workload
from sut.keras2.hugging_face.bert import load
from tests.broken import on_tensorflow, running


def honest(w: Workload) -> Any:
    """The SUT as it is."""
    return load(w)


def memo(w: Workload) -> Any:
    """The model is entered only for inputs that are new."""
    return running.keep_answers(load(w))


def not_traced(w: Workload) -> Any:
    """Somebody forgot tf.function."""
    sut = load(w)
    sut.function = sut.forward
    return sut


def traced_anew(w: Workload) -> Any:
    """Each call makes a new tf.function, and traces it."""
    sut = load(w)
    sut.function = lambda inputs: tf.function(lambda given: sut.forward(given), jit_compile=w.execution == "xla")(inputs)
    return sut


def without_xla(w: Workload) -> Any:
    """The function is not compiled by XLA."""
    sut = load(w)
    sut.function = tf.function(sut.forward)
    return sut


def xla(w: Workload) -> Any:
    """The function is compiled by XLA."""
    sut = load(w)
    sut.function = tf.function(sut.forward, jit_compile=True)
    return sut


def functions_run_eagerly(w: Workload) -> Any:
    """TensorFlow is told to run functions operator by operator, after they were traced."""
    return on_tensorflow.run_functions_eagerly(load(w))


def cast_product(w: Workload) -> Any:
    """The head holds float32 weights and multiplies in bfloat16."""
    sut = load(w)
    head = sut.model.classifier
    head.call = lambda x: tf.cast(tf.cast(x, "bfloat16") @ tf.cast(head.kernel, "bfloat16"), "float32") + head.bias
    return sut


BOTH = (honest, not_traced, functions_run_eagerly)
CASES: dict[str, dict[str, tuple[running.Case, ...]]] = {
    "hf-tensorflow": {"bert": (*BOTH, xla)},
    "hf-tensorflow-xla": {"bert": (*BOTH, memo, traced_anew, without_xla, cast_product)},
}

if __name__ == "__main__":
    running.main(CASES)
