"""Language models that generate greedily. The measured call is `generate` in a `tf.function`, which
traces one loop for each shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from sut import padding
from sut.contract import AsGiven, Batch, Call, Evidence, Unsupported, Workload
from sut.hf_tensorflow import library
from sut.keras2 import older_mistral, runtime


class TensorFlowCausalLM(AsGiven):
    """A language model. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1

    def __init__(self, workload: Workload):
        self.model = library.load_model(workload)
        self.workload = workload
        self.end_tokens = list(workload.config.get("end_tokens", ()))
        # The checkpoint's own generation_config.json is not used: there is no end token unless the
        # workload names some.
        self.model.generation_config.update(
            eos_token_id=self.end_tokens or None,
            pad_token_id=self.end_tokens[0] if self.end_tokens else None,
            do_sample=False,
            num_beams=1,
        )
        self.generate = tf.function(self.model.generate, jit_compile=self.model.jit_compile)
        self.forward = tf.function(
            lambda ids: self.model(ids, use_cache=False, training=False).logits,
            jit_compile=self.model.jit_compile,
        )

    def predict(self, batch: Batch) -> tuple[Any, np.ndarray]:
        """Return (new tokens [batch, new], how many each row requests).

        Prompts are padded on the left, so that all rows go on at the same column.
        """
        prompt, new = padding.shape(batch, self.workload.config)
        lengths = batch["prompt_length"].astype(np.int64)
        ids, mask = padding.left_align(batch["input_ids"][:, :prompt], lengths)
        tensors = {
            "input_ids": tf.constant(ids, tf.int32),
            "attention_mask": tf.constant(mask, tf.int32),
        }
        return self.generate(**tensors, max_new_tokens=new)[:, prompt:], batch["max_new_tokens"]

    def to_host(self, outputs: tuple[Any, np.ndarray]) -> Batch:
        """Return the new tokens, and how many of each row are its answer."""
        on_device, requested = outputs
        tokens = np.ascontiguousarray(on_device.numpy(), np.int32)
        return {"tokens": tokens, "n_tokens": padding.produced(tokens, requested, self.end_tokens)}

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the model's own forward pass, in a `tf.function` too."""
        return library.to_float32(self.forward(tf.constant(tokens, tf.int32)))

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Call) -> Evidence:
        """See `runtime.evidence`."""
        return library.evidence(self.model, self.workload, "generate", call)


def load(workload: Workload) -> TensorFlowCausalLM:
    """Return the checkpoint's model. Raises Unsupported for answers of one token, and for a Mistral
    that the library's class cannot compute.
    """
    model = workload.config["model"]
    if workload.config["new_token_buckets"] == [1]:
        raise Unsupported(
            "Transformers' generation in TensorFlow makes two tokens at least (ValueError in its"
            " loop): take --new-tokens 2, or keras3-tensorflow"
        )
    if model["model_type"] == "mistral":
        longest = workload.config["prompt_buckets"][-1] + workload.config["new_token_buckets"][-1]
        window = model.get("sliding_window") or longest
        slides = {f"a sliding window, and {longest} tokens need it": longest > window}
        older_mistral.check("Transformers' Mistral for TensorFlow", model, slides)
    return TensorFlowCausalLM(workload)
