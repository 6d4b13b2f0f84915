"""TensorFlow models of Transformers, each with one mistake: `python -m tests.broken.hf_tensorflow
SPEC.json`.
"""

import tensorflow as tf
from transformers import TFBertForSequenceClassification  # noqa: F401  once, not in each fork

from sut.hf_tensorflow.bert import load
from tests.broken import running


def not_traced(w):
    """Somebody forgot tf.function."""
    sut = load(w)
    sut.function = sut.forward
    return sut


def without_xla(w):
    """The function is not compiled by XLA."""
    sut = load(w)
    sut.function = tf.function(sut.forward)
    return sut


def cast_product(w):
    """The head holds float32 weights and multiplies in bfloat16."""
    sut = load(w)
    head = sut.model.classifier
    head.call = lambda x: (
        tf.cast(tf.cast(x, "bfloat16") @ tf.cast(head.kernel, "bfloat16"), "float32") + head.bias
    )
    return sut


if __name__ == "__main__":
    running.main(globals())
