"""Without --model the user's folder decides. A model type without a file here becomes a model of
its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from harness.errors import UsageError
from harness.inputs import checkpoint, limits, models, unlisted, user_weights
from harness.inputs.architectures import text
from harness.request import plan
from harness.sweep import cells
from tests.conftest import CACHE
from tests.support.cells import request
from tests.support.weights_folders import DROP, MODELS, config, made, tensors

QWEN3 = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "rope_theta": DROP,
    "rope_scaling": DROP,
    "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"},
}
NORM = "model.layers.0.self_attn.q_norm.weight"


@pytest.fixture
def qwen3(made) -> Path:
    """The folder of a model type that no file here describes, with a tensor of its own."""
    folder = made("llama")
    config(folder, **QWEN3, auto_map={"AutoModel": "code.py"})
    tensors(folder, lambda t: t.update({NORM: np.ones(16, np.float32)}))
    return folder


def look(folder: Path) -> user_weights.Folder:
    return user_weights.look(folder, unlisted.model_of(folder))


@pytest.mark.parametrize(
    ("name", "changes", "task"),
    [
        ("mistral", {}, "generate"),
        ("bert", {}, "predict"),
        ("gpt2", {"architectures": ["GPT2LMHeadModel"]}, "generate"),
        ("gpt2", {"architectures": ["GPT2Model"]}, "predict"),
        ("gpt2", {"architectures": DROP}, "predict"),
    ],
)
def test_a_folder_of_a_listed_type_is_that_model(made, name, changes, task):
    folder = made(name)
    config(folder, **changes)
    assert unlisted.model_of(folder) == models.load(name, task)


def test_names_shapes_and_configuration_of_another_type_are_those_of_the_folder(qwen3):
    model, found = unlisted.model_of(qwen3), look(qwen3)
    assert (model.name, model.task, model.architecture) == ("qwen3", "generate", "causal_lm")
    assert model.classes == {"transformers": "AutoModelForCausalLM", "keras_hub": "CausalLM"}
    tiny = MODELS["llama"].sizes["tiny"]
    assert {t.name: t.shape for t in found.size.tensors} == {
        **{t.name: t.shape for t in tiny.tensors},
        NORM: (16,),
    }
    assert found.size.parameters == tiny.parameters + 16
    assert found.size.config["rope_parameters"] == QWEN3["rope_parameters"]
    assert found.size.config["architectures"] == QWEN3["architectures"]
    assert "auto_map" not in found.size.config
    assert any("was not measured for qwen3" in note for note in found.notes)


def test_its_checkpoint_is_the_folder(qwen3, tmp_path):
    linked = checkpoint.of_folder(look(qwen3), unlisted.model_of(qwen3), tmp_path / "cache")
    assert linked.path.name.startswith("qwen3-own-")
    assert (linked.path / "model.safetensors").readlink() == qwen3 / "model.safetensors"
    assert json.loads((linked.path / "config.json").read_text())["model_type"] == "qwen3"


def test_numbers_are_read_by_the_names_of_other_configurations(made):
    folder = made("gpt2")
    numbers = {"n_layer": 2, "n_embd": 64, "n_positions": 64}
    others = {"num_hidden_layers": DROP, "hidden_size": DROP, "max_position_embeddings": DROP}
    config(folder, model_type="gptx", architectures=["GPTXLMHeadModel"], **numbers, **others)
    found = look(folder).size.config
    assert (found["num_hidden_layers"], found["hidden_size"]) == (2, 64)
    assert (found["max_position_embeddings"], found["n_positions"]) == (64, 64)


def test_a_tied_head_that_is_stored_too_is_no_parameter(qwen3):
    config(qwen3, tie_word_embeddings=True)
    with pytest.raises(UsageError, match="lm_head.weight differs from model.embed_tokens.weight"):
        look(qwen3)
    embedding = "model.embed_tokens.weight"
    tensors(qwen3, lambda t: t.update({"lm_head.weight": t[embedding].copy()}))
    assert "lm_head.weight" not in [t.name for t in look(qwen3).size.tensors]


@pytest.mark.parametrize(
    "wrapper", ["module.", "_orig_mod.", "language_model.", "model.", "module._orig_mod.model."]
)
def test_wrappers_around_all_its_names_are_removed(qwen3, tmp_path, wrapper):
    whole = load_file(qwen3 / "model.safetensors")
    path = qwen3 / "model.safetensors"
    save_file({wrapper + name: values for name, values in whole.items()}, path, {"format": "pt"})
    found = look(qwen3)
    linked = checkpoint.of_folder(found, unlisted.model_of(qwen3), tmp_path / "cache")
    assert load_file(linked.path / "model.safetensors").keys() == whole.keys()
    assert any("copied to the cache" in note for note in found.notes)


def test_the_name_of_a_body_is_no_wrapper(qwen3):
    tensors(qwen3, lambda t: t.pop("lm_head.weight"))
    config(qwen3, tie_word_embeddings=True)
    assert look(qwen3).names == {}


@pytest.mark.parametrize("kept", ["model.embed_tokens.weight", "lm_head.weight"])
def test_its_shared_tensors_may_be_named_in_the_metadata(qwen3, tmp_path, kept):
    config(qwen3, tie_word_embeddings=True)
    whole = load_file(qwen3 / "model.safetensors")
    whole.pop("lm_head.weight")
    stored = {**whole, kept: whole["model.embed_tokens.weight"]}
    removed = ({"model.embed_tokens.weight", "lm_head.weight"} - {kept}).pop()
    stored.pop(removed, None)
    save_file(stored, qwen3 / "model.safetensors", {removed: kept})
    linked = checkpoint.of_folder(look(qwen3), unlisted.model_of(qwen3), tmp_path / "cache")
    assert load_file(linked.path / "model.safetensors").keys() == whole.keys()


def test_masks_that_old_releases_saved_are_not_read(qwen3):
    mask = "model.layers.0.attention.bias"
    tensors(qwen3, lambda t: t.update({mask: np.ones((1, 1, 8, 8), bool)}))
    assert mask not in [t.name for t in look(qwen3).size.tensors]


def test_experts_are_not_counted_as_operations(qwen3):
    expert = "model.layers.0.mlp.experts.0.up_proj.weight"
    before = text.layer_weights(look(qwen3).size)
    tensors(qwen3, lambda t: t.update({expert: np.ones((8, 64), np.float32)}))
    assert text.layer_weights(look(qwen3).size) == before


def test_limits_are_those_of_llama_and_more_for_a_wider_one(qwen3):
    model, size, llama = unlisted.model_of(qwen3), look(qwen3).size, models.load("llama")
    own = limits.limits(model, size, "float32", "cpu")
    assert own == limits.limits(llama, size, "float32", "cpu")
    wide = size.config | {"hidden_size": 4 * llama.sizes["base"].config["hidden_size"]}
    wider = limits.limits(model, type(size)(**vars(size) | {"config": wide}), "float32", "cpu")
    assert wider["logit_error"] == pytest.approx(2 * own["logit_error"], rel=1e-2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model_type": DROP},
            "has no model_type, so the model is not known: name it with --model",
        ),
        ({"model_type": "../x"}, "has no model_type"),
        ({"architectures": ["T5ForConditionalGeneration"]}, "holds T5ForConditionalGeneration. A"),
        ({"architectures": ["T5Model"], "is_encoder_decoder": True}, "holds T5Model. A folder of"),
        ({"architectures": DROP}, "holds no named class. A folder of qwen3 is measured if"),
        (
            {"max_position_embeddings": DROP},
            "has no max_position_embeddings, and the harness needs",
        ),
        ({"num_hidden_layers": "two"}, 'has "two" num_hidden_layers'),
        ({"quantization_config": {}}, "quantised weights are not supported"),
    ],
)
def test_a_folder_that_cannot_be_measured_is_one_sentence(qwen3, changes, words):
    config(qwen3, **changes)
    with pytest.raises(UsageError, match=words):
        look(qwen3)


def test_a_folder_without_config_json_needs_the_models_name(qwen3):
    (qwen3 / "config.json").unlink()
    with pytest.raises(
        UsageError, match="there is no config.json in it, so the model is not known"
    ):
        unlisted.model_of(qwen3)
    with pytest.raises(UsageError, match="is not a directory .names of the Hub are not downloaded"):
        unlisted.model_of(qwen3 / "nowhere")


def test_integers_are_quantised_weights(qwen3):
    tensors(qwen3, lambda t: t.update({NORM: np.ones(16, np.int8)}))
    with pytest.raises(UsageError, match="quantised weights are not supported"):
        look(qwen3)


@pytest.mark.parametrize(
    ("sut", "reason"),
    [
        ("native-torch-eager", None),
        ("keras3-jax", None),
        ("mock", None),
        ("hf-tensorflow", "qwen3 has no file here, and this SUT has no general class"),
        ("keras2-tensorflow", "qwen3 has no file here, and this SUT has no general class"),
        ("native-jax", "qwen3 has no file here, and this SUT has no general class"),
    ],
)
def test_libraries_with_a_general_class_are_tried(qwen3, tmp_path, sut, reason):
    asked = request(tmp_path, sut=sut, model=None, weights=qwen3)
    found = plan.unsupported(asked)
    assert found is None if reason is None else found and found.startswith(reason)
    assert asked.cell().model == "qwen3"


def test_a_training_and_a_task_that_it_has_not_are_refused(qwen3, tmp_path):
    fit = request(tmp_path, scenario="Fit", duration=None, model=None, weights=qwen3)
    assert "qwen3.toml has no [fit]" in (plan.unsupported(fit) or "")
    with pytest.raises(UsageError, match="--task predict: this qwen3 has only generate: leave it"):
        request(tmp_path, model=None, weights=qwen3, task="predict")


@pytest.mark.parametrize(
    ("head", "like", "classes"),
    [
        (
            "XForSequenceClassification",
            "bert",
            {"transformers": "AutoModelForSequenceClassification"},
        ),
        ("XModel", "distilbert", {"transformers": "AutoModel"}),
        ("XForMaskedLM", "distilbert", {"transformers": "AutoModel"}),
    ],
)
def test_an_encoder_is_judged_like_a_listed_one(made, head, like, classes):
    folder = made("roberta")
    config(folder, model_type="x", architectures=[head])
    model, found = unlisted.model_of(folder), look(folder)
    assert (model.name, model.task, model.classes) == ("x", "predict", classes)
    assert model.architecture == models.load(like).architecture
    assert found.size.parameters == MODELS["roberta"].sizes["tiny"].parameters
    assert (
        limits.limits(model, found.size, "float32", "cpu").keys()
        == models.load(like).tolerance["float32"].keys()
    )


def test_a_sweep_needs_no_model_beside_weights(qwen3):
    grid = {"sut": ["mock,native-torch-eager"], "scenario": ["Offline"], "weights": [str(qwen3)]}
    series = cells.make([grid], {"cache": [str(CACHE)], "out": ["nowhere"]}, False)
    assert [each.label for each in series] == [
        "mock qwen3 user Offline batch 32 float32",
        "native-torch-eager qwen3 user Offline batch 32 float32",
    ]
