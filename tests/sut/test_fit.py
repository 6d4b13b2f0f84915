"""Real SUTs train at size tiny as the reference does; one that trains otherwise is seen by its
losses, precision or evidence.
"""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from compliance.checks.run import evidence
from compliance.rules import EvidenceRule
from compliance.scoring import loss_curve, weight_updates
from compliance.training import run_directory, steps
from formats.cell import Cell
from formats.evidence import Evidence
from formats.writing import write_json
from harness.inputs import checkpoint, dataset, limits, models
from sut import adapters
from sut.registry import FIT, REFERENCE, SUTS, adamw_of, spec_of
from tests.conftest import CACHE
from tests.support import jobs
from tests.support.files import read_json
from tests.support.frameworks import run_module
from tests.support.long import LONG, long_unless

EAGER, COMPILE, JAX, PLAIN_JAX = (
    "native-torch-eager",
    "native-torch-compile",
    "keras3-jax",
    "native-jax",
)
MISTAKES = ("twice_the_rate", "skips_a_batch", "shuffles", "freezes_a_layer", "drops_out")
OPTIMIZER_MISTAKES = (
    "decays_no_norms",
    "gradients_in_bfloat16",
    "freezes_the_words",
    "a_hundredth_more_rate",
    "decays_nothing",
    "decays_ten_times",
    "another_epsilon",
    "another_beta_2",
    "amsgrad",
    "moments_in_bfloat16",
    "updates_lazily",
    "freezes_query_and_key",
)
"""All but the first three are long."""
LORA_MISTAKES = (
    "twice_the_rate",
    "skips_a_batch",
    "twice_the_scale",
    "freezes_an_adapter",
    "drops_out_of_adapters",
)
# (SUT, model, LoRA) → the cases. Mistakes of SUTs other than EAGER are long.
CASES = {
    (EAGER, "bert", None): ("honest", *MISTAKES, *OPTIMIZER_MISTAKES, "in_bfloat16"),
    (COMPILE, "bert", None): ("honest", "runs_eagerly"),
    (JAX, "bert", None): ("honest",),
    ("keras3-tensorflow", "bert", None): ("honest",),
    ("keras3-torch", "bert", None): ("honest", "shuffles"),
    ("keras2-tensorflow", "bert", None): ("honest", "skips_a_batch"),
    (PLAIN_JAX, "bert", None): (
        "honest",
        "twice_the_rate",
        "skips_a_batch",
        "runs_eagerly",
        "in_bfloat16",
    ),
    (EAGER, "mistral", "own"): ("honest", *LORA_MISTAKES, "in_bfloat16"),
    (JAX, "mistral", "own"): ("honest", "twice_the_scale"),
    ("keras3-torch", "gemma", "own"): ("honest",),
    (PLAIN_JAX, "mistral", "own"): ("honest", "twice_the_scale", "in_bfloat16"),
    (PLAIN_JAX, "gemma", "own"): ("honest",),
    (EAGER, "sam", None): ("honest", "twice_the_rate"),
    (JAX, "sam", None): ("honest",),
    (EAGER, "stable-diffusion", None): ("honest", "twice_the_rate"),
    (JAX, "stable-diffusion", None): ("honest",),
}
QUICK = [*(cell for cell in CASES if cell[1] == "bert"), (EAGER, "mistral", "own")]
"""Tests of other cells are long."""
STEPS = 22


@pytest.fixture(scope="session")
def trained(request, interpreter, tmp_path_factory):
    """(SUT, model, LoRA, case) → what the worker's side left. One task trains those cases of the
    first three that the selected tests need. If the SUT is the reference, LoRA is the layout of
    its factors, and `adamw` says whose AdamW it has.
    """
    root = tmp_path_factory.mktemp("fit")
    needed = cases_of(request.session.items)

    def look(sut, name, lora, case, adamw="torch"):
        folder = root / sut / f"{name}-{lora}-{adamw}"
        if not folder.exists():
            # Before the folder is made: the test may be skipped here.
            python = interpreter(spec_of(sut).environment)
            files = {}
            cases = CASES.get((sut, name, lora), ("honest",))
            for each in (case for case in cases if case in needed[sut, name, lora]):
                (folder / each).mkdir(parents=True)
                job = job_of(sut, name, lora, adamw, root, folder / each)
                write_json(folder / each / "job.json", job)
                files[str(folder / each / "job.json")] = each
            run_module(python, "tests.sut.fit_cases", sut, folder / "spec.json", files)
        return folder / case

    return look


