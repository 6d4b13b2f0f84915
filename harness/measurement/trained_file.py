"""The labels and the weights of a user's own file that is trained. The file does not contain the
shapes of its outputs, so a process with the SUT's framework loads it and reports them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from formats.writing import json_digest, read_json, write_json
from harness.errors import UsageError
from harness.execution import programs
from harness.execution.environments import ROOT, Environment
from harness.inputs.architectures import keras_file
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.keras_labels import Label
from harness.inputs.models.drawn import Tensor
from harness.request.request import Request
from sut.contract import Workload
from sut.devices import HOST

_PROGRAM = "sut.keras_description"
_SOURCES = ("keras_description", "keras_archive", "keras_config")
_SAMPLES = 8  # a random flip of a picture may leave a few of them as they are


def described(request: Request, checkpoint: Checkpoint, environment: Environment) -> Request:
    """Return the request with the labels and weights of its model. Raises UsageError with the
    framework's words if it cannot load or call the model.
    """
    rows = keras_file.first_inputs(request.size, request.options.dataset, _SAMPLES)
    found = _description(request, checkpoint, environment, rows)
    if found["refused"]:
        raise UsageError(f"--model {request.options.model}: {found['refused']}")
    config = request.size.config
    labels = [
        Label(name=name, loss=loss, shape=tuple(shape))
        for name, loss, shape in zip(
            config["labels"], request.size.inputs["losses"], found["outputs"], strict=True
        )
        if name
    ]
    inputs = {**request.size.inputs, "labels": tuple(labels), "random": found["random"]}
    tensors = []
    for name, shape, trained in found["weights"]:
        beginning = keras_file.TRAINED if trained else ""
        tensors.append(Tensor(name=beginning + name, shape=tuple(shape), mean=0.0, std=0.0))
    size = replace(request.size, inputs=inputs, tensors=tuple(tensors))
    return replace(request, size=size, reasons=(*request.reasons, *_notes(request, found["lost"])))


def _notes(request: Request, lost: list[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a note on each argument of a loss that the file does not hold."""
    assert request.model.file
    for loss, argument, value in lost:
        yield (
            f"the file holds no {argument} of its loss {loss} (Keras"
            f" {request.model.file.version} does not store it), so {value} is used"
        )


def _description(
    request: Request, checkpoint: Checkpoint, environment: Environment, rows: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The output of the program. The cache keeps it by everything that decides it."""
    workload = Workload(
        model=request.model.name,
        task=request.task,
        config={"model": dict(request.size.config)},
        checkpoint=checkpoint.path,
        precision=request.precision,
        batch_size=_SAMPLES,
        device=HOST,
        backend=request.spec.backend,
        execution="eager",
    )
    given = json.dumps({**asdict(workload), "checkpoint": str(checkpoint.path)})
    shapes = {name: array.shape for name, array in rows.items()}
    sources = [(ROOT / "sut" / f"{name}.py").read_text(encoding="utf-8") for name in _SOURCES]
    parts = [given, shapes, environment.lock_sha256, *sources]
    name = f"{request.model.name}-{json_digest(parts, 16)}.json"
    kept = request.options.cache / "descriptions" / name
    if not kept.exists():
        found = _run(request, environment, given, rows)
        if found["refused"]:
            return found
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, found)
    return dict(read_json(kept))


def _run(
    request: Request, environment: Environment, given: str, rows: dict[str, np.ndarray]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        out = Path(folder) / "description.json"
        np.savez(inputs, allow_pickle=False, **rows)
        variables = request.spec.process_env
        words = (given, inputs, out)
        fault = programs.run(_PROGRAM, environment, variables, words, Path(folder))
        if fault:
            return {"refused": f"cannot be called with {_SAMPLES} inputs: {fault}"}
        return dict(read_json(out))
