"""Language models of Transformers, which generate greedily. The measured call is `generate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sut import adapters, padding
from sut.contract import Batch, Call, Evidence, Workload
from sut.native_torch import compiled, execution, sharded

if TYPE_CHECKING:
    from sut.native_torch.trainer import TrainerTraining

_TRAINED: dict[str, Any] = {"attention_dropout": 0.0, "use_cache": False}


class TorchCausalLM(execution.OnDevice):
    """A Transformers language model. Its methods are those of `sut.contract.Inference`."""

    in_flight = 1  # generate looks at every token on the host

    def __init__(self, model: Any, workload: Workload):
        self.model = model
        self.workload = workload
        # There is no end token unless a call names some, so every row gets its full count.
        # (min_new_tokens would change the answers.)
        model.generation_config.update(eos_token_id=None, pad_token_id=0, do_sample=False)
        self.caches: compiled.StaticCaches | None = None
        if workload.execution == "compile":
            self.caches = compiled.StaticCaches(model, workload.config)
        self.end_tokens = list(workload.config.get("end_tokens", ()))
        self.shapes: set[tuple[int, ...]] = set()  # shapes of prompts that ran, for `logits`

    def prepare(self, inputs: Batch) -> Batch:
        """Return the ids as int64, which torch's embedding takes without another copy."""
        return {**inputs, "input_ids": inputs["input_ids"].astype(np.int64)}

    def predict(self, batch: Batch) -> tuple[torch.Tensor, np.ndarray]:
        """Return (new tokens [batch, new], how many each row requests).

        Prompts are padded on the left, so that all rows go on at the same column.
        """
        ids, mask, new = self._arranged(batch)
        stop = {"eos_token_id": self.end_tokens} if self.end_tokens else {}
        sequences = self._generate(ids, mask, new, **stop)
        return sequences[:, ids.shape[1] :], batch["max_new_tokens"]

    def stream(self, batch: Batch, on_step: Callable[[np.ndarray], bool]) -> None:
        """Run the measured call. Its stopping criterion hands over each token.

        End tokens are not passed to `generate`, because `on_step` judges them.
        """

        def has_stopped(so_far: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            tokens = so_far[:, -1].to(torch.int32).cpu().numpy()
            is_over = not on_step(tokens)
            return torch.full((len(tokens),), is_over, device=so_far.device)

        self._generate(*self._arranged(batch), stopping_criteria=[has_stopped])

    def _arranged(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, int]:
        """Return (ids, mask, new tokens), of which ids and mask are int64 [batch, prompt], padded
        on the left.
        """
        prompt, new = padding.shape(batch, self.workload.config, eager=self.caches is None)
        lengths = batch["prompt_length"].astype(np.int64)
        ids, mask = padding.left_align(batch["input_ids"][:, :prompt], lengths)
        return np.ascontiguousarray(ids), mask, new

    def _generate(
        self, ids: np.ndarray, mask: np.ndarray, new: int, **arguments: Any
    ) -> torch.Tensor:
        """Run the measured call. ids, mask: int64 [batch, prompt], padded on the left → int64
        [batch, prompt + new].
        """
        self.shapes.add(ids.shape)
        device = self.workload.device
        if self.caches is not None:
            arguments["past_key_values"] = self.caches.emptied(len(ids))
        with torch.no_grad():
            sequences: torch.Tensor = self.model.generate(
                input_ids=torch.from_numpy(ids).to(device),
                attention_mask=torch.from_numpy(mask).to(device),
                max_new_tokens=new,
                **arguments,
            )
        return sequences

    def to_host(self, outputs: tuple[torch.Tensor, np.ndarray]) -> Batch:
        """Return the new tokens, and how many of each row are its answer."""
        on_device, requested = outputs
        tokens = on_device.to(torch.int32).cpu().contiguous().numpy()
        return {"tokens": tokens, "n_tokens": padding.produced(tokens, requested, self.end_tokens)}

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Return the logits of the class's own forward, which runs eagerly. If the measured graphs'
        logits can be computed, they replace these (see `_forced`).
        """
        ids = tokens.astype(np.int64)
        forward = type(self.model).forward
        with torch.no_grad():
            on_device = torch.from_numpy(ids).to(self.workload.device)
            outputs = forward(self.model, input_ids=on_device, use_cache=False)
        logits: np.ndarray = outputs.logits.float().cpu().numpy()
        width = min((w for rows, w in self.shapes if rows == len(ids)), default=None)
        if self.caches is not None and width is not None:
            logits[:, width - 1 :] = self._forced(ids, width)
        return logits

    def _forced(self, ids: np.ndarray, width: int) -> np.ndarray:
        """Return the logits of the measured call that is forced to generate `ids`, float32 [batch,
        length - width + 1, vocabulary], from position width - 1 on.

        `width`: the shortest prompt that ran with as many rows, so that no new graph is needed.
        Graphs return no logits of earlier positions.
        """
        tokens = torch.from_numpy(ids).to(self.workload.device)
        steps: list[np.ndarray] = []

        def force(so_far: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            steps.append(scores.float().cpu().numpy())
            at = so_far.shape[1]
            if at == tokens.shape[1]:
                return scores
            return torch.zeros_like(scores).scatter_(1, tokens[:, at : at + 1], 1.0)

        prompt = np.ascontiguousarray(ids[:, :width])
        new = ids.shape[1] - width + 1
        self._generate(prompt, np.ones_like(prompt), new, logits_processor=[force])
        return np.stack(steps, axis=1)

    def held(self) -> dict[str, Any]:
        """See `sharded.held`."""
        return sharded.held(self.model, self.workload)

    def evidence(self, call: Call) -> Evidence:
        """See `execution.evidence`."""
        name = f"{type(self.model).__name__}.generate"
        return execution.evidence(self.model, self.workload, name, call)


def load(workload: Workload) -> TorchCausalLM:
    """The checkpoint's model, in the workload's precision and execution."""
    return TorchCausalLM(execution.load_model(workload), workload)


def adapt(model: Any, workload: Workload) -> Any:
    """Freeze the model, and replace query and value by peft's layers. Their factors begin with the
    values of `adapters.first`.
    """
    import peft  # its import takes seconds, and only a training needs it

    lora = workload.config["lora"]
    config = peft.LoraConfig(
        r=lora["rank"],
        lora_alpha=lora["alpha"],
        lora_dropout=0.0,
        target_modules=list(adapters.LAYERS),
        bias="none",
    )
    adapted = peft.get_peft_model(model, config).get_base_model()
    with torch.no_grad():
        for number, layer in enumerate(adapted.model.layers):
            for name in adapters.LAYERS:
                factor = getattr(layer.self_attn, name).lora_A["default"].weight
                first = adapters.first(workload.config["model"], lora, number, name)
                factor.copy_(torch.from_numpy(first))
    return adapted


def load_training(workload: Workload) -> TrainerTraining:
    """The checkpoint's model, adapted, in the workload's precision and execution; see `trainer`."""
    # Its import takes seconds, and only a training needs it.
    from sut.native_torch.trainer import TrainerTraining, renamed

    # Each of our labels has the position of the token before it. Transformers would shift `labels`
    # by one position, but not `shift_labels`.
    prepare = renamed(
        input_ids="input_ids", attention_mask="attention_mask", labels="label", shift_labels="label"
    )
    return TrainerTraining(execution.load_model(workload, adapt, **_TRAINED), workload, prepare)
