"""Models of Transformers 4 on Keras 2, classifiers and models without a head.

The measured call is a `tf.function` of the model, as in Hugging Face's benchmark of 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import transformers
from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

from sut import weights_files
from sut.contract import Batch, Evidence, Workload
from sut.keras2 import runtime

_INPUTS = ("input_ids", "attention_mask")
# Name of an answer of Transformers → the name it has here, and every how many channels it is taken.
_ANSWERS = {"logits": ("logits", 1), "last_hidden_state": ("hidden", 7)}


class HuggingFaceModel:
    """A TensorFlow model of Transformers. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload
        self.function = tf.function(lambda inputs: model(inputs, training=False), jit_compile=workload.execution == "xla")

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are, in Transformers' names."""
        return {name: inputs[name] for name in _INPUTS if name in inputs}

    def predict(self, batch: Batch, on_first_token: Any = None) -> Any:
        """→ what Transformers answers, by name: logits, or the last hidden states."""
        return self.function(dict(batch))

    def to_host(self, outputs: Any) -> Batch:
        """The answers as float32; of hidden states every seventh channel, taken here so that the graph computes all of them."""
        return {
            name: np.ascontiguousarray(tf.cast(outputs[key], "float32").numpy()[..., ::step])
            for key, (name, step) in _ANSWERS.items()
            if key in outputs
        }

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "__call__ in a tf.function", call, transformers=transformers.__version__)


def load(workload: Workload) -> HuggingFaceModel:
    """The checkpoint's model."""
    runtime.configure(workload)
    transformers.utils.logging.set_verbosity_error()
    kind = getattr(transformers, workload.config["classes"]["hf_tensorflow"])
    # Transformers' TensorFlow models know the tanh form of GELU by its older name alone.
    renamed = {"hidden_act": "gelu_new"} if workload.config["model"].get("hidden_act") == "gelu_pytorch_tanh" else {}
    model = kind(kind.config_class.from_pretrained(workload.checkpoint, local_files_only=True, **renamed))
    model.build_in_name_scope()
    # Not `from_pretrained`: Transformers 4.57 iterates over the file itself, which safetensors 0.8 does not allow.
    load_pytorch_state_dict_in_tf2_model(
        model,
        {name: weights_files.tensor(workload.checkpoint, name) for name in weights_files.names(workload.checkpoint)},
        tf_inputs=False,  # it is built
        allow_missing_keys=True,  # a folder may lack RoBERTa's pooler, which no hidden state depends on
        tf_to_pt_weight_rename=getattr(model, "tf_to_pt_weight_rename", None),
    )
    model.jit_compile = workload.execution == "xla"
    return HuggingFaceModel(model, workload)
