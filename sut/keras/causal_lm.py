"""Language models of KerasNLP on Keras 2 and of KerasHub on Keras 3. Both generate by the same
call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sut import padding
from sut.contract import AsGiven, Batch, Unsupported, Workload
from sut.keras.model import KerasModel


class KerasCausalLM(KerasModel, AsGiven):
    """A language model of KerasNLP or KerasHub. Its methods are those of
    `sut.contract.Inference`.
    """

    in_flight = 1  # generate copies to the host once, at its end

    def __init__(
        self,
        model: Any,
        workload: Workload,
        runtime: Any,
        arguments: Mapping[str, Any],
        **versions: str,
    ):
        """Take a compiled model.

        Args:
            runtime: `sut.keras2.runtime` or `sut.keras3.runtime`.
            arguments: arguments of `generate` in addition to its inputs.
            versions: versions of libraries, by name, for the evidence.
        """
        super().__init__(model, workload, runtime, "generate", **versions)
        self.config = workload.config
        self.arguments = arguments
        # A text-only Gemma 3 returns its pictures with its tokens, and fails if there are none.
        self.returns_pictures = hasattr(model.backbone, "text_only_model")
        self.end_tokens = tuple(workload.config.get("end_tokens", ()))
        candidates = range(len(self.end_tokens) + 1)
        self.filler = next(i for i in candidates if i not in self.end_tokens)

    def predict(self, batch: Batch) -> tuple[np.ndarray, Batch]:
        """Return (sequences [batch, prompt + new], the batch)."""
        return self.model.generate(self.arranged(batch), **self.arguments)["token_ids"], batch

    def arranged(self, batch: Batch) -> Batch:
        """Return the inputs of `generate`. Prompts stay padded on the right: each row goes on at
        the end of its own prompt.

        The library's loop would take an end token after a prompt for a generated one, so end tokens
        are not used as padding.
        """
        prompt, new = self._shape(batch)
        mask = np.arange(prompt + new) < batch["prompt_length"][:, None]
        ids = np.full(mask.shape, self.filler, np.int32)
        np.copyto(ids[:, :prompt], batch["input_ids"][:, :prompt], where=mask[:, :prompt])
        inputs = {"token_ids": ids, "padding_mask": mask}
        if self.returns_pictures:
            inputs["images"] = np.zeros((len(ids), 0, 1, 1, 3), np.float32)  # no picture a row
        return inputs

    def to_host(self, outputs: tuple[np.ndarray, Batch]) -> Batch:
        """Return the new tokens, and how many of each row are its answer. A shorter prompt's row
        has more new tokens than requested; the surplus is cut.
        """
        sequences, batch = outputs
        _, new = self._shape(batch)
        columns = batch["prompt_length"].astype(np.int64)[:, None] + np.arange(new)
        tokens = np.ascontiguousarray(np.take_along_axis(sequences, columns, axis=1), np.int32)
        return {
            "tokens": tokens,
            "n_tokens": padding.produced(tokens, batch["max_new_tokens"], self.end_tokens),
        }

    def _shape(self, batch: Batch) -> tuple[int, int]:
        return padding.shape(batch, self.config, eager=self.workload.execution == "eager")

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the model's own forward pass, `predict_on_batch`."""
        inputs = {"token_ids": tokens, "padding_mask": np.ones(tokens.shape, bool)}
        return np.asarray(self.forward_pass.predict_on_batch(inputs), np.float32)

    @property
    def forward_pass(self) -> Any:
        """The model that predicts logits."""
        return self.model


def check_positions(workload: Workload) -> None:
    """Raises Unsupported if a padded batch is longer than GPT-2's table of positions. Keras takes a
    row of the table for each column.
    """
    config = workload.config
    model = config["model"]
    columns = config["prompt_buckets"][-1] + config["new_token_buckets"][-1]
    is_padded = model["model_type"] == "gpt2" and workload.execution != "eager"
    if is_padded and columns > model["max_position_embeddings"]:
        raise Unsupported(
            f"prompts and answers are padded to {columns} tokens, and GPT-2 has"
            f" {model['max_position_embeddings']} positions: take shorter prompts, or"
            " native-torch-eager"
        )
