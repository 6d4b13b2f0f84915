"""A toy backend that is wrong is found, an honest one is not, and the words say who agrees."""

import numpy as np
import pytest

from harness.conformance import verdicts
from harness.conformance.running import BACKENDS
from harness.conformance.verdicts import BEFORE, Agreement

RIGHT = np.random.default_rng(0).standard_normal((4, 5, 6))
MASK = np.ones((4, 5), int)


def in_float32(values):
    return {"0": values.astype(np.float32)}


def found_in(answers):
    """The findings on one operation."""
    return list(verdicts.of_file("operations", "a case", answers, BACKENDS))


def judged(jax, torch64=RIGHT):
    """The verdict on JAX, with honest judges unless another one is given."""
    found = {
        "JAX": jax,
        "PyTorch": in_float32(RIGHT),
        "TensorFlow in float64": {"0": RIGHT},
        "PyTorch in float64": torch64 if isinstance(torch64, str) else {"0": torch64},
    }
    return {row.backend: row for row in found_in(found)}


def test_an_honest_backend_agrees():
    assert {row.verdict for row in judged(in_float32(RIGHT)).values()} == {Agreement.AGREES}


@pytest.mark.parametrize(
    "wrong",
    [RIGHT + 1e-3, RIGHT[::-1], RIGHT[:, :4], np.where(RIGHT > 1, np.nan, RIGHT)],
    ids=["one per mille", "other order", "another shape", "no numbers"],
)
def test_a_wrong_backend_differs_and_the_other_one_does_not(wrong):
    rows = judged(in_float32(wrong))
    assert rows["JAX"].verdict is Agreement.DIFFERS
    assert rows["PyTorch"].verdict is Agreement.AGREES


def test_another_kind_of_numbers_differs():
    whole = np.arange(6)
    found = {
        "JAX": {"0": whole.astype(np.float32)},
        "PyTorch": {"0": whole.astype(np.int32)},
        "TensorFlow in float64": {"0": whole},
        "PyTorch in float64": {"0": whole},
    }
    verdict = {row.backend: row.verdict for row in found_in(found)}
    assert verdict == {"JAX": Agreement.DIFFERS, "PyTorch": Agreement.AGREES}


def test_one_judge_alone_accuses_nobody():
    found = {"JAX": in_float32(RIGHT + 1), "PyTorch in float64": {"0": RIGHT}}
    (row,) = found_in(found)
    assert row.verdict is Agreement.UNJUDGED
    assert row.words.startswith("only PyTorch in float64 judges")


def test_nothing_is_judged_if_the_judges_differ_and_the_words_say_who_agrees():
    rows = judged(in_float32(RIGHT + 1), torch64=RIGHT + 1)
    assert {row.verdict for row in rows.values()} == {Agreement.UNJUDGED}
    assert "TensorFlow in float64 and PyTorch agree" in rows["JAX"].words
    assert "PyTorch in float64 and JAX agree" in rows["JAX"].words


def test_one_judge_is_enough_and_is_named():
    row = judged(in_float32(RIGHT), torch64="RuntimeError: no kernel")["JAX"]
    assert row.verdict is Agreement.AGREES
    assert row.words == "only TensorFlow in float64 judges"


def test_a_refusal_keeps_its_words():
    row = judged("ValueError: not here")["JAX"]
    assert (row.verdict, row.words) == (Agreement.REFUSED, "ValueError: not here")


def test_a_loss_is_judged_by_its_value_before_it_was_saved():
    lost = {"0": np.float32(2.0)}
    found = {
        "JAX": lost,
        "TensorFlow in float64": lost,
        "PyTorch in float64": lost,
        BEFORE: {"0": np.float32(1.5)},
    }
    (row,) = found_in(found)
    assert row.verdict is Agreement.DIFFERS


def folder(made, wanted=RIGHT, exact=None, mask=MASK):
    reference = {
        "output": wanted.astype(np.float32),
        "output64": wanted if exact is None else exact,
        "mask": mask,
    }
    for number in range(3):
        reference[f"layer|{number}|layers"] = (wanted + number).astype(np.float32)
        key = f"layer|{number}|Block"
        made[key] = made.pop(key, wanted + number)  # in their order
    return verdicts.of_folder("toy, plain", "JAX", reference, made)


def test_a_folder_that_is_read_whole_agrees():
    assert folder({"output": RIGHT.astype(np.float32)}).verdict is Agreement.AGREES


def test_a_folder_differs_from_the_first_layer_that_differs():
    made = {"output": RIGHT + 0.1, "layer|1|Block": RIGHT + 1.5}
    row = folder(made)
    assert row.verdict is Agreement.DIFFERS
    assert row.layer == "layer 1 of 3 (Block, 0.5)"


def test_a_folder_may_differ_after_its_last_layer():
    assert folder({"output": RIGHT + 0.1}).layer == "after the last layer"


def test_answers_at_padding_do_not_count():
    mask = MASK.copy()
    mask[3, 2:] = 0
    made = RIGHT.copy()
    made[3, 2:] = np.nan
    assert folder({"output": made}, mask=mask).verdict is Agreement.AGREES


def test_a_noisy_case_has_a_wider_limit_which_ends():
    noisy = RIGHT + 2e-5
    assert folder({"output": RIGHT + 1e-4}, exact=noisy).verdict is Agreement.AGREES
    assert folder({"output": RIGHT + 1e-4}).verdict is Agreement.DIFFERS
    assert folder({"output": RIGHT + 1e-2}, exact=RIGHT + 1).verdict is Agreement.DIFFERS
