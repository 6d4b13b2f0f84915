"""What a run is going to cost, by the rule for cells that never ran."""

import pytest

from harness.request import estimate
from tests.support.cells import request


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """One that computes 200 GFLOP/s and reads 20 GB/s."""
    monkeypatch.setattr(estimate, "flops_per_second", lambda: 200e9)
    monkeypatch.setattr(estimate, "bytes_per_second", lambda: 20e9)


def seconds(tmp_path, batch_size, **changes):
    asked = {
        "sut": "native-torch-eager",
        "size": "mid",
        "scenario": "Offline",
        "batch_size": batch_size,
        "device": "cpu",
    }
    found = request(tmp_path, **(asked | changes))
    return estimate._sample_seconds(found), found.size.parameters


def test_a_model_that_generates_reads_its_weights_for_each_token_of_a_batch(tmp_path):
    alone, parameters = seconds(tmp_path, 1, model="mistral")
    assert alone == pytest.approx(45 * 4 * parameters / 20e9)
    assert seconds(tmp_path, 2, model="mistral")[0] == pytest.approx(alone / 2)
    computed, _ = seconds(tmp_path, 256, model="mistral")
    assert computed == seconds(tmp_path, 512, model="mistral")[0]
    # Of each parameter two operations a token, but for the embedding: it is looked up, and the head
    # sees no token of the prompt.
    assert 0.5 < computed * (0.15 * 200e9) / (2 * parameters * 50) < 0.9


def test_a_model_that_predicts_computes_at_any_batch_and_with_its_layers_alone(tmp_path):
    alone, _ = seconds(tmp_path, 1, model="bert")
    assert alone == seconds(tmp_path, 32, model="bert")[0]
    layer = 4 * 384 * 384 + 2 * 384 * 1536
    assert alone == pytest.approx(2 * 6 * layer * 128 / (0.3 * 200e9))


def test_a_training_passes_forwards_and_backwards_at_any_batch(tmp_path):
    fit = {"scenario": "Fit", "duration": None}
    answering, _ = seconds(tmp_path, 1, model="bert")
    assert seconds(tmp_path, 1, model="bert", **fit)[0] == pytest.approx(3 * answering)
    adapting, parameters = seconds(tmp_path, 1, model="mistral", **fit)
    assert adapting == seconds(tmp_path, 8, model="mistral", **fit)[0]
    # Two passes over the 64 tokens of a sample; the embedding, a quarter of the parameters, is
    # looked up.
    assert 0.7 < adapting * (0.3 * 200e9) / (2 * 2 * parameters * 64) < 0.85
