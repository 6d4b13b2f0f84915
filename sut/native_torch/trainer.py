"""Trains models of Transformers by Transformers' own loop, `Trainer`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import transformers

from sut.contract import Batch, Call, Evidence, OnStep, Workload
from sut.native_torch import execution, training
from sut.native_torch.training import MeanLoss


class TrainerTraining(execution.OnDevice):
    """A model and its `Trainer`. Its methods are those of `sut.contract.Training`.

    `prepare` becomes the method of this name.
    """

    def __init__(self, model: Any, workload: Workload, prepare: Callable[[Batch], Batch]):
        self.model = model
        self.workload = workload
        self.prepare = prepare
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        self.trainer = _Trainer(model, arguments(workload))
        self.trainer.remove_callback(transformers.PrinterCallback)

    def parameters(self) -> Iterator[np.ndarray]:
        """See `training.parameters`."""
        return training.parameters(self.model)

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Run one call of `train`."""
        callback = _Steps(lambda: on_step(self.trainer.losses))
        self.trainer.batches = (execution.on_device(batch, self.workload) for batch in batches)
        self.trainer.args.max_steps = steps
        self.trainer.add_callback(callback)
        self.trainer.train()
        self.trainer.remove_callback(callback)

    def freeze(self) -> None:
        """Set the learning rate to zero. Each call of `train` computes its schedule again from the
        optimizer's first rate.
        """
        for group in self.trainer.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = 0.0

    def evidence(self, call: Call) -> Evidence:
        """See `execution.evidence`."""
        name = f"Trainer.train of {type(self.model).__name__}"
        return execution.evidence(self.model, self.workload, name, call)


def arguments(workload: Workload) -> Any:
    """Return the settings of `Trainer`: the workload's AdamW, a constant learning rate, no
    clipping, and nothing written or logged.
    """
    constants = workload.config["optimizer"]
    settings = transformers.TrainingArguments(
        output_dir=tempfile.gettempdir(),  # the folder has to exist
        per_device_train_batch_size=workload.batch_size,
        learning_rate=constants["learning_rate"],
        adam_beta1=constants["beta_1"],
        adam_beta2=constants["beta_2"],
        adam_epsilon=constants["epsilon"],
        weight_decay=constants["weight_decay"],
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        logging_strategy="no",
        logging_nan_inf_filter=False,  # otherwise every step would wait for its loss
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=workload.device == "cpu",
    )
    if settings.n_gpu > 1:  # a cell runs on the first GPU
        settings._n_gpu = 1
    return settings


class _Trainer(transformers.Trainer):
    """A `Trainer` that takes the given batches in order."""

    def __init__(self, model: Any, settings: Any):
        super().__init__(model, settings)
        self.batches: Iterable[dict[str, torch.Tensor]] = ()
        self.losses = MeanLoss(settings.device)

    def get_train_dataloader(self) -> Any:
        return self.batches

    def get_decay_parameter_names(self, model: Any) -> list[str]:
        """Return all names, as in every SUT. The library's method leaves out biases and norms."""
        return [name for name, _ in model.named_parameters()]

    def training_step(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
        loss: torch.Tensor = super().training_step(*arguments, **keywords)
        self.losses.add(loss)
        return loss


class _Steps(transformers.TrainerCallback):
    """Calls `on_step` at the end of each step."""

    def __init__(self, on_step: Callable[[], None]):
        self.on_step = on_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.on_step()


def renamed(**names: str) -> Callable[[Batch], Batch]:
    """Return a function that prepares inputs for a model of Transformers: int64 arrays under its
    names. `names`: its name → ours.
    """
    return lambda inputs: {theirs: inputs[ours].astype(np.int64) for theirs, ours in names.items()}
