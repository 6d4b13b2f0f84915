"""A Job for the mock SUT over small inputs, for tests that need a real worker and a real LoadGen
but no framework.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from formats.cell import Cell
from formats.job import Job, Serving
from tests.support import jobs

SAMPLES, WIDTH, VOCABULARY = 16, 6, 300


def make(
    directory: Path,
    *,
    scenario: str = "Offline",
    test: str = "performance",
    batch: int = 4,
    task: str = "predict",
    milliseconds: int = 300,
    calibration: dict[str, float] | None = None,
    reference: Path | None = None,
    **options: Any,
) -> Job:
    """`options`: the mock's own, with _ for -."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows, seed in (("inputs.npz", SAMPLES, 0), ("synthetic.npz", SAMPLES + 1, 1)):
        np.savez(directory / name, **arrays(task, rows, seed))
    log_dir = directory / "raw" / test
    log_dir.mkdir(parents=True)
    config: dict[str, Any] = {
        "model": {"vocab_size": VOCABULARY},
        "prompt_buckets": [WIDTH],
        "new_token_buckets": [4],
    }
    cell = Cell(
        sut="mock",
        size="tiny",
        scenario=scenario,
        model="bert" if task == "predict" else "mistral",
        task=task,
        precision="float32",
        batch_size=batch,
        device="cpu",
        options={k if k == "in_flight" else k.replace("_", "-"): v for k, v in options.items()},
    )
    return jobs.job(
        cell,
        log_dir,
        architecture="any",
        config=config,
        test=test,
        procedure="reference" if test == "reference" else "loadgen",
        benchmark="mock-tiny",
        answer=("logits",) if task == "predict" else ("tokens",),
        inputs=directory / "inputs.npz",
        synthetic=directory / "synthetic.npz",
        limits=jobs.limits(SAMPLES, min_duration_ms=milliseconds, calibration_seconds=0.1),
        reference=reference,
        logits_rows=4 if task == "generate" else 0,
        calibration=calibration,
    )


def changed(job: Job, serving: Serving | None = None, **values: Any) -> Job:
    """The job with other values, also of its cell. `serving`: how requests arrive."""
    if serving:
        values |= asdict(serving)
    own = {name: values.pop(name) for name in [each.name for each in fields(Job)] if name in values}
    return replace(job, cell=replace(job.cell, **values), **own)


def arrays(task: str, rows: int, seed: int) -> dict[str, Any]:
    """Generate: the first row is a full prompt, the others are shorter and ask for 1 to 4
    tokens.
    """
    rng = np.random.default_rng(seed)
    ids = rng.integers(3, VOCABULARY, (rows, WIDTH)).astype(np.int32)
    if task == "predict":
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    lengths = np.array([WIDTH, *rng.integers(1, WIDTH + 1, rows - 1)], np.int32)
    return {
        "input_ids": ids * (np.arange(WIDTH) < lengths[:, None]),
        "prompt_length": lengths,
        "max_new_tokens": np.array([4, *rng.integers(1, 5, rows - 1)], np.int32),
    }
