"""Language models of KerasHub, which generate greedily. The measured call is `generate`; a compiler
creates one loop for each shape.

LoRA trains them by KerasHub's own `enable_lora`. It computes the whole kernel again at each step,
with the product of its two factors added.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from sut import adapters
from sut.contract import Batch, Config, Unsupported, Workload
from sut.keras.causal_lm import KerasCausalLM, check_positions
from sut.keras.training import KerasTraining
from sut.keras3 import converted, exact, runtime, streaming, training

_NO_LABEL = -100
# KerasHub's names of the adapted products, in its Gemma and in its other models.
_NAMES = {
    "query_dense": adapters.QUERY,
    "value_dense": adapters.VALUE,
    "_query_dense": adapters.QUERY,
    "_value_dense": adapters.VALUE,
}
_TIED = {"GemmaBackbone": True, "GPT2Backbone": True, "MistralBackbone": False}
"""KerasHub's classes that always (True) or never (False) tie the head to the embedding."""


class _Greedy(keras_hub.samplers.GreedySampler):
    """A greedy sampler that makes no step for the padding of prompts. KerasHub's own goes on from
    the shortest prompt of a batch to its last column.

    It makes as many steps as for a batch that is padded to its longest prompt, but needs fewer
    shapes. `buckets`: see `sut.padding`.
    """

    def __init__(self, buckets: Sequence[int]):
        super().__init__()
        self.buckets = list(buckets)

    def run_loop(
        self,
        cond: Any,
        body: Any,
        model: Any = None,
        loop_vars: Any = None,
        maximum_iterations: Any = None,
    ) -> Any:
        *_, mask = loop_vars
        lengths = ops.sum(ops.cast(mask, "int32"), axis=-1)
        longest = ops.max(lengths)
        buckets = ops.convert_to_tensor(self.buckets, "int32")
        enough = ops.where(buckets >= longest, buckets, self.buckets[-1])
        padded = ops.min(enough)
        steps = maximum_iterations - (padded - longest)
        return super().run_loop(
            cond, body, model=model, loop_vars=loop_vars, maximum_iterations=steps
        )


def check(backbone: type, config: Config) -> None:
    """Raises Unsupported for a configuration that KerasHub's class does not support."""
    name = backbone.__name__
    is_tied = config["tie_word_embeddings"]
    if is_tied != _TIED.get(name, is_tied):
        raise Unsupported(
            f"KerasHub's {name} ties its head to its embedding"
            f" {'always' if _TIED[name] else 'never'}: take native-torch"
        )
    width = config.get("head_dim", 0) * config["num_attention_heads"]
    takes_head_dim = "head_dim" in inspect.signature(backbone).parameters
    if not takes_head_dim and width not in (0, config["hidden_size"]):
        raise Unsupported(
            f"KerasHub's {name} has only heads of hidden_size / num_attention_heads: take"
            " native-torch"
        )
    kind = config.get("rope_scaling", {}).get("rope_type", "llama3")
    if kind != "llama3":
        raise Unsupported(
            f"KerasHub's {name} scales rotary positions as llama3 does and not otherwise ({kind}):"
            " take native-torch"
        )


