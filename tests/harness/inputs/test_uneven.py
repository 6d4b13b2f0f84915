"""The standard data set of uneven lengths, and which inputs are drawn unless the user chooses."""

from pathlib import Path

import numpy as np
import pytest

from formats.result import Status
from harness.errors import UsageError
from harness.inputs import dataset, models
from harness.inputs.architectures import text
from harness.request import estimate, options, plan
from results import summary
from tests.support.cells import measure, request
from tests.support.files import read_json


def prepared(tmp_path, name, *, task=None, samples=8, **arguments):
    model = models.load(name, task)
    found = dataset.prepare(model, model.sizes["tiny"], samples, None, tmp_path, **arguments)
    with np.load(found.path) as inputs, np.load(found.synthetic) as synthetic:
        return found, dict(inputs), dict(synthetic)


def test_lengths_go_from_a_tenth_of_the_width_to_all_of_it_in_seeded_order():
    lengths = text.uneven_lengths(100, 10, 0)
    assert sorted(lengths.tolist()) == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert lengths.tolist() != sorted(lengths.tolist())
    np.testing.assert_array_equal(lengths, text.uneven_lengths(100, 10, 0))
    assert lengths.tolist() != text.uneven_lengths(100, 10, 1).tolist()


def test_one_input_has_full_length():
    assert text.uneven_lengths(100, 1, 0).tolist() == [100]


def test_berts_own_inputs_hold_padding_and_so_do_those_that_calibrate(tmp_path):
    found, arrays, synthetic = prepared(tmp_path, "bert")
    width = models.load("bert").sizes["tiny"].inputs["sequence_length"]
    mask = arrays["attention_mask"]
    assert sorted(mask.sum(1).tolist()) == sorted(text.uneven_lengths(width, 8, 0).tolist())
    ids = arrays["input_ids"]
    assert (ids[mask == 0] == 0).all() and (ids[mask == 1] > 2).all()
    assert (np.diff(mask, axis=1) <= 0).all()  # padding is behind
    np.testing.assert_array_equal(synthetic["attention_mask"][found.warmup_rows :], mask)
    assert found.description.seq_len == width


def test_berts_training_inputs_hold_padding_too(tmp_path):
    found, arrays, _ = prepared(tmp_path, "bert", batch_size=4, trains=True)
    with np.load(found.fresh) as held_out:
        assert held_out["attention_mask"].min() == 0
    assert arrays["attention_mask"].min() == 0 and len(arrays["label"]) == 8


def test_inputs_of_full_length_are_still_there_and_are_the_cell_of_older_runs(tmp_path):
    _, arrays, _ = prepared(tmp_path, "bert", standard="synthetic")
    assert arrays["attention_mask"].min() == 1
    padded, full = request(tmp_path), request(tmp_path, standard="synthetic")
    assert (padded.cell().dataset, full.cell().dataset) == ("uneven", "synthetic")
    assert padded.cell().digest != full.cell().digest


@pytest.mark.parametrize("name", ["distilbert", "gpt2", "mistral", "sam", "stable-diffusion"])
def test_inputs_of_other_models_keep_their_full_length(tmp_path, name):
    assert request(tmp_path, model=name).cell().dataset == "synthetic"


@pytest.mark.parametrize(
    ("name", "task"), [("gemma", None), ("llama", None), ("mistral", None), ("gpt2", "generate")]
)
def test_uneven_prompts_of_language_models_fall_into_buckets(tmp_path, name, task):
    model = models.load(name, task)
    size = plan.resolve(options.parse(words(model=name, prompt_tokens=64, task=task))).size
    found = dataset.prepare(model, size, 64, None, tmp_path, standard="uneven")
    with np.load(found.path) as arrays:
        lengths = arrays["prompt_length"]
        assert (int(lengths.min()), int(lengths.max())) == (7, 64)
        assert arrays["input_ids"].shape == (64, 64)
        beyond = np.arange(64) >= lengths[:, None]
        assert len(np.unique(arrays["input_ids"][beyond])) == 1
    assert found.description.config["prompt_buckets"] == [16, 32, 64]
    assert found.description.uneven


def words(**flags):
    given = {"sut": "mock", "scenario": "Offline"} | {
        name: value for name, value in flags.items() if value is not None
    }
    return [word for name, value in given.items() for word in (options.flag(name), str(value))]


def test_the_flag_names_a_standard_data_set_and_a_file_of_its_name_takes_a_path():
    standard = options.parse(words(model="mistral", dataset="uneven"))
    file = options.parse(words(model="mistral", dataset="./uneven"))
    assert (standard.standard, standard.dataset) == ("uneven", None)
    assert (file.standard, file.dataset) == (None, Path("uneven").absolute())


def test_the_label_names_the_data_set_that_was_chosen(tmp_path):
    assert "uneven" in request(tmp_path, model="mistral", standard="uneven").label


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"model": "sam"}, "--dataset uneven: the inputs of sam have one length: leave it out"),
        (
            {"model": "distilbert"},
            "--dataset uneven: the inputs of distilbert have one length: leave it out",
        ),
        (
            {"model": "mistral", "scenario": "Fit"},
            "--dataset uneven: the inputs of mistral have one length in a training: leave it out",
        ),
    ],
)
def test_models_without_lengths_refuse_it(tmp_path, flags, sentence):
    with pytest.raises(UsageError, match=sentence):
        request(tmp_path, standard="uneven", **flags)


def test_a_test_makes_whole_passes_over_uneven_prompts_and_the_cell_says_so(tmp_path):
    flags = {"model": "mistral", "scenario": "Offline", "size": "tiny", "standard": "uneven"}
    found = measure(request(tmp_path, **flags, prompt_tokens=40, new_tokens=3))
    assert (found.status, found.reason, found.cell.dataset) == (Status.OK, "", "uneven")
    assert found.measured["passes"] == int(found.measured["passes"])
    record = read_json(Path(found.directory) / "record.json")
    assert record["qsl"] | {"shortest": 4, "longest": 40, "synthetic": True} == record["qsl"]


def test_an_estimate_takes_no_run_of_other_inputs(tmp_path):
    uneven = {"model": "mistral", "scenario": "Offline", "size": "tiny", "standard": "uneven"}
    assert measure(request(tmp_path, **uneven)).status is Status.OK
    assert estimate.of(request(tmp_path, **uneven)).basis != estimate.RULE
    assert estimate.of(request(tmp_path, **uneven | {"standard": None})).basis == estimate.RULE


def test_no_two_synthetic_negative_prompts_are_the_same(tmp_path):
    _, arrays, _ = prepared(tmp_path, "stable-diffusion")
    both = np.concatenate([arrays["negative_ids"], arrays["input_ids"]])
    assert len(np.unique(both, axis=0)) == len(both)


def test_a_result_says_that_lengths_are_uneven(tmp_path):
    found = measure(request(tmp_path, scenario="Offline", batch_size=4))
    assert "64 inputs of uneven length, padded to 32 tokens" in summary.measured(found)
    assert "no padding" not in summary.measured(found)
    documents = [path.read_text() for path in Path(found.directory).rglob("open/**/README.md")]
    assert any("(64 samples,\nuneven)" in text for text in documents)
