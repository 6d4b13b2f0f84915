"""SUTs of Keras 2, each with one mistake: `python -m tests.broken.keras2 SPEC.json`."""

from sut.keras2 import bert, causal_lm
from tests.broken import on_tensorflow, running


def load(w):
    return (causal_lm if w.task == "generate" else bert).load(w)


def recompile(sut, **arguments):
    """`model.compile` again, as an author would who adds an argument."""
    if sut.workload.task == "generate":
        arguments["sampler"] = "greedy"
    sut.model.compile(optimizer="sgd", loss=None, metrics=None, **arguments)
    return sut


def without_xla(w):
    """Keras is told not to compile by XLA."""
    return recompile(load(w), jit_compile=False)


def xla(w):
    """Keras is told to."""
    return recompile(load(w), jit_compile=True)


def run_eagerly(w):
    """Somebody debugged, and left run_eagerly."""
    return recompile(load(w), run_eagerly=True)


def functions_run_eagerly(w):
    """TensorFlow is told to run functions operator by operator, after they were traced."""
    return on_tensorflow.run_functions_eagerly(load(w))


def mixed_policy(w):
    """One layer makes bfloat16 of its float32 weights."""
    sut = load(w)
    sut.model.output_dense._set_dtype_policy("mixed_bfloat16")  # Keras 2 has no other way
    return sut


if __name__ == "__main__":
    running.main(globals())
