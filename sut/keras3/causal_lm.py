"""Language models of KerasHub, generating greedily. The measured call is `generate`; what compiles it makes one loop for each shape."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import keras_hub
from keras import ops

from sut.contract import Unsupported, Workload
from sut.keras.causal_lm import KerasCausalLM, check_positions
from sut.keras3 import exact, runtime

_TIED = {"GemmaBackbone": True, "GPT2Backbone": True, "MistralBackbone": False}
"""Those of KerasHub's classes that tie the head to the embedding always, or never."""


class _Greedy(keras_hub.samplers.GreedySampler):
    """KerasHub's, which goes on from the shortest prompt of a batch to its last column; this one makes no step for the padding of prompts.

    So it makes the steps that it would make of a batch padded to its longest prompt, in fewer shapes. `buckets`: see `sut.padding`.
    """

    def __init__(self, buckets: Sequence[int]):
        super().__init__()
        self.buckets = list(buckets)

    def run_loop(self, cond: Any, body: Any, model: Any = None, loop_vars: Any = None, maximum_iterations: Any = None) -> Any:
        *_, mask = loop_vars
        longest = ops.max(ops.sum(ops.cast(mask, "int32"), axis=-1))
        buckets = ops.convert_to_tensor(self.buckets, "int32")
        padded = ops.min(ops.where(buckets >= longest, buckets, self.buckets[-1]))
        steps = maximum_iterations - (padded - longest)
        return super().run_loop(cond, body, model=model, loop_vars=loop_vars, maximum_iterations=steps)


def check(backbone: type, config: Mapping[str, Any]) -> None:
    """Raises Unsupported for a configuration that Transformers' class has and KerasHub's has not."""
    name, takes = backbone.__name__, inspect.signature(backbone).parameters
    if config["tie_word_embeddings"] != _TIED.get(name, config["tie_word_embeddings"]):
        raise Unsupported(f"KerasHub's {name} ties its head to its embedding {'always' if _TIED[name] else 'never'}: take native-torch")
    if "head_dim" not in takes and config.get("head_dim", 0) * config["num_attention_heads"] not in (0, config["hidden_size"]):
        raise Unsupported(f"KerasHub's {name} has heads of hidden_size / num_attention_heads alone: take native-torch")
    if (kind := config.get("rope_scaling", {}).get("rope_type", "llama3")) != "llama3":
        raise Unsupported(f"KerasHub's {name} scales rotary positions as llama3 does and not otherwise ({kind}): take native-torch")


def load(workload: Workload) -> KerasCausalLM:
    """The checkpoint's model, compiled for greedy generation."""
    config = workload.config["model"]
    check(getattr(keras_hub.models, workload.config["classes"]["keras_hub"]).backbone_cls, config)
    check_positions(workload)
    model = runtime.load_model(workload)
    exact.epsilon(model, config["rms_norm_eps"] if "rms_norm_eps" in config else config["layer_norm_epsilon"])
    sampler = "greedy" if workload.execution == "eager" else _Greedy(workload.config["prompt_buckets"])
    model.compile(optimizer=None, loss=None, weighted_metrics=None, sampler=sampler, jit_compile=workload.execution == "xla")
    return KerasCausalLM(model, workload, runtime, {"stop_token_ids": tuple(workload.config.get("end_tokens", ())) or None})
