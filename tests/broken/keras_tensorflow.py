"""SUTs of Keras on TensorFlow, each with one mistake: `python -m tests.broken.keras_tensorflow
SPEC.json`.
"""

import os

import tensorflow as tf

from tests.broken import keras, on_tensorflow, running
from tests.broken.keras import call_in, layers, load, model_called, recompile


def _function(sut):
    return tf.function(
        lambda batch: sut.model(batch, training=False), jit_compile=sut.workload.execution == "xla"
    )


def _tensors(batch):
    return {k: tf.constant(v) for k, v in batch.items()}


def honest_function(w):
    """A tf.function of the SUT's own."""
    sut = load(w)
    function = _function(sut)
    sut.predict = lambda batch: function(_tensors(batch)).numpy()
    return sut


def honest_pipeline(w):
    """Keras' own `predict`, which makes a data pipeline at each call."""
    sut = load(w)
    sut.predict = lambda batch: sut.model.predict(
        batch, batch_size=len(batch["token_ids"]), verbose=0
    )
    return sut


def traced_anew(w):
    """Each call makes a new tf.function, and traces it."""
    sut = load(w)
    sut.predict = lambda batch: _function(sut)(_tensors(batch)).numpy()
    return sut


def each_layer_traced(w):
    """Each layer is a function of its own."""
    sut = model_called(w)
    for layer in layers(sut):
        call_in(layer, lambda own: tf.function(own, jit_compile=w.execution == "xla"))
    return sut


def backbone_traced(w):
    """The head is left out of the function."""
    sut = model_called(w)
    call_in(sut.model.backbone, lambda own: tf.function(own, jit_compile=w.execution == "xla"))
    return sut


def embedding_left_out(w):
    """The rows of the embedding are looked up before the function begins."""
    sut = load(w)
    embedding, rows = sut.model.backbone.token_embedding, []

    def forward(batch, embedded):
        rows[:] = [embedded]
        return sut.model(batch, training=False)

    call_in(embedding, lambda own: lambda inputs, **_: rows[0])
    function = tf.function(forward, jit_compile=w.execution == "xla")
    table = embedding.embeddings.value
    sut.predict = lambda batch: function(
        _tensors(batch), tf.gather(table, batch["token_ids"])
    ).numpy()
    return sut


def functions_run_eagerly(w):
    """TensorFlow is told to run functions operator by operator, after they were traced."""
    return on_tensorflow.run_functions_eagerly(load(w))


def numpy_function(w):
    """A layer computes in NumPy, from within the graph."""
    return _through(
        w, lambda x: tf.ensure_shape(tf.numpy_function(lambda a: a, [x], tf.float32), x.shape)
    )


def py_function(w):
    """A layer computes eagerly, from within the graph."""
    return _through(
        w, lambda x: tf.ensure_shape(tf.py_function(lambda a: a, [x], tf.float32), x.shape)
    )


def _through(w, change):
    sut = load(w)
    call_in(layers(sut)[0], lambda own: lambda x, **named: own(change(x), **named))
    return sut


def one_layer_under_xla(w):
    """XLA compiles one layer of a graph."""
    sut = recompile(load(w), jit_compile=False)
    call_in(layers(sut)[0], lambda own: tf.function(own, jit_compile=True))
    return sut


def xla(w):
    """Keras is told to compile by XLA."""
    return recompile(load(w), jit_compile=True)


def without_xla(w):
    """Keras is told not to."""
    return recompile(load(w), jit_compile=False)


def auto_clustering(w):
    """TensorFlow gives parts of the graph to XLA by itself."""
    os.environ["TF_XLA_FLAGS"] = (
        "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=2"
    )
    tf.config.optimizer.set_jit(True)
    return load(w)


def constants_folded(w):
    """The batch is captured as a constant: the function answers what it was traced with."""
    sut = load(w)
    known = {}

    def predict(batch):
        shape = batch["token_ids"].shape
        if shape not in known:
            held = _tensors(batch)
            known[shape] = tf.function(
                lambda: sut.model(held, training=False), jit_compile=w.execution == "xla"
            )
        return known[shape]().numpy()

    sut.predict = predict
    return sut


if __name__ == "__main__":
    running.main({**vars(keras), **globals()})
