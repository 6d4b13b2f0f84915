"""`shards=2`: the answers are those of the whole model, and each device holds half of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compliance.checks.run.precision import shards_faults
from formats.cell import Cell
from formats.job import PERFORMANCE
from formats.job import REFERENCE as MADE
from harness.execution.process import Worker
from sut.registry import SUTS
from tests.scenarios.worker.test_replicas import gone
from tests.support import jobs
from tests.support.frameworks import workload
from tests.sut.conftest import LOGITS_ROWS, REFERENCE, ROWS

MODEL = "mistral"
BUCKETS = {"prompt_buckets": [3, 5, 9], "new_token_buckets": [8, 45]}


def job_of(sut, known, tmp_path):
    """A job that answers all inputs and looks at the model's logits, without LoadGen."""
    values = workload(sut, known.model, known.size, known.checkpoint, ROWS, **BUCKETS)
    values |= {"checkpoint": known.checkpoint, "options": {"shards": 2}}
    own = {name: values.pop(name) for name in ("config", "backend", "execution", "checkpoint")}
    for name in ("settings", "rank", "meeting", "converted"):
        del values[name]
    job = jobs.job(
        Cell(sut=sut, size="tiny", scenario="Offline", **values),
        tmp_path / "raw" / MADE,
        architecture=known.model.architecture,
        **own,
        test=MADE,
        procedure=MADE,
        benchmark="mistral-tiny",
        answer=("tokens",),
        inputs=known.out / "inputs.npz",
        synthetic=known.out / "inputs.npz",
        limits=jobs.limits(ROWS),
        logits_rows=LOGITS_ROWS,
    )
    job.log_dir.mkdir(parents=True)
    return job


def timed_job(job):
    """A short performance test of the same SUT, which has evidence."""
    folder = job.log_dir.with_name(PERFORMANCE)
    folder.mkdir()
    limits = replace(job.limits, planned_ms=100, longest_ms=60_000, calibration_seconds=0.1)
    return replace(job, test=PERFORMANCE, procedure="loadgen", log_dir=folder, limits=limits)


@pytest.mark.parametrize("sut", ["native-torch-eager", "keras3-jax"])
def test_a_split_model_answers_as_the_whole_one(sut, probed, interpreter, tmp_path):
    known = probed(REFERENCE, MODEL)
    job = job_of(sut, known, tmp_path)
    spec = SUTS[sut]
    with Worker(Path(interpreter(spec.environment)), spec.process_env) as worker:
        made = worker.run(job, lambda beat: None)
        timed = worker.run(timed_job(job), lambda beat: None)
    for outcome in (made, timed):
        assert outcome.status == "ok", outcome.reason
    with np.load(job.log_dir / "reference.npz") as file:
        answers = dict(file)
    assert np.array_equal(answers["tokens"], known.reference["tokens"])
    error = np.abs(answers["logits"] - known.reference["logits"]).max()
    limit = known.model.tolerance["float32"]["logit_error"]
    assert error < limit * known.reference["logits"].std()
    evidence = timed.evidence_after
    assert evidence.precision == "float32"
    assert list(shards_faults(evidence, "after", 2)) == []
    assert gone(job.log_dir)
