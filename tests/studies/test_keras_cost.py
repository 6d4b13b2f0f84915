"""The table of what Keras costs, from the milliseconds of made-up turns."""

import re

import numpy as np
import pytest

from harness.inputs import models
from studies import keras_cost

NOISE = np.random.default_rng(0).normal(0, 0.01, (2, 60))


def columns(name, with_keras_ms, without_ms):
    model = models.load(name)
    times = np.array([[with_keras_ms], [without_ms]]) * np.exp(NOISE)
    row = keras_cost._row(model, model.sizes["tiny"], 1, times)
    return [text.strip() for text in row.strip("|").split("|")]


def numbers(text):
    return [float(number.replace(",", "")) for number in re.findall(r"-?[\d,.]+", text)]


@pytest.mark.parametrize(
    ("with_keras_ms", "without_ms"), [(2.0, 1.0), (1.0, 1.5), (2_000.0, 1_600.0)]
)
def test_the_cost_of_a_call_has_the_interval_of_the_ratio(with_keras_ms, without_ms):
    *_, cost, _, ratio = columns("bert", with_keras_ms, without_ms)
    us, least_us, most_us = numbers(cost.replace(" to ", " "))
    assert us == pytest.approx(1e3 * (with_keras_ms - without_ms), abs=30 * without_ms)
    assert least_us < us < most_us
    value, low, high = numbers(ratio.replace("–", " "))
    assert low <= value <= high and value == pytest.approx(without_ms / with_keras_ms, rel=0.02)


def test_a_row_has_the_columns_of_its_heading():
    row = columns("mistral", 45.0, 9.0)
    assert len(row) == 3 + len(keras_cost._COLUMNS)
    assert row[0] == "mistral tiny, 1"
    # 45 tokens in an answer.
    assert numbers(row[4].replace(", ", " ")) == pytest.approx([1.0, 0.2], rel=0.01)


def test_a_model_that_generates_nothing_has_no_time_of_a_token():
    assert columns("bert", 2.0, 1.0)[4] == ""