def cases_of(items):
    """SUT, model and LoRA → the cases that the tests of this file look at."""
    needed = defaultdict(lambda: {"honest"})
    for item in items:
        if item.path == Path(__file__) and isinstance(item, pytest.Function):
            named = getattr(item, "callspec", None)
            if named and "case" in named.params:
                cell = tuple(named.params[key] for key in ("sut", "name", "lora"))
                needed[cell].add(named.params["case"])
    return needed


def job_of(sut, name, lora, adamw, root, folder):
    model, spec = models.load(name), spec_of(sut)
    size = model.sizes["tiny"]
    batch = size.batch_size["Fit"]
    inputs = dataset.prepare(model, size, batch * STEPS, None, root, batch_size=batch, trains=True)
    config = {"model": dict(size.config), "classes": dict(model.classes), "adamw": adamw}
    config["optimizer"] = dict(model.fit["optimizer"])
    if lora:
        factors = lora if sut == REFERENCE else SUTS[sut].lora
        config["lora"] = {**model.fit["lora"], "factors": factors}
    of_work = {"model": name, "task": FIT, "precision": "float32", "batch_size": batch}
    return jobs.job(
        Cell(sut=sut, size="tiny", scenario="Fit", device="cpu", **of_work),
        folder,
        architecture=model.architecture,
        config=config,
        checkpoint=checkpoint.ensure(model, size, CACHE).path,
        backend=spec.backend,
        execution=spec.execution,
        test="reference" if sut == REFERENCE else "accuracy",
        procedure=FIT,
        benchmark=f"{name}-tiny",
        answer=("loss",),
        inputs=inputs.path,
        synthetic=inputs.synthetic,
        fresh=inputs.fresh,
        limits=jobs.limits(batch * STEPS, min_query_count=0),
    )


def reference(trained, sut, name, lora):
    factors = lora and SUTS[sut].lora
    return trained(REFERENCE, name, factors, "honest", adamw_of(sut)) / "reference.npz"


def score(trained, sut, name, lora, case):
    model = models.load(name)
    tolerance = limits.of_training(model, model.sizes["tiny"], "float32", "cpu", sut)
    kept = steps.read(trained(sut, name, lora, case) / "steps.json")
    with np.load(reference(trained, sut, name, lora)) as f:
        curve = loss_curve.score(kept.losses, f["loss"], tolerance)
        certain = f["updates"][~f["noise"]]
        return weight_updates.judged(curve, kept.updates, certain, tolerance)


def complaints(folder, sut):
    outcome = read_json(folder / "outcome.json")
    both = [Evidence(**outcome[f"evidence_{when}"]) for when in ("before", "after")]
    execution = SUTS[sut].execution
    rule = EvidenceRule(**run_directory.limits()["evidence"][execution])
    found = list(evidence.findings(rule, *both, execution))
    return found + [f"precision {e.precision}" for e in both if e.precision != "float32"]


@pytest.mark.parametrize(("sut", "name", "lora"), long_unless(CASES, lambda cell: cell in QUICK))
def test_an_honest_sut_trains_the_parameters_that_the_reference_trains_and_as_it_does(
    trained, sut, name, lora
):
    model, kept = models.load(name), steps.read(trained(sut, name, lora, "honest") / "steps.json")
    size, starts = model.sizes["tiny"], tuple(model.fit.get("trained", [""]))
    own = sum(math.prod(tensor.shape) for tensor in size.tensors if tensor.name.startswith(starts))
    if lora:
        own = adapters.parameters(size.config, {"rank": 4, "factors": SUTS[sut].lora})
    assert kept.trainable == own
    found = score(trained, sut, name, lora, "honest")
    assert found.passed, found
    with np.load(reference(trained, sut, name, lora)) as f:
        error = np.abs(np.subtract(kept.held_out, f["held_out"])).max()
        assert error <= found.threshold * f["loss"].std()
    assert complaints(trained(sut, name, lora, "honest"), sut) == []


