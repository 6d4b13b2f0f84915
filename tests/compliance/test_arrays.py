"""The score `arrays`, and that what the worker packs is what the score reads."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from compliance.scoring import accuracy, payload
from scenarios.worker.queries.answers import pack

RNG = np.random.default_rng(0)
REFERENCE = {
    "mask": RNG.random((5, 4, 3)) > 0.5,
    "iou": RNG.random((5, 2)).astype(np.float32),
    "label": RNG.integers(0, 9, (5, 10)).astype(np.int64),
}
LIMITS = {
    "mask_mean_iou": 0.99,
    "mask_smallest_iou": 0.9,
    "iou_error": 1e-3,
    "label_equal_fraction": 0.97,
}


def packed(answers):
    rows, lengths = pack(answers, tuple(answers))
    assert lengths is None
    return {i: row.tobytes() for i, row in enumerate(rows)}


def score(answers, reference=REFERENCE, **limits):
    return accuracy.score(
        "arrays", packed(answers), reference, limits or LIMITS, tuple(reference), None
    )


def changed(key, place, value):
    wrong = REFERENCE[key].copy()
    wrong[place] = value
    return {**REFERENCE, key: wrong}


@given(st.data())
def test_what_the_worker_packs_is_read_again(data):
    kinds = st.sampled_from([np.bool_, np.float32, np.float16, np.int32, np.uint8])
    answers = {}
    for name in ("a", "b", "c")[: data.draw(st.integers(1, 3))]:
        shape = (3, *data.draw(arrays.array_shapes(min_dims=0, max_dims=3, max_side=5)))
        answers[name] = data.draw(arrays.arrays(data.draw(kinds), shape))
    rows = packed(answers)
    for i in range(3):
        read = payload.split(rows, i, {name: array[i] for name, array in answers.items()})
        for name, array in answers.items():
            assert read[name].dtype == array.dtype
            np.testing.assert_array_equal(read[name], array[i])


def test_equal_arrays_use_nothing_of_the_tolerance():
    found = score(REFERENCE)
    assert (found.metric, found.value) == ("used_tolerance", 0.0)
    assert (found.threshold, found.passed) == (1.0, True)
    assert found.detail["mask_mean_iou"] == found.detail["label_equal_fraction"] == 1.0
    stated = {name for name in found.detail if name.endswith("_limit")}
    assert stated == {f"{name}_limit" for name in LIMITS}


def test_a_pixel_a_float_and_an_integer_are_each_seen():
    pixel = score(changed("mask", (2, 0, 0), ~REFERENCE["mask"][2, 0, 0]))
    assert not pixel.passed
    assert pixel.detail["mask_smallest_iou"] < 0.9
    assert pixel.detail["iou_error"] == 0
    number = score(changed("iou", (1, 1), REFERENCE["iou"][1, 1] + 0.1))
    assert not number.passed
    assert number.detail["iou_error"] == pytest.approx(0.1 / REFERENCE["iou"].std(), rel=1e-5)
    assert number.value == pytest.approx(number.detail["iou_error"] / 1e-3)
    label = score(changed("label", (0, 0), 99))
    assert label.passed
    assert label.detail["label_equal_fraction"] == 0.98
    assert label.value == pytest.approx(2 / 3)
    rows = {key: array[::-1] for key, array in REFERENCE.items()}
    assert not score(rows).passed


@pytest.mark.parametrize(
    ("rounded", "wrong_pixels", "levels"), [(np.floor, 0, 1), (np.floor, 1, 9), (np.round, 0, None)]
)
def test_pictures_that_are_only_rounded_otherwise_are_called_so(rounded, wrong_pixels, levels):
    pixels = RNG.uniform(10, 250, (3, 8, 8, 3))
    pixels.flat[0] = 100
    reference = {"image": pixels.round().astype(np.uint8)}
    answers = rounded(pixels).astype(np.uint8)
    answers.flat[:wrong_pixels] -= 9
    found = score({"image": answers}, reference, image_smallest_psnr=63.3)
    assert found.detail.get("image_levels") == levels
    assert ("the pictures are rounded otherwise" in found.sentence) == (levels == 1)


def test_what_is_exactly_at_its_limit_passes_and_beyond_it_does_not():
    reference = {"label": REFERENCE["label"]}
    wrong = {"label": changed("label", (0, 0), 99)["label"]}
    assert score(wrong, reference, label_equal_fraction=0.98).passed
    assert not score(wrong, reference, label_equal_fraction=0.981).passed
    none_allowed = score(wrong, reference, label_equal_fraction=1.0)
    assert not none_allowed.passed and json.loads(none_allowed.line())["value"] is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_never_passes(value):
    found = score(changed("iou", (1, 1), value))
    assert not found.passed
    with pytest.raises(ValueError, match="the reference's iou are all equal or not finite"):
        score(REFERENCE, changed("iou", (1, 1), value))


def test_two_empty_masks_agree_and_an_empty_one_beside_another_does_not():
    empty = {"mask": np.zeros((2, 9), bool)}
    limits = {"mask_mean_iou": 0.5, "mask_smallest_iou": 0.4}
    assert score(empty, empty, **limits).detail["mask_smallest_iou"] == 1.0
    dot = {"mask": np.eye(2, 9, dtype=bool)}
    for answers, reference in ((empty, dot), (dot, empty)):
        found = score(answers, reference, **limits)
        assert (found.passed, found.detail["mask_mean_iou"]) == (False, 0.0)


def test_a_constant_reference_is_judged_in_its_own_magnitude():
    for constant, unit in ((4.0, 4.0), (-2.0, 2.0), (0.0, 1.0)):
        reference = {"x": np.full((3, 2), constant, np.float32)}
        wrong = {"x": reference["x"] + np.float32([[0, 0], [0, 0.5], [0, 0]])}
        assert score(wrong, reference, x_error=1.0).detail["x_error"] == 0.5 / unit
        assert not score(wrong, reference, x_error=0.1).passed


def test_no_metric_goes_without_a_limit():
    limits = {name: limit for name, limit in LIMITS.items() if name != "mask_smallest_iou"}
    words = "the tolerance has no limit for mask_smallest_iou: state one in the model's file"
    with pytest.raises(ValueError, match=words):
        score(REFERENCE, **limits)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda r: {**r, "mask": r["mask"].astype(np.uint8)},
            "the answer of sample 0 has 90 bytes, expected 12 of mask uint8",
        ),
        (lambda r: {**r, "iou": r["iou"][:, :1]}, "and 4 of iou float32"),
        (
            lambda r: {**r, "label": r["label"][:4]},
            "the reference's label has another number of samples than its mask",
        ),
        (lambda r: {**r, "iou": r["iou"].astype(complex)}, "has no real numbers"),
        (lambda r: {**r, "iou": r["iou"][:, :0]}, "has no real numbers"),
    ],
)
def test_answers_and_references_that_do_not_fit_are_told_in_one_sentence(spoil, message):
    with pytest.raises(ValueError, match=message):
        score(REFERENCE, spoil(REFERENCE))


def test_every_score_judges_answers_of_its_own_kind_only():
    assert set(accuracy.SCORES) == {"logits", "tokens", "text", "arrays"}
    with pytest.raises(ValueError, match="the reference's mask has no real numbers"):
        rows = packed(REFERENCE)
        accuracy.score("logits", rows, REFERENCE, {"logit_error": 1.0}, ("mask",), None)


LOGITS = RNG.standard_normal((3, 4, 2)).astype(np.float32)
IS_TOKEN = np.arange(4) < np.array([[4], [2], [1]])


def of_tokens(answers, is_token=IS_TOKEN):
    reference = {"logits": LOGITS, "is_token": is_token}
    rows, limits = packed({"logits": answers}), {"logits_error": 1e-3}
    return accuracy.score("arrays", rows, reference, limits, ("logits",), None)


def test_padding_is_not_compared_and_no_unit():
    wrong = np.where(IS_TOKEN[..., None], LOGITS, 1e9)
    assert of_tokens(wrong.astype(np.float32)).value == 0.0
    wrong = LOGITS.copy()
    wrong[1, 1, 0] += 1
    found = of_tokens(wrong)
    assert not found.passed
    assert found.detail["logits_error"] == pytest.approx(1 / LOGITS[IS_TOKEN].std(), rel=1e-5)


@pytest.mark.parametrize(
    "is_token",
    [IS_TOKEN[:, :3], IS_TOKEN.astype(np.int32), np.zeros((3, 4), bool)],
    ids=["another shape", "no booleans", "no token"],
)
def test_a_mask_that_does_not_fit_the_answers_is_refused(is_token):
    with pytest.raises(ValueError, match="is_token does not fit its answers"):
        of_tokens(LOGITS, is_token)


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


SATURATED = np.array([30.0, 0, 0, 0]) + RNG.standard_normal((16, 4))
RECTIFIED = np.maximum(RNG.standard_normal((8, 40, 40)) - 1.5, 0)
PLACES = {
    "saturated": (softmax(SATURATED), softmax(SATURATED + 1e-6 * RNG.standard_normal((16, 4)))),
    "rectified": (RECTIFIED, np.maximum(RECTIFIED + 1e-7 * RNG.standard_normal((8, 40, 40)), 0)),
    "a large class": (SATURATED * [1e3, 1, 1, 1], SATURATED * [1e3 + 1e-3, 1, 1, 1 + 1e-6]),
}


@pytest.mark.parametrize("case", PLACES)
def test_an_answer_that_ignores_its_input_fails_and_one_of_other_roundings_passes(case):
    expected, rounded = (array.astype(np.float32) for array in PLACES[case])
    ignoring = np.broadcast_to(expected.mean(0), expected.shape).astype(np.float32)
    assert score({"x": rounded}, {"x": expected}, x_error=1e-4).passed
    assert score({"x": ignoring}, {"x": expected}, x_error=1e-4).value > 100


def test_a_place_that_hardly_differs_is_judged_by_its_value():
    expected = softmax(SATURATED)
    for change, passes in ((1e-6, True), (1e-3, False)):
        wrong = expected.copy()
        wrong[3, 0] -= change
        assert score({"x": wrong}, {"x": expected}, x_error=1e-4).passed is passes


def test_the_spread_of_two_samples_at_a_place_judges_nothing():
    expected = np.array([[1.0, 0.0], [1.0001, 1.0]], np.float32)
    wrong = expected + np.float32(1e-5)
    found = score({"x": wrong}, {"x": expected}, x_error=1e-4)
    assert found.detail["x_error"] == pytest.approx(1e-5 / expected.std(), rel=0.1)
