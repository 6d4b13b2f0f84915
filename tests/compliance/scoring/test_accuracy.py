import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compliance.scoring import accuracy

TOLERANCE = {"logit_error": 1e-3, "logit_gap": 1e-2, "compared_fraction": 0.5}
ROWS, NEW, VOCABULARY, FORCED = 6, 5, 40, 3
LOGITS = np.random.default_rng(0).standard_normal((ROWS, NEW, VOCABULARY)).astype(np.float32)
TOP = np.argsort(-LOGITS, axis=-1)[..., :8].astype(np.int32)
COUNTS = np.array([5, 5, 3, 5, 1, 5], np.int32)
REFERENCE = {
    "tokens": np.ascontiguousarray(TOP[..., 0]),
    "n_tokens": COUNTS,
    "top_ids": TOP,
    "top_logits": np.take_along_axis(LOGITS, TOP, -1),
    "logits": LOGITS[:FORCED],
}
SPREAD = REFERENCE["logits"][np.arange(NEW) < COUNTS[:FORCED, None]].std()
CLASSES = {"logits": LOGITS[:, 0, :2]}


def predicted(logits):
    return {i: row.astype(np.float32).tobytes() for i, row in enumerate(logits)}


def generated(tokens):
    return {
        i: row[:n].astype(np.int32).tobytes()
        for i, (row, n) in enumerate(zip(tokens, COUNTS, strict=True))
    }


def score_logits(answers, reference=CLASSES, **tolerance):
    limits = TOLERANCE | tolerance
    return accuracy.score("logits", answers, reference, limits, ("logits",), None)


def score_tokens(answers, logits=LOGITS[:FORCED], reference=REFERENCE, own=None, **tolerance):
    limits = TOLERANCE | tolerance
    return accuracy.score("tokens", answers, reference, limits, ("tokens",), logits, own)


def test_equal_logits_have_no_error():
    found = score_logits(predicted(CLASSES["logits"]))
    assert (found.metric, found.value, found.passed) == ("logit_error", 0.0, True)


@given(st.floats(1e-5, 10), st.integers(0, ROWS - 1), st.integers(0, 1))
def test_the_error_is_the_largest_difference_in_standard_deviations(shift, row, column):
    wrong = CLASSES["logits"].astype(np.float64)
    spread = wrong.std()
    wrong[row, column] += shift * spread
    found = score_logits(predicted(wrong))
    assert found.value == pytest.approx(shift, rel=1e-2, abs=1e-6)
    assert found.passed == (found.value <= 1e-3)


def test_logits_that_ignore_the_inputs_fail_even_if_the_classes_differ_much():
    logits = np.float32([1e3, -1e3]) + CLASSES["logits"]
    answers = predicted(np.broadcast_to(logits.mean(0), logits.shape))
    reference = {"logits": logits}
    for rows, passes in ((predicted(logits), True), (answers, False)):
        assert score_logits(rows, reference).passed is passes


def test_a_limit_on_the_root_mean_square_fails_what_the_largest_error_passes():
    shifted = CLASSES["logits"] + np.float32(5e-4 * CLASSES["logits"].std())
    loose, tight = (score_logits(predicted(shifted), logit_rms=limit) for limit in (6e-4, 4e-4))
    assert loose.detail["logit_rms"] == pytest.approx(5e-4, rel=1e-2)
    assert (loose.passed, tight.passed) == (True, False)
    assert "logit_rms" not in score_logits(predicted(shifted)).detail


def test_the_root_mean_square_of_tokens_is_that_of_their_teacher_forced_logits():
    shifted = LOGITS[:FORCED] + np.float32(5e-4 * SPREAD)
    tokens = generated(REFERENCE["tokens"])
    assert score_tokens(tokens, shifted, logit_rms=6e-4).passed
    found = score_tokens(tokens, shifted, logit_rms=4e-4)
    assert not found.passed
    assert found.detail["logit_rms"] == pytest.approx(5e-4, rel=1e-2)
    assert found.detail["logit_rms_limit"] == 4e-4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_never_passes(value):
    wrong = CLASSES["logits"].copy()
    wrong[2, 1] = value
    assert not score_logits(predicted(wrong)).passed
    forced = LOGITS[:FORCED].copy()
    forced[0, 0, 0] = value
    assert not score_tokens(generated(REFERENCE["tokens"]), forced).passed


def test_the_logit_gap_is_that_of_the_first_token_that_differs():
    tokens = REFERENCE["tokens"].copy()
    # What follows the first divergence has another past and is not judged.
    tokens[0, 2:] = TOP[0, 2:, 3]
    found = score_tokens(generated(tokens), logit_gap=10.0, compared_fraction=0.0)
    lost = (LOGITS[0, 2, TOP[0, 2, 0]] - LOGITS[0, 2, TOP[0, 2, 3]]) / SPREAD
    assert found.detail["logit_gap"] == pytest.approx(lost, rel=1e-6)
    assert found.detail["compared_fraction"] == (COUNTS.sum() - 2) / COUNTS.sum()
    assert found.passed
    assert not score_tokens(generated(tokens)).passed


