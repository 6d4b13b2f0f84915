"""The reference's answers are those of a forward pass in NumPy and float64 that shares no code with
it.
"""

import numpy as np
import pytest
from safetensors.numpy import load_file

from sut.registry import REFERENCES, SUTS
from tests.sut import numpy_forward

LIMIT = 1e-5
MODELS = ("bert", "mistral", "gemma", "llama")
MISTAKES = [
    ("bert", {"num_hidden_layers": 1}),
    ("bert", {"layer_norm_eps": 1e-6}),
    ("bert", {"hidden_act": "gelu"}),
    ("mistral", {"num_hidden_layers": 1}),
    ("mistral", {"rms_norm_eps": 1e-6}),
    ("mistral", {"hidden_act": "gelu"}),
    ("gemma", {"num_hidden_layers": 1}),
    ("gemma", {"rms_norm_eps": 1e-5}),
    ("gemma", {"hidden_act": "gelu"}),
    ("llama", {"rms_norm_eps": 1e-6}),
    ("llama", {"rope_theta": 500000.0}),
    ("llama", {"rope_scaling": None}),
]


def error(probed, **changes):
    """Largest difference between the reference and NumPy, in standard deviations of the logits;
    NumPy with another configuration.
    """
    weights = {
        name: values.astype(np.float64)
        for name, values in load_file(probed.checkpoint / "model.safetensors").items()
    }
    config = {**probed.model.sizes["tiny"].config, **changes}
    reference, inputs = probed.reference, probed.inputs
    if "tokens" not in reference:
        expected = numpy_forward.classify(
            weights, config, inputs["input_ids"], inputs["attention_mask"]
        )
    else:
        ids = np.concatenate([inputs["input_ids"], reference["tokens"]], axis=1)[
            : len(reference["logits"])
        ]
        expected = numpy_forward.next_token_logits(weights, config, ids)[
            :, inputs["input_ids"].shape[1] - 1 : -1
        ]
    return float(np.abs(reference["logits"] - expected).max() / expected.std())


@pytest.mark.parametrize("model", MODELS)
def test_the_reference_agrees_with_a_forward_pass_in_numpy(probed, model):
    assert error(probed("native-torch-eager", model)) < LIMIT


@pytest.mark.parametrize(("model", "mistake"), MISTAKES)
def test_another_configuration_would_be_seen(probed, model, mistake):
    assert error(probed("native-torch-eager", model), **mistake) > 10 * LIMIT


@pytest.mark.parametrize("model", MODELS[1:])
def test_the_reference_generates_what_numpy_rates_highest(probed, model):
    found = probed("native-torch-eager", model)
    np.testing.assert_array_equal(
        found.reference["logits"].argmax(-1),
        found.reference["tokens"][: len(found.reference["logits"])],
    )


def test_no_command_offers_the_reference_as_a_sut():
    assert not REFERENCES.keys() & SUTS.keys()
