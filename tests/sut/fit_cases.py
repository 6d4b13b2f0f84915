"""Trains a real SUT at size tiny, as it is and with mistakes, in its own environment. `python -m
tests.sut.fit_cases SPEC.json`.

The specification has a job's file → its case; each leaves what a worker leaves: steps.json and the
outcome.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from formats.job import Job, read_job
from formats.writing import write_json
from scenarios.worker import fit
from scenarios.worker.heartbeat import Heartbeat
from sut.contract import Workload
from sut.registry import loader


def honest(job: Job) -> Any:
    """The SUT as it is."""
    return loader(job.sut, job.architecture, job.workload.task)(job.workload)


def twice_the_rate(job: Job) -> Any:
    """A learning rate twice as high."""
    optimizer = job.workload.config["optimizer"]
    changed = {
        **job.workload.config,
        "optimizer": {**optimizer, "learning_rate": 2 * optimizer["learning_rate"]},
    }
    return honest(replace(job, workload=replace(job.workload, config=changed)))


def changes_the_files_rate(job: Job) -> Any:
    """Trains the model of a `.keras` file with twice its learning rate."""
    sut = honest(job)
    optimizer = sut.model.optimizer
    optimizer.learning_rate = 2 * float(optimizer.learning_rate)
    return sut


def twice_the_scale(job: Job) -> Any:
    """What LoRA adds counts twice, as by another alpha."""
    return _with_lora(job, alpha=2 * job.workload.config["lora"]["alpha"])


def freezes_an_adapter(job: Job) -> Any:
    """Leaves the first layer's factors as they are."""
    sut = honest(job)
    for parameter in sut.model.model.layers[0].parameters():
        parameter.requires_grad_(False)
    return sut


def drops_out_of_adapters(job: Job) -> Any:
    """Trains with peft's dropout."""
    from torch import nn

    sut = honest(job)
    for module in sut.model.modules():
        if hasattr(module, "lora_dropout"):
            module.lora_dropout["default"] = nn.Dropout(0.1)
    return sut


def _with_lora(job: Job, **changes: Any) -> Any:
    lora = {**job.workload.config["lora"], **changes}
    return honest(
        replace(job, workload=replace(job.workload, config={**job.workload.config, "lora": lora}))
    )


def in_bfloat16(job: Job) -> Any:
    """Computes in bfloat16 where float32 is asked for."""
    workload: Workload = replace(job.workload, precision="bfloat16")
    return honest(replace(job, workload=workload))


def skips_a_batch(job: Job) -> Any:
    """Trains on the second batch twice and never on the third one."""
    return _with_batches(honest(job), lambda batches: [*batches[:2], batches[1], *batches[3:]])


def shuffles(job: Job) -> Any:
    """Takes the batches in another order."""
    return _with_batches(honest(job), lambda batches: batches[::-1])


def freezes_a_layer(job: Job) -> Any:
    """Leaves the first layer of the encoder as it is."""
    sut = honest(job)
    sut.model.bert.encoder.layer[0].requires_grad_(False)
    return sut


def drops_out(job: Job) -> Any:
    """Trains with the dropout of the model's configuration."""
    from torch import nn

    sut = honest(job)
    for module in sut.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    return sut


def runs_eagerly(job: Job) -> Any:
    """Was compiled, and calls the model's own forward, or the function that was to be compiled."""
    sut = honest(job)
    if job.sut == "native-jax":
        sut.program = sut.program.__wrapped__
        return sut
    sut.model.forward = type(sut.model).forward.__get__(sut.model)
    return sut


def _with_batches(sut: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    own = sut.fit

    def changed(batches: Iterable[Any], steps: int, on_step: Any) -> None:
        own(iter(change(list(batches)) if steps > 3 else batches), steps, on_step)

    sut.fit = changed
    return sut


def main(specification: Path) -> None:
    """Run every case of the specification."""
    for file, name in json.loads(specification.read_text()).items():
        job = read_job(Path(file))
        outcome = fit.train(job, globals()[name](job), Heartbeat(job.log_dir / "heartbeat"), 0)
        write_json(job.log_dir / "outcome.json", outcome)
        forget()


def forget() -> None:
    """In a run each model has a process of its own. Here TensorFlow's evidence would count the
    graphs of those before, too.
    """
    if backend := sys.modules.get("sut.keras.on_tensorflow"):
        backend._functions_run.clear()
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