def test_a_token_beyond_the_candidates_has_at_least_the_gap_of_the_last_of_them():
    tokens = REFERENCE["tokens"].copy()
    tokens[1, 0] = LOGITS[1, 0].argmin()
    found = score_tokens(generated(tokens))
    last = (REFERENCE["top_logits"][1, 0, 0] - REFERENCE["top_logits"][1, 0, 7]) / SPREAD
    assert found.detail["logit_gap"] == pytest.approx(float(last), rel=1e-6)
    assert not found.passed


def test_a_near_tie_may_fall_either_way():
    reference = {k: v.copy() for k, v in REFERENCE.items()}
    reference["top_logits"][1, 4, 1] = reference["top_logits"][1, 4, 0] - 1e-4
    tokens = reference["tokens"].copy()
    tokens[1, 4] = reference["top_ids"][1, 4, 1]
    assert score_tokens(generated(tokens), reference=reference).passed


def test_too_few_judged_tokens_do_not_pass():
    tokens = np.ascontiguousarray(TOP[..., 1])
    found = score_tokens(generated(tokens), logit_gap=100.0)
    assert found.detail["compared_fraction"] == ROWS / COUNTS.sum()
    assert not found.passed


def test_of_long_answers_the_first_64_tokens_count_as_compared():
    repeated = {k: v.repeat(40, axis=1) for k, v in REFERENCE.items() if v.ndim > 1}
    reference = {**repeated, "n_tokens": np.full(ROWS, 40 * NEW, np.int32)}
    tokens = reference["tokens"].copy()
    tokens[:2, 31] = reference["top_ids"][:2, 31, 1]
    tokens[2, 64] = reference["top_ids"][2, 64, 1]
    answers = {row: each.tobytes() for row, each in enumerate(tokens)}
    found = score_tokens(answers, reference["logits"], reference, logit_gap=100.0)
    assert found.passed and found.detail["compared_fraction"] == (4 * 64 + 2 * 32) / (6 * 64)
    assert found.detail["equal_fraction"] < 1


@pytest.mark.parametrize("change", [lambda n: n - 1, lambda n: n + 1, lambda n: 0])
def test_a_row_of_another_count_fails(change):
    answers = generated(REFERENCE["tokens"])
    answers[3] = np.resize(REFERENCE["tokens"][3], change(5)).tobytes()
    found = score_tokens(answers, compared_fraction=0.0)
    assert (found.passed, found.detail["rows_of_wrong_length"]) == (False, 1)


def test_teacher_forced_logits_count_only_where_a_row_has_tokens():
    forced = LOGITS[:FORCED].copy()
    forced[2, 3:] = 1e6  # row 2 has three tokens
    assert score_tokens(generated(REFERENCE["tokens"]), forced).passed
    forced[2, 2] += 1.0
    assert not score_tokens(generated(REFERENCE["tokens"]), forced).passed


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (dict.fromkeys(range(5), b"\x00" * 8), "1 of 6 samples have no answer, the first is 5"),
        (
            dict.fromkeys(range(7), b"\x00" * 8),
            "1 answers are of samples that the reference does not have, the first is 6",
        ),
        (
            {i: b"\0" * (8 if i != 4 else 12) for i in range(6)},
            "the answer of sample 4 has 12 bytes, expected 8 bytes",
        ),
        (
            {i: b"\0" * (8 if i != 4 else 7) for i in range(6)},
            "the answer of sample 4 has 7 bytes, expected 8 bytes",
        ),
        ({}, "6 of 6 samples have no answer"),
    ],
)
def test_logits_that_are_not_one_row_a_sample_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        score_logits(answers)


def test_tokens_without_teacher_forced_logits_are_refused():
    with pytest.raises(ValueError, match=r"logits.npy is missing"):
        score_tokens(generated(REFERENCE["tokens"]), None)


def test_teacher_forced_logits_of_another_run_are_refused():
    with pytest.raises(ValueError, match="not of one run"):
        score_tokens(generated(REFERENCE["tokens"]), LOGITS[: FORCED - 1])


def test_a_reference_that_cannot_judge_is_refused():
    flat = {"logits": np.ones((6, 2), np.float32)}
    with pytest.raises(ValueError, match="nothing can be judged"):
        score_logits(predicted(flat["logits"]), flat)
    with pytest.raises(ValueError, match="the reference has no top_ids"):
        score_tokens({}, None, {k: v for k, v in REFERENCE.items() if k != "top_ids"})


def test_an_unknown_score_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="no accuracy score `f1`; there are logits, tokens"):
        accuracy.score("f1", {}, CLASSES, TOLERANCE, ("logits",), None)


