"""Shared code of the Hugging Face files. It loads a model of Transformers with the checkpoint's
weights, predicts, and takes the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import transformers
from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

from sut.checkpoint import weights_files
from sut.contract import Batch, Call, Evidence, Unsupported, Workload
from sut.keras2 import runtime

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def load_model(workload: Workload) -> Any:
    """Return the checkpoint's model."""
    runtime.configure(workload)
    transformers.utils.logging.set_verbosity_error()
    kind = getattr(transformers, workload.config["classes"]["hf_tensorflow"])
    general = not hasattr(kind, "config_class")
    reader = transformers.AutoConfig if general else kind.config_class
    config = reader.from_pretrained(workload.checkpoint, local_files_only=True)
    if workload.config["model"].get("hidden_act") == "gelu_pytorch_tanh":
        # Transformers' TensorFlow models know the tanh form of GELU only by its older name.
        config.hidden_act = "gelu_new"
    model = _general(kind, config, workload) if general else kind(config)
    model.build_in_name_scope()
    tensors = {
        name: weights_files.tensor(workload.checkpoint, name)
        for name in weights_files.names(workload.checkpoint)
    }
    # `from_pretrained` fails: Transformers 4.57 iterates over the file itself, which safetensors
    # 0.8 does not allow.
    load_pytorch_state_dict_in_tf2_model(
        model,
        tensors,
        tf_inputs=False,  # the model is built already
        # A folder may lack RoBERTa's pooler, which no hidden state depends on.
        allow_missing_keys=True,
        tf_to_pt_weight_rename=getattr(model, "tf_to_pt_weight_rename", None),
    )
    model.jit_compile = workload.execution == "xla"
    return model


def _general(kind: Any, config: Any, workload: Workload) -> Any:
    """Return the model that a general class of Transformers makes of a configuration. Raises
    Unsupported, in its words, if it has no model of this type.
    """
    try:
        return kind.from_config(config)
    except ValueError as e:
        words = " ".join(str(e).split())
        raise Unsupported(f"Transformers does not load this {workload.model}: {words}") from None


def evidence(model: Any, workload: Workload, name: str, call: Call) -> Evidence:
    """See `runtime.evidence`."""
    return runtime.evidence(
        model, workload, f"{name} in a tf.function", call, transformers=transformers.__version__
    )


class Predictor:
    """A model that answers by one forward pass. Its methods are those of
    `sut.contract.Inference`.
    """

    in_flight = 1

    def __init__(self, model: Any, workload: Workload, answer: Callable[[Any], Batch]):
        """Take a loaded model.

        Args:
            answer: Transformers' outputs, by name, as tensors on the device → the answers.
        """
        self.model = model
        self.workload = workload
        self.answer = answer
        self.function = tf.function(self.forward, jit_compile=model.jit_compile)

    def forward(self, inputs: Any) -> Any:
        """Run the measured call, as TensorFlow traces it."""
        return self.model(inputs, training=False)

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs unchanged, in Transformers' names."""
        return {name: inputs[name] for name in _INPUTS if name in inputs}

    def predict(self, batch: Batch) -> Any:
        """Return Transformers' outputs, by name."""
        return self.function(dict(batch))

    def to_host(self, outputs: Any) -> Batch:
        """Return the answers as float32."""
        return self.answer(outputs)

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Call) -> Evidence:
        """See `runtime.evidence`."""
        return evidence(self.model, self.workload, "__call__", call)


def load(workload: Workload) -> Predictor:
    """Return the checkpoint's model. Its answers are the `logits` of a model with a head, and else
    every seventh channel of the last hidden states [batch, length, channels], float32.
    """
    return Predictor(load_model(workload), workload, _answer)


def _answer(outputs: Any) -> Batch:
    if "logits" in outputs:
        return {"logits": to_float32(outputs["logits"])}
    # The channels are taken on the host, so that the graph computes all of them.
    hidden = to_float32(outputs["last_hidden_state"])
    return {"hidden": np.ascontiguousarray(hidden[..., ::7])}


def to_float32(tensor: Any) -> np.ndarray:
    """Return the tensor as float32 on the host."""
    array: np.ndarray = tf.cast(tensor, "float32").numpy()
    return array
