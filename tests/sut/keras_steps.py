"""How many steps Keras' loop makes of uneven prompts, in the environment of a Keras SUT.

`python -m tests.sut.keras_steps SPEC.json` writes steps.json beside the specification.
"""

import sys
from pathlib import Path

import numpy as np

from formats.writing import write_json
from sut.contract import Workload
from sut.registry import load_module
from tests.support.files import read_json

LENGTHS, NEW = np.array([3, 5, 9], np.int32), 8


def generated(sut, sampler, counted, wait):
    """The tokens of three prompts, and how often a next one was chosen.

    Args:
        counted: makes the compiled loop add to a list at each step.
        wait: until all additions are done.
    """
    own, chosen = sampler.get_next_token, []

    def get_next_token(probabilities):
        counted(chosen)
        return own(probabilities)

    sampler.get_next_token = get_next_token
    ids = (
        np.random.default_rng(7)
        .integers(3, sut.config["model"]["vocab_size"], (3, 16))
        .astype(np.int32)
    )
    batch = {
        "input_ids": ids,
        "prompt_length": LENGTHS,
        "max_new_tokens": np.full(3, NEW, np.int32),
    }
    tokens = sut.to_host(sut.predict(sut.prepare(batch)))["tokens"]
    wait()
    return {"tokens": tokens.tolist(), "steps": len(chosen)}


def on_jax(sut):
    """Keras 3 on JAX."""
    import jax

    return generated(
        sut,
        sut.model.sampler,
        lambda chosen: jax.debug.callback(lambda: chosen.append(1)),
        jax.effects_barrier,
    )


def on_tensorflow(sut):
    """Keras 2, whose graphs may call Python where XLA does not compile them."""
    import tensorflow as tf

    return generated(
        sut,
        sut.model._sampler,
        lambda chosen: tf.py_function(lambda: chosen.append(1), [], []),
        lambda: None,
    )


def main(specification):
    told = {}
    for case, spec in read_json(specification).items():
        workload = Workload(
            **{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])}
        )
        told[case] = (on_jax if workload.backend == "jax" else on_tensorflow)(
            load_module(spec["sut"], "causal_lm").load(workload)
        )
    write_json(specification.parent / "steps.json", told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
