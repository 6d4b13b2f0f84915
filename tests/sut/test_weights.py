"""A folder that Transformers saved gives the same answers on every SUT; with two rows of one tensor
swapped for one SUT it fails.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.inputs import checkpoint, models, user_weights
from harness.inputs.models import drawn
from sut.checkpoint import weights_files
from sut.registry import SUTS
from tests.conftest import CACHE
from tests.support.commands import call
from tests.support.files import read_json
from tests.support.frameworks import run_module, tiny_workload, workload
from tests.support.long import long_unless
from tests.sut.conftest import REFERENCE, ROWS, Probed, inputs

PAIRS = [
    (sut, model)
    for model in ("bert", "gemma", "mistral")
    for sut in (REFERENCE, "keras3-jax", "keras3-torch")
]
# Tied, and its positions scaled.
PAIRS += [(sut, "llama") for sut in (REFERENCE, "keras3-jax", "native-jax")]
PAIRS += [
    ("native-jax", "bert"),
    ("native-jax", "gemma"),
    ("hf-tensorflow-xla", "mistral"),
    ("keras2-tensorflow", "mistral"),
]
# With its head, and names that begin with "transformer.".
PAIRS += [(sut, "gpt2") for sut in (REFERENCE, "keras2-tensorflow")]
QUICK = (REFERENCE, "keras3-jax")
"""Tests of other SUTs are long."""
SWAPPED = {
    "bert": "bert.encoder.layer.1.attention.self.value.weight",
    "gemma": "model.layers.1.mlp.gate_proj.weight",
    "mistral": "model.layers.0.self_attn.k_proj.weight",
    "llama": "model.layers.0.self_attn.k_proj.weight",
    "gpt2": "transformer.h.0.attn.c_proj.weight",
}
SCALED = {"rope_type": "linear", "factor": 2.0}
KERAS_CANNOT = {
    "tied mistral": (
        "mistral",
        {"tie_word_embeddings": True},
        "MistralBackbone ties its head to its embedding never",
        "SafetensorError",
    ),
    "untied gemma": (
        "gemma",
        {"tie_word_embeddings": False},
        "GemmaBackbone ties its head to its embedding always",
        "without lm_head",
    ),
    "wide heads": (
        "llama",
        {"head_dim": 32},
        "Llama3Backbone has only heads of hidden_size / num_attention_heads",
        "ValueError",
    ),
    "linear": (
        "llama",
        {"rope_scaling": SCALED},
        "Llama3Backbone scales rotary positions as llama3 does and not",
        "ValueError",
    ),
}
"""Case → (model, what its config.json says, what the SUT says, what comes of it in KerasHub
itself).
"""


@pytest.fixture(scope="session")
def answered(interpreter, saved, tmp_path_factory):
    """(SUT, model) → its answers from the folder (`whole`) and from its twin with swapped rows
    (`swapped`): one task for each SUT.
    """
    root = tmp_path_factory.mktemp("answers")
    known = {}

    def answer(sut, name):
        if (sut, name) not in known:
            if sut != REFERENCE:
                answer(REFERENCE, name)  # which makes the references too
            of_sut = [model for each, model in PAIRS if each == sut]
            specified = {model: _specify(sut, model, saved, root) for model in of_sut}
            python = interpreter(SUTS[sut].environment)
            specs = [spec for _, spec in specified.values()]
            run_module(python, "tests.sut.user_answers", sut, root / f"{sut}.json", specs)
            for model, (size, spec) in specified.items():
                with np.load(spec["reference"]) as f:
                    known[sut, model] = Probed(_model(model), Path(spec["out"]), dict(f), {}, size)
        return known[sut, name]

    return answer


def _model(name):
    return models.load(name, "generate" if name == "gpt2" else None)


def _specify(sut, name, saved, root):
    """→ (the size that the folder says, what tests.sut.user_answers is told)."""
    model, out = _model(name), root / f"{sut}-{name}"
    out.mkdir()
    other = swap(saved / name, SWAPPED[name], root / f"{sut}-{name}-swapped")
    found = {"whole": saved / name, "swapped": other}
    found = {case: user_weights.look(folder, model) for case, folder in found.items()}
    size = found["whole"].size
    np.savez(out / "inputs.npz", **inputs(model, size))
    buckets = {"prompt_buckets": [5], "new_token_buckets": [45]}
    return size, {
        "sut": sut,
        "architecture": model.architecture,
        "workload": workload(sut, model, size, "", ROWS, **buckets),
        "inputs": str(out / "inputs.npz"),
        "out": str(out),
        "reference": str(root / f"{name}.npz"),
        "folders": {
            case: str(checkpoint.of_folder(each, model, root).path) for case, each in found.items()
        },
    }


@pytest.fixture(scope="session")
def refused(interpreter, tmp_path_factory):
    """Case of KERAS_CANNOT → what keras3-jax says to it, and what KerasHub says or does."""
    root = tmp_path_factory.mktemp("refused")
    cases = {}
    for case, (name, changes, _, _) in KERAS_CANNOT.items():
        model, sut = models.load(name), "keras3-jax"
        config = {**model.sizes["tiny"].config, **changes}
        tensors = drawn.tensors(model.weights, config, model.parts)
        size = replace(model.sizes["tiny"], config=config, tensors=tensors)
        cases[case] = tiny_workload(sut, name, root)
        cases[case]["checkpoint"] = str(checkpoint.ensure(model, size, root).path)
        cases[case]["config"]["model"] = config
    run_module(interpreter(sut), "tests.sut.keras_cannot", sut, root / "spec.json", cases)
    return read_json(root / "told.json")


@pytest.mark.parametrize("sut", ["keras3-jax"])
def test_no_random_value_is_drawn_for_a_weight_of_keras_that_is_loaded(interpreter, tmp_path, sut):
    """A model of 7 billion parameters would wait minutes for them."""
    names = ("bert", "gemma", "mistral", "distilbert")
    cases = [(models.load(name).architecture, tiny_workload(sut, name, CACHE)) for name in names]
    python = interpreter(SUTS[sut].environment)
    run_module(python, "tests.sut.keras_draws", sut, tmp_path / "spec.json", cases)
    assert read_json(tmp_path / "drawn.json") == {name: [] for name in names}


def swap(folder, tensor, to):
    """A copy with rows 3 and 20 of one tensor exchanged."""
    shutil.copytree(folder, to)
    file = weights_files.file_of(to, tensor)
    found = load_file(file)
    found[tensor][[3, 20]] = found[tensor][[20, 3]]
    save_file(found, file, {"format": "pt"})
    return to


@pytest.mark.parametrize(("sut", "model"), long_unless(PAIRS, lambda row: row[0] in QUICK))
def test_a_users_float32_folder_agrees_to_rounding_on_every_sut(answered, sut, model):
    """Where KerasHub alone would read Mistral's through float16 (6e-3) and give BERT the tanh GELU
    (7e-4).
    """
    found = answered(sut, model).score("whole")
    assert found.passed
    assert found.value < 2e-5


@pytest.mark.parametrize(("sut", "model"), long_unless(PAIRS, lambda row: row[0] in QUICK))
def test_two_swapped_rows_of_one_tensor_fail(answered, sut, model):
    found = answered(sut, model).score("swapped")
    gap = found.detail.get("logit_gap", 0) / found.detail.get("logit_gap_limit", 1)
    assert not found.passed
    assert max(found.value / found.threshold, gap) > 10


@pytest.mark.parametrize(("sut", "model"), [pair for pair in PAIRS if pair[0] == "keras3-jax"])
def test_every_tensor_of_a_folder_reaches_keras_once(answered, sut, model):
    """BERT's head is set by our own file."""
    found = answered(sut, model)
    names = (t.name.removeprefix("bert.") for t in found.size.tensors)
    own = sorted(name for name in names if not name.startswith("classifier"))
    assert sorted(read_json(found.out / "read.json")) == own


