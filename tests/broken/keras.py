"""What broken SUTs of Keras share, whatever its backend is."""

import keras
import numpy as np

from sut.keras3 import bert, causal_lm
from tests.broken import running


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


def honest(w):
    """The SUT as it is."""
    return load(w)


def honest_streamed_from_a_thread(w):
    """A thread generates the tokens that are handed over."""
    return running.stream_from_a_thread(load(w))


def honest_in_two_shapes(w):
    """Batches of two shapes in one watched call."""
    return load(w)


def honest_padding(w):
    """predict pads each row to a bucket of widths."""
    sut = load(w)
    own = sut.predict
    sut.predict = lambda batch: own({k: np.pad(v, ((0, 0), (0, 8))) for k, v in batch.items()})
    return sut


def memo(w):
    """The model is entered only for inputs that are new."""
    return running.keep_answers(load(w))


def model_called(w):
    """predict calls the model, not its compiled `predict_on_batch`."""
    sut = load(w)
    sut.predict = lambda batch: keras.ops.convert_to_numpy(sut.model(batch, training=False))
    return sut


def run_eagerly(w):
    """Somebody debugged, and left run_eagerly."""
    return recompile(load(w), run_eagerly=True, jit_compile=False)


def another_call_watched(w):
    """evidence watches a call of its own."""
    return running.watch_another_call(load(w))


def watched_twice(w):
    """evidence makes the call twice."""
    return running.watch_twice(load(w))


def constants(w):
    """evidence reports what it saw the first time."""
    return running.report_constants(load(w))


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


def weights_through_bfloat16(w):
    """The weights were saved as bfloat16."""
    return replace_weights(load(w), running.to_bfloat16)


def weights_through_int8(w):
    """The weights were saved as int8."""
    return replace_weights(load(w), running.to_int8)


WATCHED = (honest, honest_in_two_shapes, memo, constants, mixed_policy, cast_product)
EVERYWHERE = (
    *WATCHED,
    honest_padding,
    layer_left_out,
    weights_through_bfloat16,
    weights_through_int8,
)
GENERATING = (honest, honest_streamed_from_a_thread, memo, layer_left_out)
