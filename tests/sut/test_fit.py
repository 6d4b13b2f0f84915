"""Real SUTs train at size tiny as the reference does; one that trains otherwise is seen by its losses, precision or evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compliance.checks import evidence
from compliance.rules import EvidenceRule
from compliance.scoring import loss_curve
from compliance.training import checks, steps
from harness.inputs import checkpoint, dataset, limits, models
from scenarios.worker.job import Job, Limits, write_json
from sut.contract import Workload
from sut.registry import FIT, REFERENCE, SUTS, spec_of
from tests.conftest import CACHE
from tests.support.frameworks import run_module

EAGER, COMPILE, JAX = "native-torch-eager", "native-torch-compile", "keras3-jax"
MISTAKES = ("twice_the_rate", "skips_a_batch", "shuffles", "freezes_a_layer", "drops_out")
CASES = {
    EAGER: ("honest", *MISTAKES, "in_bfloat16"),
    COMPILE: ("honest", "runs_eagerly"),
    JAX: ("honest",),
    "keras3-tensorflow": ("honest",),
    "keras3-torch": ("honest", "shuffles"),
}
BATCH, STEPS = 4, 21


@pytest.fixture(scope="session")
def trained(interpreter: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """(SUT, case) → what the worker's side left. One process trains all cases of a SUT."""
    root = tmp_path_factory.mktemp("fit")
    model = models.load("bert")
    size = model.sizes["tiny"]
    inputs = dataset.prepare(model, size, BATCH * STEPS, None, root, batch_size=BATCH, labelled=True)
    weights = checkpoint.ensure(model, size, CACHE)

    def run(sut: str, cases: Sequence[str]) -> None:
        spec, files = spec_of(sut), {}
        for case in cases:
            folder = root / sut / case
            folder.mkdir(parents=True)
            workload = Workload(
                model=model.name,
                task=FIT,
                config={"model": dict(size.config), "classes": dict(model.classes), "optimizer": dict(model.fit["optimizer"])},
                checkpoint=weights.path,
                precision="float32",
                batch_size=BATCH,
                device="cpu",
                backend=spec.backend,
                execution=spec.execution,
            )
            job = Job(
                sut=sut,
                family=model.family,
                workload=workload,
                scenario="Fit",
                test="reference" if sut == REFERENCE else "accuracy",
                procedure=FIT,
                benchmark="bert-tiny",
                answer=("loss",),
                inputs=inputs.path,
                synthetic=inputs.synthetic,
                warmup_rows=1,
                limits=Limits(min_duration_ms=0, min_query_count=0, performance_sample_count=BATCH * STEPS),
                log_dir=folder,
            )
            write_json(folder / "job.json", job)
            files[case] = str(folder / "job.json")
        run_module(interpreter(spec.environment), "tests.sut.fit_cases", sut if sut in SUTS else EAGER, root / f"{sut}.json", files)

    def look(sut: str, case: str) -> Path:
        if not (root / sut).exists():
            run(sut, CASES.get(sut, ("honest",)))
        return root / sut / case

    return look


def score(trained: Callable[[str, str], Path], sut: str, case: str) -> loss_curve.Accuracy:
    model = models.load("bert")
    tolerance = limits.of_training(model, model.sizes["tiny"], "float32", "cpu")
    with np.load(trained(REFERENCE, "honest") / "reference.npz") as f:
        return loss_curve.score(steps.read(trained(sut, case) / "steps.json").losses, f["loss"], tolerance)


def complaints(folder: Path, sut: str) -> list[str]:
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    both, execution = (outcome["evidence_before"], outcome["evidence_after"]), SUTS[sut].execution
    found = evidence.findings(EvidenceRule(**checks.limits()["evidence"][execution]), *both, execution)
    return [*found, *(f"precision {each['precision']}" for each in both if each["precision"] != "float32")]


@pytest.mark.parametrize("sut", CASES)
def test_an_honest_sut_trains_every_parameter_as_the_reference_does(trained, sut):
    assert steps.read(trained(sut, "honest") / "steps.json").trainable == models.load("bert").sizes["tiny"].parameters
    found = score(trained, sut, "honest")
    assert found.passed, found
    assert complaints(trained(sut, "honest"), sut) == []


@pytest.mark.parametrize(("sut", "case"), [(sut, case) for sut, cases in CASES.items() for case in cases if case in MISTAKES])
def test_another_training_leaves_the_references_losses(trained, sut, case):
    assert not score(trained, sut, case).passed


def test_a_lower_precision_is_seen_by_its_evidence(trained):
    assert "precision bfloat16" in complaints(trained(EAGER, "in_bfloat16"), EAGER)


def test_a_forward_pass_that_is_not_compiled_is_seen_by_its_evidence(trained):
    assert any(
        "it ran eager" in text or "forward passes ran compiled" in text for text in complaints(trained(COMPILE, "runs_eagerly"), COMPILE)
    )
