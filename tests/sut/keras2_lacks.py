"""Runs in the environment of Keras 2: what comes of the models that the registry calls unsupported
there.
"""

from contextlib import contextmanager

import keras_nlp
import tf_keras

_SIZES = {
    "vocabulary_size": 50,
    "num_layers": 1,
    "num_query_heads": 2,
    "num_key_value_heads": 1,
    "hidden_dim": 8,
    "intermediate_dim": 16,
}


def mistral_fit():
    backbone = keras_nlp.models.MistralBackbone(**_SIZES)
    backbone.enable_lora(4)
    if not backbone.trainable_weights:
        raise ValueError("no weight is left to train")


@contextmanager
def _bfloat16():
    tf_keras.mixed_precision.set_global_policy("bfloat16")
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")


def in_bfloat16(build):
    """The same in bfloat16; in float32 it generates."""

    def tried():
        with _bfloat16():
            build()

    return tried


def tried():
    """As the registry names it → the error."""
    models = keras_nlp.models
    gpt2 = in_bfloat16(lambda: models.GPT2Backbone(50, 1, 2, 8, 16))
    cases = {
        "gemma": lambda: models.GemmaBackbone(**_SIZES, head_dim=4),
        "llama": lambda: models.LlamaBackbone(**_SIZES),
        "qwen3": lambda: models.Qwen3Backbone(**_SIZES),
        "gemma3": lambda: models.Gemma3Backbone(**_SIZES),
        "mistral/bfloat16": in_bfloat16(lambda: models.MistralBackbone(**_SIZES)),
        "gpt2/generate/bfloat16": gpt2,
        "distilgpt2/generate/bfloat16": gpt2,
        "mistral/fit": mistral_fit,
    }
    return {name: _error(case) for name, case in cases.items()}


def _error(case):
    try:
        case()
    except Exception as e:  # noqa: BLE001  whatever the library says
        return f"{type(e).__name__}: {e}"
    return "it ran"
