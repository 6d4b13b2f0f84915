"""SUTs of Keras on JAX, each with one mistake: `python -m tests.broken.keras_jax SPEC.json`."""

import jax
import numpy as np

from tests.broken import keras, running
from tests.broken.keras import call_in, layers, load, model_called, recompile


def _pure(sut):
    """(weights, batch) → logits, of the model as it is."""

    def forward(weights, batch):
        trainable, others = weights
        return sut.model.stateless_call(trainable, others, batch, training=False)[0]

    return forward


def _weights(sut):
    return [v.value for v in sut.model.trainable_variables], [
        v.value for v in sut.model.non_trainable_variables
    ]


def honest_program(w):
    """A jax.jit program of the SUT's own."""
    sut = load(w)
    weights, program = _weights(sut), jax.jit(_pure(sut))
    sut.predict = lambda batch: np.asarray(program(weights, batch))
    return sut


def honest_lambda(w):
    """The same, of a function without a name."""
    sut = load(w)
    weights, pure = _weights(sut), _pure(sut)
    program = jax.jit(lambda weights, batch: pure(weights, batch))
    sut.predict = lambda batch: np.asarray(program(weights, batch))
    return sut


def jitted_anew(w):
    """Each call makes a new jax.jit of a new lambda, and compiles it."""
    sut = load(w)
    weights, pure = _weights(sut), _pure(sut)
    sut.predict = lambda batch: np.asarray(
        jax.jit(lambda weights, batch: pure(weights, batch))(weights, batch)
    )
    return sut


def _jitted(own):
    program = jax.jit(lambda x, arrays: own(x, **arrays))
    return lambda x, **named: program(
        x, {k: v for k, v in named.items() if v is not None and k != "training"}
    )


def each_layer_jitted(w):
    """Each layer is a program of its own."""
    sut = model_called(w)
    for layer in layers(sut):
        call_in(layer, _jitted)
    return sut


def backbone_jitted(w):
    """The head is left out of the program."""
    sut = model_called(w)
    call_in(sut.model.backbone, _jitted)
    return sut


def embedding_left_out(w):
    """The rows of the embedding are looked up before the program begins."""
    # Its small programs are looked at when they are compiled, and cases share a process.
    jax.clear_caches()
    sut = load(w)
    table, embedding = (
        sut.model.backbone.token_embedding.embeddings.value,
        sut.model.backbone.token_embedding,
    )
    weights, rows = _weights(sut), []

    def forward(weights, batch, embedded):
        rows[:] = [embedded]
        return _pure(sut)(weights, batch)

    embedding.call = lambda inputs, **_: rows[0]
    program = jax.jit(forward)
    sut.predict = lambda batch: np.asarray(program(weights, batch, table[batch["token_ids"]]))
    return sut


def jit_disabled(w):
    """The measured call is made under jax.disable_jit."""
    return running.around(load(w), jax.disable_jit)


def pure_callback(w):
    """A layer computes in NumPy, from within the program."""
    sut = load(w)
    call_in(
        layers(sut)[0],
        lambda own: (
            lambda x, **named: own(
                jax.pure_callback(
                    lambda a: np.asarray(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x
                ),
                **named,
            )
        ),
    )
    return sut


def debug_print(w):
    """A print for debugging is left in a layer."""
    sut = load(w)

    def change(own):
        def call(x, **named):
            jax.debug.callback(lambda a: None, x)
            return own(x, **named)

        return call

    call_in(layers(sut)[0], change)
    return sut


def quantized(w):
    """Somebody quantised the model, and the cell says float32."""
    sut = load(w)
    sut.model.quantize("int8")
    return recompile(sut)


def bfloat16_in_predict(w):
    """predict allows bfloat16 products."""
    return running.around(load(w), lambda: jax.default_matmul_precision("bfloat16"))


def default_in_predict(w):
    """predict allows whatever the device has by default."""
    return running.around(load(w), lambda: jax.default_matmul_precision("default"))


def default_in_a_layer(w):
    """One layer allows what the device has by default."""
    sut = load(w)

    def change(own):
        def call(*args, **named):
            with jax.default_matmul_precision("default"):
                return own(*args, **named)

        return call

    call_in(layers(sut)[0], change)
    return sut


# That a program of one operator holds products is seen only where it is compiled, and cases share a
# process.
FIRST = ["backbone_jitted", "each_layer_jitted", "model_called", "run_eagerly"]

if __name__ == "__main__":
    running.main({**vars(keras), **globals()}, FIRST, isolated=False)
