"""What a run is going to cost, by the rule for cells that never ran."""

from dataclasses import replace

import numpy as np
import pytest

from formats.job import REFERENCE
from formats.writing import write_json
from harness.inputs.dataset import UserInputs, digest_of
from harness.request import estimate
from tests.support import mock_job
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


def to_make(asked):
    return {n: s for n, (s, _) in estimate.of(asked).once.items() if n.startswith("reference")}


def test_a_reference_of_the_same_inputs_is_not_made_again(tmp_path):
    asked = request(tmp_path, cache=tmp_path)
    arrays = {"input_ids": np.arange(32)[:, None]}
    asked = replace(asked, given=UserInputs(arrays, ()))
    folder = tmp_path / "references" / f"{asked.benchmark}-1"
    job = mock_job.make(folder, test=REFERENCE)
    same = tmp_path / f"bert-{digest_of(arrays)[:12]}" / "inputs.npz"
    write_json(folder / "job.json", replace(job, inputs=same))
    assert len(to_make(asked)) == 1  # it was not finished
    (folder / "reference.npz").touch()
    assert to_make(asked) == {}
    write_json(folder / "job.json", job)
    assert len(to_make(asked)) == 1  # it is of other inputs


@pytest.mark.parametrize(
    ("scenario", "batch_size", "answers"),
    [("Offline", 8, 24), ("Offline", 4, 16), ("SingleStream", 1, 8)],
)
def test_the_plan_says_which_duration_a_quick_test_needs(
    tmp_path, monkeypatch, scenario, batch_size, answers
):
    """Three whole batches and whole passes over eight prompts, or one pass. An answer takes five
    seconds.
    """
    monkeypatch.setattr(estimate, "_sample_seconds", lambda request: 5.0)
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one two\n" * 8)
    flags = {"model": "mistral", "dataset": prompts, "batch_size": batch_size}
    asked = request(tmp_path, duration=1.0, scenario=scenario, **flags)
    needed = answers * 5 / estimate.LONGEST_TIMES
    assert estimate.too_short(asked) == (
        f"a quick {scenario} test takes at least {5 * answers} s (an estimate), and --duration 1"
        f" allows 10 s: give --duration {needed:g}"
    )
    assert estimate.too_short(replace(asked, duration=needed)) is None
