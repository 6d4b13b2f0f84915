"""LoRA's factors: how many there are, and what they begin with."""

import numpy as np
import pytest

from harness.inputs import models
from sut import adapters
from sut.registry import MATRIX, PER_HEAD


@pytest.mark.parametrize(
    ("model", "factors", "count"),
    [
        ("mistral", MATRIX, 1792),
        ("mistral", PER_HEAD, 3328),
        ("gemma", MATRIX, 2560),
        ("gemma", PER_HEAD, 3584),
        ("llama", MATRIX, 1792),
    ],
)
def test_as_many_parameters_are_trained_as_the_libraries_have(model, factors, count):
    config = models.load(model).sizes["tiny"].config
    assert adapters.parameters(config, {"rank": 4, "factors": factors}) == count


def test_a_factor_begins_with_the_same_values_every_time_and_others_in_each_layer_and_product():
    config, lora = models.load("mistral").sizes["tiny"].config, {"rank": 4, "factors": MATRIX}
    one, same, other, value = (
        adapters.first(config, lora, layer, name)
        for layer, name in ((0, "q_proj"), (0, "q_proj"), (1, "q_proj"), (0, "v_proj"))
    )
    np.testing.assert_array_equal(one, same)
    assert one.shape == (4, 64) and one.dtype == np.float32 and np.abs(one).max() <= 1 / 8
    assert not (one == other).any() and not (one == value).any()
