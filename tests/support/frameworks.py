"""Processes of a SUT's own environment, for tests that look at real frameworks."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.execution import environments, interpreter
from harness.inputs import checkpoint, models
from sut.contract import Workload
from sut.registry import SUTS


def tiny_workload(sut: str, name: str, folder: Path) -> dict[str, Any]:
    """The `Workload` of a model at size tiny, as JSON: prompts of 9 tokens, 6 new ones. Its
    checkpoint is made in `folder`.
    """
    model, spec = models.load(name), SUTS[sut]
    size = model.sizes["tiny"]
    config = {
        "model": dict(size.config),
        "classes": dict(model.classes),
        "prompt_buckets": [9],
        "new_token_buckets": [6],
    }
    workload = Workload(
        model=name,
        task=model.task,
        config=config,
        checkpoint=checkpoint.ensure(model, size, folder).path,
        precision="float32",
        batch_size=3,
        device="cpu",
        backend=spec.backend,
        execution=spec.execution,
    )
    return {**asdict(workload), "checkpoint": str(workload.checkpoint)}


def run_module(python: Path, module: str, sut: str, specification: Path, content: Any) -> None:
    """Writes the specification as JSON and runs `python -m module specification` with the variables
    of `sut`.

    The process ends with that of the tests, also where that is killed.
    """
    specification.write_text(json.dumps(content))
    done = subprocess.run(
        [str(python), "-m", module, str(specification)],
        cwd=environments.ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **SUTS[sut].process_env, "PYTHONPATH": str(environments.ROOT)},
        check=False,
        timeout=600,
        preexec_fn=interpreter.die_with_parent,
    )
    assert done.returncode == 0, done.stderr[-3000:]
