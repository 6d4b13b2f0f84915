"""Models of Transformers without a head. The measured call is the model's own `__call__`."""

from __future__ import annotations

import numpy as np
import torch

from sut.contract import Batch, Workload
from sut.native_torch import execution


class TorchHiddenStates(execution.OneModel):
    """A Transformers model without a head. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs as int64, which torch's embedding takes without another copy."""
        return {name: values.astype(np.int64) for name, values in inputs.items()}

    def predict(self, batch: Batch) -> execution.OnItsWay:
        """Return the last hidden states, float32 [batch, length, channels], not yet on the host."""
        with torch.no_grad():
            hidden = self.model(**execution.on_device(batch, self.workload)).last_hidden_state
        return execution.OnItsWay(hidden.float())

    def to_host(self, outputs: execution.OnItsWay) -> Batch:
        """Return every seventh channel of the hidden states, once they have arrived. All channels
        are copied to the host, as Keras does.
        """
        return {"hidden": outputs.wait()[..., ::7].contiguous().numpy()}


def load(workload: Workload) -> TorchHiddenStates:
    """The checkpoint's model, in the workload's precision and execution."""
    return TorchHiddenStates(execution.load_model(workload), workload)
