"""The limits of accuracy tests follow from measured disagreement, and are never looser than the
model's own.
"""

import math
from dataclasses import replace

import pytest

from compliance.scoring import own_choice
from harness.inputs import limits, models
from scenarios.worker import procedures
from sut.registry import FIT, SUTS, adamw_of, unsupported


def load(work):
    """The model of a name, or of a name and its second task."""
    return models.load(*work.split())


def named(row):
    return " ".join(row[key] for key in ("model", "task") if key in row)


WORKS = [
    " ".join((name, *task))
    for name in models.names()
    for task in ((), *((t,) for t in models.load(name).tasks[1:]))
]
CELLS = sorted(
    {(named(row), row["size"], row["precision"], row["device"]) for row in limits.measurements()}
)
LONG = [
    (*cell, "500")
    for cell in CELLS
    if cell[1] == "tiny"
    and any("new_tokens" in row for row in limits.measurements() if named(row) == cell[0])
]
# 0.131 of the 0.15 that the round's rules allow bfloat16. That bound is not moved for one SUT, so
# another machine's may be invalid.
TIGHT = ("bert", "mid", "bfloat16", "cpu", "keras2-tensorflow")
JUDGED = [
    (work, precision)
    for work in WORKS
    for precision in load(work).tolerance
    if precision not in ("tf32", "float16")
]
SPARE = {
    "compared_fraction": 2 / 64,
    "argmax_fraction": 1e-3,
    "mask_mean_iou": 1e-3,
    "mask_smallest_iou": 1e-2,
}


def of(model, size, precision, device="cpu", new_tokens=""):
    known = load(model)
    inputs = {"new_tokens": int(new_tokens)} if new_tokens else {}
    return limits.limits(known, with_inputs(known.sizes[size], inputs), precision, device)


def with_inputs(size, inputs):
    return replace(size, inputs={**size.inputs, **inputs})


def cell_of(model, task, precision):
    """What the registry asks of a cell."""
    of_model = {"model": model.name, "architecture": model.architecture}
    return of_model | {"task": task, "precision": precision, "device": "cpu"}


def measured(*cell):
    """Of a cell with a length also what was measured of the size's own length."""
    rows = [
        row
        for row in limits.measurements()
        if (named(row), row["size"], row["precision"], row["device"]) == cell[:4]
    ]
    return [row for row in rows if str(row.get("new_tokens", "")) in ("", *cell[4:])]


@pytest.mark.parametrize(("model", "precision"), JUDGED)
def test_every_honest_sut_was_measured_at_size_tiny_and_two_at_size_mid(model, precision):
    known = load(model)
    cell = cell_of(known, known.task, precision)
    honest = {
        name
        for name, spec in SUTS.items()
        if spec.reads_weights and precision in spec.precisions and not unsupported(name, **cell)
    }
    at_tiny = {row["sut"] for row in measured(model, "tiny", precision, "cpu")}
    at_mid = {row["sut"] for row in measured(model, "mid", precision, "cpu")}
    assert at_tiny == honest
    assert len(at_mid) > 1 and at_mid >= {"native-torch-eager", "keras3-jax"} & honest


@pytest.mark.parametrize("cell", [*CELLS, *LONG], ids="-".join)
def test_a_limit_is_at_most_twenty_times_the_largest_disagreement(cell):
    made, rows = of(*cell), measured(*cell)
    for name in [name for name in made if name.endswith(("_error", "_gap"))]:
        measure = "logit_error" if name == "logit_gap" else name
        assert made[name] <= 20 * max(row[measure] for row in rows)
    for name in [name for name in made if name.endswith("_psnr")]:
        assert min(row[name] for row in rows) - made[name] <= 20 * math.log10(20)
    for name, spare in SPARE.items():
        if name in made:
            # Limits have three digits.
            assert 1 - made[name] <= max(20 * max(1 - row[name] for row in rows), spare) + 1e-3


@pytest.mark.parametrize("cell", [*CELLS, *LONG], ids="-".join)
def test_every_measured_sut_is_well_within_the_limits(cell):
    made = of(*cell)
    for row in measured(*cell):
        room = 1.1 if (*cell, row["sut"]) == TIGHT else 1.5
        for name in made.keys() & row.keys():
            if name.endswith(("_error", "_gap")):
                assert room * row[name] <= made[name]
        for name in {"argmax_fraction", "mask_mean_iou", "mask_smallest_iou"} & row.keys():
            assert 1.5 * (1 - row[name]) <= 1 - made[name] or row[name] == 1.0
        assert all(row[name] >= made[name] + 3 for name in row if name.endswith("_psnr"))
        assert row.get("compared_fraction", 1) >= made.get("compared_fraction", 0)


@pytest.mark.parametrize("model", WORKS)
def test_no_limit_is_looser_than_the_models_own(model):
    known = load(model)
    for size in known.sizes:
        for precision, loosest in known.tolerance.items():
            for device in ("cpu", "cuda"):
                made = of(model, size, precision, device)
                # Which only a SUT of a measured framework has.
                assert made.keys() == loosest.keys() - {"logit_rms"}
                for name, limit in made.items():
                    if name.endswith(("fraction", "iou", "psnr")):
                        assert limit >= loosest[name]
                    else:
                        assert limit <= loosest[name]