@pytest.mark.parametrize(
    ("sut", "name", "lora", "case"),
    long_unless(
        [
            (*cell, case)
            for cell, cases in CASES.items()
            for case in cases
            if case in (*MISTAKES, *OPTIMIZER_MISTAKES, *LORA_MISTAKES)
        ],
        lambda row: row[0] == EAGER and row[:3] in QUICK and row[3] not in OPTIMIZER_MISTAKES[3:],
    ),
)
def test_another_training_leaves_the_references_losses_or_updates(trained, sut, name, lora, case):
    assert not score(trained, sut, name, lora, case).passed


@pytest.mark.parametrize(
    ("sut", "name", "lora", "case"),
    long_unless(
        [(*cell, "in_bfloat16") for cell, cases in CASES.items() if "in_bfloat16" in cases],
        lambda row: row[0] == EAGER,
    ),
)
def test_a_lower_precision_is_seen_by_its_evidence(trained, sut, name, lora, case):
    assert "precision bfloat16" in complaints(trained(sut, name, lora, case), sut)


@pytest.mark.parametrize(
    ("sut", "name", "lora", "case", "words"),
    [
        (COMPILE, "bert", None, "runs_eagerly", ("it ran eager", "forward passes ran compiled")),
        (PLAIN_JAX, "bert", None, "runs_eagerly", ("entries into compiled code",)),
    ],
)
def test_a_step_that_is_not_compiled_is_seen_by_its_evidence(trained, sut, name, lora, case, words):
    found = complaints(trained(sut, name, lora, case), sut)
    assert any(word in text for text in found for word in words), found


@pytest.mark.parametrize("sut", [PLAIN_JAX])
def test_adamw_of_plain_jax_is_that_of_the_paper(interpreter, tmp_path, sut):
    """Weight decay, which no loss shows, and the correction of both moments; in float64 after
    PyTorch's documentation of AdamW.
    """
    constants, rate = {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3, "weight_decay": 0.5}, 0.1
    rng = np.random.default_rng(5)
    weight, gradients = (rng.normal(size=size).astype(np.float32) for size in (7, (5, 7)))
    np.savez(tmp_path / "arrays.npz", weight=weight, gradients=gradients)
    spec = {"constants": constants, "rate": rate, "arrays": str(tmp_path / "arrays.npz")}
    python = interpreter(SUTS[sut].environment)
    run_module(python, "tests.sut.jax_adamw", sut, tmp_path / "spec.json", spec)
    with np.load(tmp_path / "steps.npz") as f:
        found = f["weights"]
        assert f["gone"].all() and list(f["kept"]) == ["bfloat16"] * 3 + ["int32"]
        assert f["exact"] == 2
    expected, first, second = weight.astype(np.float64), np.zeros(7), np.zeros(7)
    for count, gradient in enumerate(gradients, 1):
        expected = expected * (1 - rate * 0.5)
        first = 0.8 * first + 0.2 * gradient
        second = 0.9 * second + 0.1 * gradient.astype(np.float64) ** 2
        expected -= rate * (first / (1 - 0.8**count)) / (np.sqrt(second / (1 - 0.9**count)) + 1e-3)
        assert found[count - 1] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@LONG
def test_before_the_first_step_both_layouts_of_lora_have_the_same_loss_and_then_others(trained):
    losses = []
    for sut in (JAX, PLAIN_JAX):
        with np.load(reference(trained, sut, "mistral", "own")) as f:
            losses.append(f["loss"])
    per_head, matrix = losses
    assert per_head[0] == pytest.approx(matrix[0], abs=1e-6)
    assert not np.allclose(per_head[1:], matrix[1:], atol=1e-6)