class StreamingCausalLM(KerasCausalLM):
    """A language model of KerasHub, whose tokens can be handed over one by one."""

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Run `generate_step` token by token. See `streaming`."""
        self.stepwise.run(self.arranged(batch), int(batch["max_new_tokens"].max()), on_step)

    @cached_property
    def stepwise(self) -> streaming.Stepwise:
        """The compiled steps, if anything is streamed."""
        return streaming.Stepwise(self.model)


class WholeCausalLM(KerasCausalLM):
    """A language model of KerasHub on OpenVINO, with a program for each length of sequences.

    KerasHub itself keeps only the program of the last length, and compiles at each change. Its
    `generate` also compiles two more programs at each call, which copy the answer to the host. So
    the function that `generate` calls is called.
    """

    @cached_property
    def programs(self) -> dict[int, tuple[Any, Any]]:
        """Tokens of a sequence → (its compiled program, the structure of its outputs)."""
        return {}

    def predict(self, batch: Batch) -> tuple[np.ndarray, Batch]:
        """Return (sequences [batch, prompt + new], the batch)."""
        length = sum(self._shape(batch))
        program = self.programs.get(length, (None, None))
        self.model.ov_compiled_model, self.model.struct_outputs = program
        generate = self.model.make_generate_function()
        sequences = generate(self.arranged(batch), **self.arguments)["token_ids"]
        self.programs[length] = self.model.ov_compiled_model, self.model.struct_outputs
        return sequences, batch

    @cached_property
    def forward_pass(self) -> Any:
        """The layers of `model`, which predict logits."""
        return runtime.predictor(self.model)


def load(workload: Workload) -> KerasCausalLM:
    """The checkpoint's model, compiled for greedy generation."""
    config = workload.config["model"]
    kind = runtime.kind_of(workload)
    remark = ""
    if kind is keras_hub.models.CausalLM:
        model = converted.load_model(workload)
        remark = converted.check_windows(model.backbone, workload)
    else:
        check(kind.backbone_cls, config)
        check_positions(workload)
        model = runtime.load_model(workload)
    epsilon = config.get("rms_norm_eps", config.get("layer_norm_epsilon"))
    if epsilon is not None:
        exact.epsilon(model, epsilon)
    runtime.quantize(model, workload)
    sampler: Any = "greedy"
    if workload.execution != "eager":
        sampler = _Greedy(workload.config["prompt_buckets"])
    model.compile(
        optimizer=None,
        loss=None,
        weighted_metrics=None,
        sampler=sampler,
        jit_compile=workload.execution == "xla",
    )
    if workload.precision == "float16":
        _try(model)
    end_tokens = tuple(workload.config.get("end_tokens", ()))
    kind_of_answer = StreamingCausalLM if hasattr(runtime.backend, "compiled") else WholeCausalLM
    facts = {"remark": remark} if remark else {}
    return kind_of_answer(model, workload, runtime, {"stop_token_ids": end_tokens or None}, **facts)


def _try(model: Any) -> None:
    """Run one token through the model. Raises Unsupported if the backend has no product for it:
    JAX on a CPU has none for the attention of some models in float16.
    """
    token = np.ones((1, 1), np.int32)
    try:
        model.predict_on_batch({"token_ids": token, "padding_mask": token.astype(bool)})
    except ValueError as e:
        words = " ".join(str(e).partition("\n")[0].split())
        raise Unsupported(f"Keras does not run this model in float16: {words}") from None


def adapt(model: Any, config: Config, lora: Config) -> None:
    """Freeze the model, and add LoRA's factors to query and value of each layer. The factors begin
    with the values of `adapters.first`.
    """
    model.backbone.enable_lora(lora["rank"])
    for number, block in enumerate(model.backbone.transformer_layers):
        # (layer, its attribute) of each product of a block that LoRA adapts.
        products = []
        for layer in block._flatten_layers():
            products += [(layer, name) for name in _NAMES if hasattr(layer, name)]
        for attention, attribute in products:
            dense = getattr(attention, attribute)
            first = adapters.first(config, lora, number, _NAMES[attribute])
            dense.lora_alpha = lora["alpha"]
            values = first if _heads_first(dense) else first.transpose(1, 0, 2)
            dense.lora_kernel_a.assign(values)


def _heads_first(dense: Any) -> bool:
    """Return whether the kernel of `dense` is [heads, in, head_dim]. False: it is [in, heads,
    head_dim].
    """
    inputs, rest = dense.equation.split(",")
    return bool(rest[0] != inputs[-1])


def named(inputs: Batch) -> Batch:
    """Return the inputs under KerasHub's names."""
    return {"token_ids": inputs["input_ids"], "padding_mask": inputs["attention_mask"]}


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's model, adapted and compiled for training; see `training`."""
    config = workload.config["model"]
    kind = runtime.kind_of(workload)
    check(kind.backbone_cls, config)
    model = runtime.load_model(workload)
    exact.epsilon(model, config["rms_norm_eps"])
    adapt(model, config, workload.config["lora"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=_NO_LABEL)
    return training.compiled(model, workload, named, loss, weighted_metrics=None, sampler="greedy")