def test_what_was_not_measured_is_judged_by_size_mid_with_more_room():
    def error(size, precision, device="cpu"):
        return of("bert", size, precision, device)["logit_error"]

    known = error("mid", "float32")
    assert error("mid", "float32", "cuda") == pytest.approx(2 * known, rel=0.01)
    assert error("full", "float32") == pytest.approx(4 * known, rel=0.01)
    assert error("mid", "tf32", "cuda") < error("mid", "bfloat16")
    new = replace(models.load("bert"), name="never-measured")
    assert limits.limits(new, new.sizes["tiny"], "float32", "cpu") == new.tolerance["float32"]


def test_float16_is_judged_by_its_own_measurements_or_else_by_an_eighth_of_bfloat16s():
    rows = measured("qwen3", "tiny", "float16", "cpu")
    largest = max(row["logit_error"] for row in rows)
    assert of("qwen3", "tiny", "float16")["logit_error"] == pytest.approx(3 * largest, rel=0.01)
    assert not measured("gpt2 generate", "mid", "float16", "cpu")
    largest = max(row["logit_error"] for row in measured("gpt2 generate", "mid", "bfloat16", "cpu"))
    made = of("gpt2 generate", "mid", "float16")["logit_error"]
    assert made == pytest.approx(2 * 3 * largest / 8, rel=0.01)


RMS = [row for row in limits.measurements() if "logit_rms" in row]


def rms_limit(model, size, sut, samples=64, **inputs):
    known = load(model)
    asked = with_inputs(known.sizes[size], inputs)
    return limits.limits(known, asked, "bfloat16", "cpu", sut, samples).get("logit_rms")


@pytest.mark.parametrize("row", RMS, ids=lambda row: f"{row['model']}-{row['size']}-{row['sut']}")
def test_every_measured_root_mean_square_is_within_its_limit(row):
    own = {"new_tokens": row["new_tokens"]} if "new_tokens" in row else {}
    limit = rms_limit(row["model"], row["size"], row["sut"], **own)
    assert limit is not None
    assert 1.29 * row["logit_rms"] <= limit


@pytest.mark.parametrize("model", ["bert", "mistral"])
def test_every_measured_sut_of_bert_and_mistral_has_a_root_mean_square_in_bfloat16(model):
    for size in ("tiny", "mid"):
        rows = [row for row in measured(model, size, "bfloat16", "cpu") if "new_tokens" not in row]
        assert rows and all("logit_rms" in row for row in rows)


def test_the_root_mean_square_is_limited_by_suts_of_the_same_framework():
    largest = max(
        row["logit_rms"]
        for row in RMS
        if (row["model"], row["size"]) == ("bert", "tiny") and "torch" in row["sut"]
    )
    expected = pytest.approx(limits.RMS_FACTOR * largest, rel=0.01)
    assert rms_limit("bert", "tiny", "keras3-torch") == expected
    assert rms_limit("bert", "tiny", "native-jax") > rms_limit("bert", "tiny", "keras3-torch")
    assert rms_limit("bert", "full", "keras3-torch") > 2 * rms_limit("bert", "mid", "keras3-torch")


def test_the_root_mean_square_has_no_limit_where_nothing_was_measured_or_few_inputs_are_compared():
    assert rms_limit("bert", "tiny", "mock") is None
    assert rms_limit("bert", "tiny", "native-jax", samples=63) is None
    assert rms_limit("mistral", "mid", "native-jax", new_tokens=200) is None
    assert rms_limit("distilbert", "tiny", "native-jax") is None


def test_long_answers_do_not_loosen_the_limits_of_short_ones():
    assert len({cell[0] for cell in LONG}) == 4
    for model, size, precision, device, tokens in LONG:
        short, long = of(model, size, precision, device), of(model, size, precision, device, tokens)
        assert of(model, size, precision, device, "45") == short
        assert short["logit_error"] <= long["logit_error"]
        assert short["argmax_fraction"] >= long["argmax_fraction"]
    short, long = (of("llama", "tiny", "float32", new_tokens=tokens) for tokens in ("", "500"))
    assert short["logit_error"] < long["logit_error"]


def test_worker_and_score_agree_on_how_many_answers_have_own_logits():
    assert procedures.OWN_ROWS == own_choice.ROWS


@pytest.mark.parametrize("name", [name for name in models.names() if models.load(name).fit])
def test_the_losses_of_every_sut_that_trains_were_measured_and_are_well_within_the_limits(name):
    model = models.load(name)
    rows = [
        row
        for row in limits.measurements("trained")
        if (row["model"], row["size"], row["precision"]) == (name, "tiny", "float32")
    ]
    known = cell_of(model, FIT, "float32")
    readers = [sut for sut, spec in SUTS.items() if spec.reads_weights]
    trainers = {sut for sut in readers if not unsupported(sut, **known)}
    assert {row["sut"] for row in rows} == trainers
    for sut in {row["sut"] for row in rows}:
        same = [row for row in rows if adamw_of(row["sut"]) == adamw_of(sut)]
        made = limits.of_training(model, model.sizes["tiny"], "float32", "cpu", sut)
        for limit, bound in model.fit["tolerance"]["float32"].items():
            assert 5 * max(row.get(limit, 0) for row in same) <= made[limit] <= bound
            assert made[limit] > 0
