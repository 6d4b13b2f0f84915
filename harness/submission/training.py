"""Write the training/ folder of a run directory: copies of raw files, a log in MLPerf Training's
format, and a summary.

It can be written again from raw/.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compliance.logs import files
from compliance.training import losses, mllog, run_directory
from compliance.training import steps as step_files
from compliance.training.steps import Steps, figures
from formats.writing import write_json
from harness.submission import inference

__all__ = ["figures", "read_steps", "score", "write"]


def write(directory: Path) -> inference.Score:
    """Write training/ again. raw/ must contain both tests. → the score of the losses."""
    record = files.record(directory / "record.json")
    folder, loss_score = directory / run_directory.FOLDER, score(directory)
    shutil.rmtree(folder, ignore_errors=True)
    for copy, source in run_directory.COPIES.items():
        if (directory / source).exists():
            (folder / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(directory / source, folder / copy)
    steps = read_steps(directory)
    job = files.job(directory / "raw" / "performance" / "job.json")
    (folder / run_directory.LOG).write_text(
        "".join(mllog.lines(steps, record, job)), encoding="utf-8"
    )
    summary: dict[str, Any] = {
        "label": mllog.LABEL,
        "cell": asdict(record.cell),
        "optimizer": job.workload.config["optimizer"],
        "lora": job.workload.config.get("lora"),
        "trained_parameters": steps.trainable,
        "held_out": {"metric": mllog.metric(record), "value": mllog.accuracy(steps)},
        **step_files.as_json(steps),
        "accuracy": loss_score if isinstance(loss_score, str) else json.loads(loss_score.line()),
        "system": inference.system_description(record, record.submitter),
    }
    write_json(folder / "training.json", summary)
    return loss_score


def read_steps(directory: Path) -> Steps:
    """The recorded steps of the timed run in a run directory."""
    return step_files.read(directory / "raw" / "performance" / "steps.json")


def score(directory: Path) -> inference.Score:
    """Return the score of the accuracy test's losses compared with the reference's. If they cannot
    be compared, return a sentence that says why.
    """
    training = run_directory.read(directory, with_result=False)
    if training.record and training.record.no_reference:
        return training.record.accuracy.reason
    try:
        return losses.score(training)
    except ValueError as e:
        return f"not scored: {e}"
