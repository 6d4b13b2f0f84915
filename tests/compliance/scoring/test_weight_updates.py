"""The updates of a training's weights are compared with the reference's without their names."""

import numpy as np
import pytest

from compliance.scoring import weight_updates
from compliance.scoring.value import Accuracy
from scenarios.worker.fit import _updates

LIMITS = {"update_error": 1e-3}
CURVE = Accuracy("loss_error", 0.0, 1e-3, True, {"steps": 20.0})
RNG = np.random.default_rng(1)
INITIAL = {
    "query": RNG.normal(0, 0.02, (32, 32)),
    "key": RNG.normal(0, 0.02, (32, 32)),
    "norm": np.ones(32),
    "bias": np.zeros(32),
    "other bias": np.zeros(32),
}
TRAINED = {name: values + RNG.normal(0, 1e-3, values.shape) for name, values in INITIAL.items()}
NAMES = tuple(INITIAL)


def score(initial, trained, limits=LIMITS):
    reference = np.array(_updates([INITIAL[name] for name in NAMES], TRAINED.values()))
    return weight_updates.judged(CURVE, _updates(initial, trained), reference, limits)


def test_a_library_may_transpose_reorder_and_reshape_its_weights():
    order = NAMES[::-1]
    initial = [INITIAL[name].T.reshape(-1) for name in order]
    found = score(initial, [TRAINED[name].T.reshape(-1) for name in order])
    assert found.passed
    assert found.detail["update_error"] == pytest.approx(0, abs=1e-9)
    assert found.detail["matched_parameters"] == 1


def test_weights_that_a_library_joins_are_left_out():
    joined = {"query and key": np.stack([INITIAL["query"], INITIAL["key"]])}
    others = {name: INITIAL[name] for name in NAMES[2:]}
    trained = [
        np.stack([TRAINED["query"], TRAINED["key"]]),
        *(TRAINED[name] for name in NAMES[2:]),
    ]
    found = score([*joined.values(), *others.values()], trained)
    assert found.detail["update_error"] == pytest.approx(0, abs=1e-9)
    assert found.detail["matched_parameters"] < 0.5
    assert not found.passed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", ["frozen", "decayed", "shifted"])
def test_one_weight_with_another_update_does_not_pass(name, change):
    trained = dict(TRAINED)
    if change == "frozen":
        trained[name] = INITIAL[name]
    elif change == "decayed":
        trained[name] = TRAINED[name] - 0.01 * (INITIAL[name] + (INITIAL[name] == 0))
    else:
        trained[name] = TRAINED[name] + 1e-4
    assert not score(INITIAL.values(), trained.values()).passed


@pytest.mark.parametrize(
    ("trained", "limits", "words"),
    [
        ([np.full((32, 32), np.nan)], LIMITS, "six finite numbers"),
        ([TRAINED["query"]], {}, "no limit for update_error"),
    ],
)
def test_what_cannot_be_compared_is_an_error(trained, limits, words):
    with pytest.raises(ValueError, match=words):
        score([INITIAL["query"]], trained, limits)
