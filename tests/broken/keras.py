"""What broken SUTs of Keras share, whatever its backend is."""

import keras
import numpy as np

from sut.keras3 import bert, causal_lm


def load(w):
    return (causal_lm if w.task == "generate" else bert).load(w)


def layers(sut):
    return sut.model.backbone.transformer_layers


def recompile(sut, **arguments):
    """`model.compile` again, as an author would who adds an argument."""
    arguments = {"jit_compile": sut.workload.execution == "xla", **arguments}
    if sut.workload.task == "generate":
        sut.model.compile(
            optimizer=None, loss=None, weighted_metrics=None, sampler="greedy", **arguments
        )
    else:
        sut.model.compile(optimizer=None, loss=None, metrics=None, **arguments)
    return sut


def call_in(layer, change):
    """Put something around the `call` of a layer."""
    layer.call = change(layer.call)


def replace_weights(sut, change):
    for variable in sut.model.weights:
        if len(variable.shape) >= 2:
            variable.assign(change(np.asarray(keras.ops.convert_to_numpy(variable))))
    return sut


def honest_padding(w):
    """predict pads each row to a bucket of widths."""
    sut = load(w)
    own = sut.predict
    sut.predict = lambda batch: own({k: np.pad(v, ((0, 0), (0, 8))) for k, v in batch.items()})
    return sut


def model_called(w):
    """predict calls the model, not its compiled `predict_on_batch`."""
    sut = load(w)
    sut.predict = lambda batch: keras.ops.convert_to_numpy(sut.model(batch, training=False))
    return sut


def run_eagerly(w):
    """Somebody debugged, and left run_eagerly."""
    return recompile(load(w), run_eagerly=True, jit_compile=False)


def layer_left_out(w):
    """One of the layers answers with its input."""

    def left_out(x, self_attention_cache=None, **named):
        return x if self_attention_cache is None else (x, self_attention_cache)

    sut = load(w)
    call_in(layers(sut)[0], lambda own: left_out)
    return sut


def mixed_policy(w):
    """One layer makes bfloat16 of its float32 weights."""
    sut = load(w)
    sut.model.output_dense.dtype_policy = "mixed_bfloat16"
    return sut


def float16_policy(w):
    """One layer makes float16 of its float32 weights."""
    sut = load(w)
    sut.model.output_dense.dtype_policy = "mixed_float16"
    return sut


def cast_product(w):
    """One layer of float32 casts its product to bfloat16."""
    sut = load(w)
    dense, ops = sut.model.output_dense, keras.ops
    call_in(
        dense,
        lambda own: (
            lambda x, **_: (
                ops.cast(ops.cast(x, "bfloat16") @ ops.cast(dense.kernel, "bfloat16"), "float32")
                + dense.bias
            )
        ),
    )
    return sut