def test_the_line_is_one_of_json_with_five_digits():
    line = accuracy.Accuracy(
        "logit_error", 0.123456789, 1e-3, False, {"logit_gap": float("nan"), "samples": 6}
    ).line()
    assert "\n" not in line
    assert json.loads(line) == {
        "metric": "logit_error",
        "value": 0.12346,
        "threshold": 0.001,
        "passed": False,
        "detail": {"logit_gap": None, "samples": 6},
    }


@settings(max_examples=200)
@given(
    st.dictionaries(st.integers(-1, ROWS), st.binary(max_size=24)),
    st.sampled_from(["logits", "tokens"]),
)
def test_whatever_the_payloads_are_a_score_or_one_sentence_comes_out(answers, kind):
    try:
        found = score_logits(answers) if kind == "logits" else score_tokens(answers)
    except ValueError as e:
        assert "\n" not in str(e)
    else:
        json.loads(found.line())


END = 39
ENDED = {
    **REFERENCE,
    "tokens": np.where(
        np.arange(NEW) == COUNTS[:, None] - 1,
        END,
        np.where(REFERENCE["tokens"] == END, 0, REFERENCE["tokens"]),
    ),
    "end_tokens": np.array([END], np.int32),
    "max_new_tokens": np.full(ROWS, NEW, np.int32),
}


def score_ended(answers):
    return score_tokens(answers, reference=ENDED, compared_fraction=0.0, logit_gap=100.0)


def test_answers_that_end_at_an_end_token_are_compared_to_their_end():
    found = score_ended(generated(ENDED["tokens"]))
    assert found.passed
    assert found.detail["equal_fraction"] == 1.0
    assert found.detail["tokens"] == found.detail["reference_tokens"] == COUNTS.sum()


@pytest.mark.parametrize(
    "row",
    [[3], [3, 4, 5, 6], [END, END, END], [3, END, 4, 5, 6], [3, 4, 5, 6, 7, END], []],
    ids=[
        "stops without an end",
        "stops one short",
        "two ends",
        "goes on behind its end",
        "more than it asked for",
        "nothing",
    ],
)
def test_an_answer_that_ends_where_none_may_is_of_the_wrong_length(row):
    found = score_ended(generated(ENDED["tokens"]) | {2: np.array(row, np.int32).tobytes()})
    assert found.detail["rows_of_wrong_length"] == 1
    assert not found.passed


def test_an_end_where_the_reference_goes_on_is_a_divergence_that_is_judged():
    assert TOP[0, 2, 0] != END
    answers = generated(ENDED["tokens"]) | {
        0: np.array([*ENDED["tokens"][0, :2], END], np.int32).tobytes()
    }
    found = score_ended(answers)
    assert found.detail["logit_gap"] > 0
    assert found.detail["rows_of_wrong_length"] == 0


OWN = np.repeat(REFERENCE["top_logits"][..., :1], 2, axis=-1)  # every token is the SUT's own argmax


def score_own(own):
    limits = {"argmax_fraction": 0.99, "rounding_step": 0.0078125}
    return score_tokens(generated(REFERENCE["tokens"]), own=own, **limits)


def test_sampled_tokens_fail_though_the_logits_are_right():
    sampled = OWN.copy()
    sampled[:3, 0, 1] -= 0.1  # three of 24 tokens; of so few tokens two may be others
    found = score_own(sampled)
    assert (found.value, found.detail["logit_gap"]) == (0.0, 0.0)
    assert found.detail["argmax_fraction"] == pytest.approx(1 - 3 / COUNTS.sum())
    assert not found.passed
    sampled[2] = OWN[2]
    assert score_own(sampled).passed


def test_a_token_within_one_rounding_step_of_the_largest_logit_counts_as_it():
    tied = OWN.copy()
    tied[..., 1] -= 0.0078 * np.abs(tied[..., 0])
    assert score_own(tied).detail["argmax_fraction"] == 1.0
    tied[..., 1] -= 0.0078 * np.abs(tied[..., 0])
    assert score_own(tied).detail["argmax_fraction"] == 0.0


def test_own_logits_that_are_not_a_number_or_beyond_an_answer_do_not_count():
    odd = OWN.copy()
    odd[2, 3:] = -9.0  # row 2 has three tokens
    odd[2, 3:, 0] = 9.0
    assert score_own(odd).detail["argmax_fraction"] == 1.0
    odd[:3, 0] = np.nan
    assert not score_own(odd).passed


@pytest.mark.parametrize(
    "own",
    [None, OWN[:-1], OWN[..., :1], OWN[:, :4], OWN.astype(np.int32), OWN[0]],
    ids=lambda o: str(np.shape(o)),
)
def test_own_logits_that_are_not_of_these_answers_are_refused(own):
    with pytest.raises(ValueError, match=r"own_logits\.npy"):
        score_own(own)
