"""The limits of accuracy tests let honest variants of native torch pass, and none of the small
mistakes that are listed here.
"""

import pytest

from benchmarks.disagreement import MeasuredSize
from harness.inputs import limits, models
from sut.registry import REFERENCE
from tests.conftest import CACHE
from tests.support import frameworks
from tests.support.long import LONG, long_unless

WEIGHTS = "weights rounded to float16"
ROOT_MEAN_SQUARE = {
    "bert": ("epsilon 1e-5 for 1e-12", "weights rounded to int8"),
    "mistral": ("epsilon 1e-6 for 1e-5", "weights rounded to int8"),
}
"""In bfloat16: mistakes whose largest error is that of an honest SUT."""
MISTAKES = {
    ("bert", "float32"): (
        "exact GELU for its tanh form",
        "epsilon 1e-5 for 1e-12",
        "epsilon 1e-6 for 1e-12",
        WEIGHTS,
    ),
    ("mistral", "float32"): ("epsilon 1e-6 for 1e-5", WEIGHTS, "float16 cache"),
    ("gemma", "float32"): ("epsilon 1e-5 for 1e-6", WEIGHTS, "float16 cache"),
    ("mistral", "bfloat16"): (
        "sampling at temperature 0.1",
        "sampling at temperature 0.3",
        "int8 cache",
        *ROOT_MEAN_SQUARE["mistral"],
    ),
    ("bert", "bfloat16"): ROOT_MEAN_SQUARE["bert"],
}
HONEST = {
    ("bert", "float32"): ("other order of summation",),
    ("mistral", "float32"): ("other order of summation", "no cache", "other buckets"),
    ("gemma", "float32"): ("other order of summation", "no cache", "other buckets"),
    ("mistral", "bfloat16"): ("other order of summation", "no cache", "other buckets"),
    ("bert", "bfloat16"): ("other order of summation",),
}


def _tolerance(cell, precision):
    sut, count = "native-torch-eager", cell.inputs.count
    return limits.limits(cell.model, cell.size, precision, "cpu", sut, count)


def cases(of):
    """Those of other models than BERT are long."""
    rows = [
        (model, precision, change)
        for (model, precision), changes in of.items()
        for change in changes
    ]
    return long_unless(rows, lambda row: row[0] == "bert")


@pytest.fixture(scope="session")
def scored(interpreter, tmp_path_factory):
    """(model, precision, change) → the score of 64 answers of size tiny: one task for each model
    and precision.
    """
    cells = {}
    folders = {}

    def score(model, precision, change):
        python = interpreter("native-torch")
        if model not in cells:
            found, folder = models.load(model), tmp_path_factory.mktemp(model)
            cells[model] = MeasuredSize(found, found.sizes["tiny"], "cpu", folder, CACHE)
            frameworks.answer(python, cells[model], REFERENCE)
        cell = cells[model]
        if (model, precision) not in folders:
            folders[model, precision] = folder = tmp_path_factory.mktemp(f"{model}-{precision}")
            changes = [*MISTAKES[model, precision], *HONEST[model, precision]]
            told = {"precision": precision, "changes": changes, "folder": str(folder)}
            sut, program = "native-torch-eager", "tests.sut.mistakes"
            frameworks.answer(python, cell, sut, program, **told)
        return cell.score(folders[model, precision] / f"{change}.npz", _tolerance(cell, precision))

    return score


@pytest.mark.parametrize(("model", "precision", "change"), cases(MISTAKES))
def test_a_small_mistake_fails(scored, model, precision, change):
    assert not scored(model, precision, change).passed


@pytest.mark.parametrize(("model", "precision", "change"), cases(HONEST))
def test_an_honest_variant_passes(scored, model, precision, change):
    assert scored(model, precision, change).passed


@LONG
def test_sampling_and_an_imprecise_cache_are_seen_by_the_suts_own_logits_alone(scored):
    """At a low temperature the reference's own limits let both pass."""
    for change in ("sampling at temperature 0.1", "int8 cache"):
        found = scored("mistral", "bfloat16", change)
        assert found.value <= found.threshold
        assert found.detail["logit_gap"] <= found.detail["logit_gap_limit"]
        assert found.detail["argmax_fraction"] < found.detail["argmax_fraction_limit"]


@pytest.mark.parametrize(
    ("model", "change"),
    long_unless(
        [(model, change) for model, changes in ROOT_MEAN_SQUARE.items() for change in changes],
        lambda row: row[0] == "bert",
    ),
)
def test_in_bfloat16_the_root_mean_square_alone_sees_a_mistake_in_all_weights(
    scored, model, change
):
    found = scored(model, "bfloat16", change)
    assert found.value <= found.threshold
    assert found.detail["logit_rms"] > found.detail["logit_rms_limit"]