@pytest.mark.parametrize("case", KERAS_CANNOT)
def test_what_kerashub_cannot_is_unsupported_and_fails_in_kerashub_itself(refused, case):
    *_, words, itself = KERAS_CANNOT[case]
    assert refused[case][0].startswith(f"KerasHub's {words}")
    assert itself in refused[case][1]


def test_a_sharded_folder_holds_what_its_single_file_would(saved):
    names = read_json(saved / "mistral" / weights_files.INDEX)["weight_map"]
    assert len(set(names.values())) > 1
    for name, file in names.items():
        expected = load_file(saved / "mistral" / file)[name]
        np.testing.assert_array_equal(weights_files.tensor(saved / "mistral", name), expected)
        rows = list(weights_files.rows(saved / "mistral", name, 7))
        np.testing.assert_array_equal(np.concatenate(rows), expected)


def test_the_command_measures_a_users_tied_folder_and_passes_its_accuracy_test(
    saved, tmp_path, capsys
):
    flags = f"--sut {REFERENCE} --model mistral --scenario Offline --batch-size 8 --duration 0.5"
    places = ("--weights", saved / "tied", "--out", tmp_path, "--cache", CACHE)
    code, out, _ = call([*flags.split(), "--json", *places], capsys)
    (found,) = json.loads(out)["cells"]
    assert (code, found["status"], found["accuracy"]["passed"]) == (0, "ok", True)
    assert found["cell"]["size"] == "user"
    record = read_json(Path(found["directory"]) / "record.json")
    assert record["digests"]["weights_source"] == "user"
    assert found["cell"]["weights"] == record["digests"]["weights"][:12]
