"""Models of pictures of Transformers, with a head that classifies or without a head. The measured
call is the model's own `__call__`.
"""

from __future__ import annotations

import torch

from sut.contract import Batch, Workload
from sut.native_torch import execution


class TorchPictureEncoder(execution.OneModel):
    """A Transformers model of pictures. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs, which have the model's own names and layout."""
        return inputs

    def predict(self, batch: Batch) -> tuple[str, execution.OnItsWay]:
        """Return (the name of the answers, the answers, float32, not yet on the host): `logits`
        [batch, classes], or `hidden`, the last hidden states [batch, tokens, channels] or [batch,
        channels, rows, columns].
        """
        pixels = execution.to_device(batch["pixel_values"], self.workload.device)
        with torch.no_grad():
            outputs = self.model(pixel_values=pixels.to(self.model.dtype))
        if hasattr(outputs, "logits"):
            return "logits", execution.OnItsWay(outputs.logits.float())
        return "hidden", execution.OnItsWay(outputs.last_hidden_state.float())

    def to_host(self, outputs: tuple[str, execution.OnItsWay]) -> Batch:
        """Return the answers, once they have arrived. Of hidden states it is every seventh
        channel.
        """
        name, on_its_way = outputs
        answers = on_its_way.wait()
        if name == "hidden":
            answers = answers[:, ::7] if answers.ndim == 4 else answers[..., ::7]
        return {name: answers.contiguous().numpy()}


def load(workload: Workload) -> TorchPictureEncoder:
    """The checkpoint's model, in the workload's precision and execution."""
    return TorchPictureEncoder(execution.load_model(workload), workload)
