"""Language models of KerasNLP on Keras 2, which generate greedily. The measured call is `generate`,
which traces one loop for each shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras_nlp
import numpy as np
import tensorflow as tf

from sut.checkpoint import causal_lm_keras_nlp, keras_weights, weights_files
from sut.contract import Config, Unsupported, Workload
from sut.keras.causal_lm import KerasCausalLM, check_positions
from sut.keras2 import runtime


class _Greedy(keras_nlp.samplers.GreedySampler):
    """A greedy sampler that makes no step for the padding of prompts, and knows several end tokens.

    KerasNLP's sampler goes on from the shortest prompt of a batch to the last column, and knows
    only a tokenizer's end token. `sut/keras3/causal_lm.py` has a similar class.
    """

    def __init__(self, buckets: Sequence[int], end_tokens: Sequence[int]):
        """`buckets`: see `sut.padding`."""
        super().__init__()
        self.buckets = list(buckets)
        self.end_tokens = list(end_tokens)

    def __call__(self, *given: Any, mask: Any, **named: Any) -> Any:
        self.mask = tf.cast(mask, tf.bool)
        return super().__call__(*given, mask=mask, **named)

    def run_loop(
        self,
        cond: Any,
        body: Any,
        model: Any = None,
        loop_vars: Any = None,
        maximum_iterations: Any = None,
    ) -> Any:
        mask = self.mask
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=-1)
        longest = tf.reduce_max(lengths)
        enough = tf.where(self.buckets >= longest, self.buckets, self.buckets[-1])
        padded = tf.reduce_min(enough)

        def goes_on(tokens: Any, cache: Any, index: Any) -> Any:
            if not self.end_tokens:
                return True
            ends = tf.reduce_any(tokens[..., None] == self.end_tokens, axis=-1) & ~mask
            ended = tf.reduce_any(ends, axis=-1)
            return ~tf.reduce_all(ended)

        steps = maximum_iterations - (padded - longest)
        return super().run_loop(
            goes_on, body, model=model, loop_vars=loop_vars, maximum_iterations=steps
        )


def load(workload: Workload) -> KerasCausalLM:
    """The checkpoint's model, compiled for greedy generation."""
    model = build(workload)
    sampler = _Greedy(workload.config["prompt_buckets"], workload.config.get("end_tokens", ()))
    runtime.compile_to_predict(model, workload, sampler=sampler)
    return KerasCausalLM(model, workload, runtime, {}, keras_nlp=keras_nlp.__version__)


def build(workload: Workload) -> Any:
    """Return the checkpoint's model, without dropout, which only affects training."""
    config = workload.config["model"]
    folder = workload.checkpoint
    if config["model_type"] == "mistral":
        _check_mistral(config)
    check_positions(workload)
    runtime.configure(workload)
    backbone, table = _BACKBONES[config["model_type"]]
    kind = getattr(keras_nlp.models, workload.config["classes"]["keras_nlp"])
    model = kind(backbone(config), preprocessor=None)
    prefix = "transformer." if "transformer.wte.weight" in weights_files.names(folder) else ""
    for path, name, third, turned in table(config["num_hidden_layers"]):
        variable = keras_weights.at(model, path)
        value = weights_files.tensor(folder, prefix + name).astype(np.float32, copy=False)
        if third is not None:
            value = np.split(value, 3, axis=-1)[third]
        if turned:
            value = value.T
        variable.assign(value.reshape(variable.shape))
    return model


def _check_mistral(config: Config) -> None:
    """Raises Unsupported for a configuration that KerasNLP's Mistral ignores."""
    width = config.get("head_dim", 0) * config["num_attention_heads"]
    lacks = {
        "heads of another width than hidden_size / num_attention_heads": (
            width not in (0, config["hidden_size"])
        ),
        "a head that is tied to the embedding": config["tie_word_embeddings"],
        "scaled rotary positions": "rope_scaling" in config,
    }
    for feature, required in lacks.items():
        if required:
            raise Unsupported(f"KerasNLP's Mistral lacks {feature}: take native-torch")


def _mistral(config: Config) -> Any:
    return keras_nlp.models.MistralBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_query_heads=config["num_attention_heads"],
        num_key_value_heads=config["num_key_value_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        rope_max_wavelength=config["rope_theta"],
        layer_norm_epsilon=config["rms_norm_eps"],
        sliding_window=config.get("sliding_window") or config["max_position_embeddings"],
    )


def _gpt2(config: Config) -> Any:
    backbone = keras_nlp.models.GPT2Backbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=4 * config["hidden_size"],
        max_sequence_length=config["max_position_embeddings"],
        dropout=0.0,
    )
    for layer in backbone._flatten_layers():  # KerasNLP has 1e-5 and accepts no other
        if hasattr(layer, "epsilon"):
            layer.epsilon = config["layer_norm_epsilon"]
    return backbone


_BACKBONES = {
    "mistral": (_mistral, causal_lm_keras_nlp.mistral),
    "gpt2": (_gpt2, causal_lm_keras_nlp.gpt2),
}
