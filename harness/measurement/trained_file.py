"""The labels and the weights of a user's own file that is trained. The file does not contain the
shapes of its outputs, so a process with the SUT's framework loads it and reports them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.execution.environments import ROOT, Environment
from harness.inputs.architectures import keras_file
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.keras_labels import Label
from harness.inputs.models.drawn import Tensor
from harness.request.request import Request
from sut.contract import Workload
from sut.devices import DEVICES, HOST

_PROGRAM = "sut.keras_description"
_SAMPLES = 2
_LIMIT_S = 600


def described(request: Request, checkpoint: Checkpoint, environment: Environment) -> Request:
    """Return the request with the labels and weights of its model. Raises UsageError with the
    framework's words if it cannot load or call the model.
    """
    rows = keras_file.first_inputs(request.size, request.options.dataset, _SAMPLES)
    found = _run(request, checkpoint, environment, rows)
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
    tensors = tuple(_tensor(*weight) for weight in found["weights"])
    return replace(request, size=replace(request.size, inputs=inputs, tensors=tensors))


def _tensor(name: str, shape: list[int], trained: bool) -> Tensor:
    beginning = keras_file.TRAINED if trained else ""
    return Tensor(name=beginning + name, shape=tuple(shape), mean=0.0, std=0.0)


def _run(
    request: Request, checkpoint: Checkpoint, environment: Environment, rows: dict[str, np.ndarray]
) -> dict[str, Any]:
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
    given = {**asdict(workload), "checkpoint": str(checkpoint.path)}
    variables = {**request.spec.process_env, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        out = Path(folder) / "description.json"
        np.savez(inputs, allow_pickle=False, **rows)
        done = subprocess.run(
            [environment.python, "-P", "-m", _PROGRAM, json.dumps(given), inputs, out],
            env={**DEVICES[HOST].environment(os.environ), **variables},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        if done.returncode:
            last = (done.stderr.strip() or "it ended without a message").splitlines()[-1]
            return {"refused": f"cannot be called with 2 inputs: {last}"}
        return dict(json.loads(out.read_text(encoding="utf-8")))
