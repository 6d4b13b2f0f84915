"""Without --model the user's folder decides. A model type without a file here becomes a model of
its own.
"""

from dataclasses import replace

import numpy as np
import pytest

from harness.errors import UsageError
from harness.inputs import architectures, limits, models, unlisted, user_weights
from harness.inputs.architectures import text
from harness.request import plan
from harness.sweep import cells
from tests.support.cells import WHERE, request
from tests.support.weights_folders import DROP, MODELS, config, made, tensors

OLMO2 = {
    "model_type": "olmo2",
    "architectures": ["Olmo2ForCausalLM"],
    "rope_theta": DROP,
    "rope_scaling": DROP,
    "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"},
}
NORM = "model.layers.0.self_attn.q_norm.weight"


@pytest.fixture
def olmo2(made):
    """The folder of a model type that no file here describes, with a tensor of its own."""
    folder = made("llama")
    config(folder, **OLMO2, auto_map={"AutoModel": "code.py"})
    tensors(folder, lambda t: t.update({NORM: np.ones(16, np.float32)}))
    return folder


def look(folder):
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


KIN = ("roberta", "camembert", "data2vec-text", "longformer", "xlm-roberta", "xmod")


@pytest.mark.parametrize(
    ("kind", "head", "tokens"),
    [
        *((kind, "Model", 64) for kind in KIN),
        ("xmod", "ForSequenceClassification", 64),
        ("xmod", "ForQuestionAnswering", 64),
        ("electra", "Model", 66),
    ],
)
def test_positions_of_roberta_and_its_kin_begin_after_the_padding(made, kind, head, tokens):
    folder = made("roberta" if kind == "roberta" else "bert")
    changes = {"max_position_embeddings": 66, "pad_token_id": 1, "architectures": [f"Any{head}"]}
    if kind == "roberta":
        name = "roberta.embeddings.position_embeddings.weight"
        tensors(folder, lambda t: t.update({name: t[name][:66]}))
    config(folder, model_type=kind, **changes)
    model, size = unlisted.model_of(folder), look(folder).size
    of_inputs = architectures.of(model)
    assert size.inputs["sequence_length"] == tokens
    found = of_inputs.with_sequence_length(model, size, tokens)
    assert of_inputs.synthetic(found, 1, 0)["input_ids"].shape == (1, tokens)
    with pytest.raises(UsageError, match=f"--seq-len {tokens + 1}: .* {tokens}"):
        of_inputs.with_sequence_length(model, size, tokens + 1)


def test_a_folder_has_the_values_that_transformers_5_renames_or_leaves_out(olmo2):
    config(olmo2, num_local_experts=4)
    found = look(olmo2).size.config
    assert (found["num_experts"], found["id2label"]) == (4, {"0": "LABEL_0", "1": "LABEL_1"})
    config(olmo2, id2label={"0": "a"}, num_experts=8)
    found = look(olmo2).size.config
    assert (found["num_experts"], found["id2label"]) == (8, {"0": "a"})


def test_names_shapes_and_configuration_of_another_type_are_those_of_the_folder(olmo2):
    model, found = unlisted.model_of(olmo2), look(olmo2)
    assert (model.name, model.task, model.architecture) == ("olmo2", "generate", "causal_lm")
    classes = {"transformers": "AutoModelForCausalLM", "keras_hub": "CausalLM"}
    assert model.classes | classes == model.classes
    tiny = MODELS["llama"].sizes["tiny"]
    shapes = {t.name: t.shape for t in tiny.tensors} | {NORM: (16,)}
    assert {t.name: t.shape for t in found.size.tensors} == shapes
    assert found.size.parameters == tiny.parameters + 16
    assert found.size.config["rope_parameters"] == OLMO2["rope_parameters"]
    assert found.size.config["architectures"] == OLMO2["architectures"]
    assert "auto_map" not in found.size.config
    assert any("was not measured for olmo2" in note for note in found.notes)


def test_a_folder_of_a_type_without_a_table_is_judged_by_the_measurements_of_its_type(
    olmo2, tmp_path
):
    """The seeded model of the type has measurements, and no table that a folder must fit."""
    config(olmo2, model_type="qwen3", architectures=["Qwen3ForCausalLM"])
    found = unlisted.model_of(olmo2)
    assert (found.name, found.like, found.fit) == ("qwen3", "qwen3", {})
    assert not any("was not measured" in note for note in look(olmo2).notes)
    assert request(tmp_path, model="qwen3", weights=olmo2).model == found
    with pytest.raises(UsageError, match="model_type qwen3, and --model gemma3 is gemma3_text"):
        request(tmp_path, model="gemma3", weights=olmo2)


def test_a_deeper_model_has_wider_limits(olmo2):
    model, size = unlisted.model_of(olmo2), look(olmo2).size
    measured = models.load("llama").sizes["mid"].config["num_hidden_layers"]

    def error(layers, precision):
        deep = replace(size, config={**size.config, "num_hidden_layers": layers})
        return limits.limits(model, deep, precision, "cpu")["logit_error"]

    assert error(2, "float32") == error(measured, "float32")
    assert error(2 * measured, "float32") == pytest.approx(2 * error(2, "float32"), rel=1e-2)
    for precision in ("float32", "bfloat16"):
        loosest = models.load("llama").tolerance[precision]["logit_error"]
        assert error(64, precision) == loosest


def test_numbers_are_read_by_the_names_of_other_configurations(made):
    folder = made("gpt2")
    numbers = {"n_layer": 2, "n_embd": 64, "n_positions": 64}
    others = {"num_hidden_layers": DROP, "hidden_size": DROP, "max_position_embeddings": DROP}
    config(folder, model_type="gptx", architectures=["GPTXLMHeadModel"], **numbers, **others)
    found = look(folder).size.config
    assert (found["num_hidden_layers"], found["hidden_size"]) == (2, 64)
    assert (found["max_position_embeddings"], found["n_positions"]) == (64, 64)


def test_the_name_of_a_body_is_no_wrapper(olmo2):
    tensors(olmo2, lambda t: t.pop("lm_head.weight"))
    config(olmo2, tie_word_embeddings=True)
    assert look(olmo2).names == {}


def test_masks_that_old_releases_saved_are_not_read(olmo2):
    mask = "model.layers.0.attention.bias"
    tensors(olmo2, lambda t: t.update({mask: np.ones((1, 1, 8, 8), bool)}))
    assert mask not in [t.name for t in look(olmo2).size.tensors]


@pytest.mark.parametrize(
    "part", ["mlp.experts.0.up_proj", "output.adapter_modules.en_XX.dense1", "self.query_global"]
)
def test_weights_that_not_every_token_passes_are_not_counted_as_operations(olmo2, part):
    name = f"model.layers.0.{part}.weight"
    before = text.layer_weights(look(olmo2).size)
    tensors(olmo2, lambda t: t.update({name: np.ones((8, 64), np.float32)}))
    assert text.layer_weights(look(olmo2).size) == before


def test_limits_are_those_of_llama_and_more_for_a_wider_one(olmo2):
    model, size, llama = unlisted.model_of(olmo2), look(olmo2).size, models.load("llama")
    own = limits.limits(model, size, "float32", "cpu")
    assert own == limits.limits(llama, size, "float32", "cpu")
    wide = size.config | {"hidden_size": 4 * llama.sizes["mid"].config["hidden_size"]}
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
        ({"architectures": DROP}, "holds no named class. A folder of olmo2 is measured if"),
        (
            {"max_position_embeddings": DROP},
            "has no max_position_embeddings, and the harness needs",
        ),
        ({"num_hidden_layers": "two"}, 'has "two" num_hidden_layers'),
        ({"quantization_config": {}}, "quantised weights are not supported"),
    ],
)
def test_a_folder_that_cannot_be_measured_is_one_sentence(olmo2, changes, words):
    config(olmo2, **changes)
    with pytest.raises(UsageError, match=words):
        look(olmo2)


def test_a_folder_without_config_json_needs_the_models_name(olmo2):
    (olmo2 / "config.json").unlink()
    words = "there is no config.json in it, so the model is not known"
    with pytest.raises(UsageError, match=words):
        unlisted.model_of(olmo2)
    with pytest.raises(UsageError, match="is not a directory .names of the Hub are not downloaded"):
        unlisted.model_of(olmo2 / "nowhere")


@pytest.mark.parametrize(
    ("sut", "reason"),
    [
        ("native-torch-eager", None),
        ("keras3-jax", None),
        ("mock", None),
        ("hf-tensorflow", "olmo2 has no file here, and this SUT has no general class"),
        ("keras2-tensorflow", "olmo2 has no file here, and this SUT has no general class"),
        ("native-jax", None),
    ],
)
def test_libraries_with_a_general_class_are_tried(olmo2, tmp_path, sut, reason):
    asked = request(tmp_path, sut=sut, model=None, weights=olmo2)
    found = plan.unsupported(asked)
    assert found is None if reason is None else found and found.startswith(reason)
    assert asked.cell().model == "olmo2"


def test_a_training_and_a_task_that_it_has_not_are_refused(olmo2, tmp_path):
    fit = request(tmp_path, scenario="Fit", duration=None, model=None, weights=olmo2)
    assert "olmo2.toml has no [fit]" in (plan.unsupported(fit) or "")
    with pytest.raises(UsageError, match="--task predict: this olmo2 has only generate: leave it"):
        request(tmp_path, model=None, weights=olmo2, task="predict")


@pytest.mark.parametrize(
    ("head", "like", "classes"),
    [
        (
            "XForSequenceClassification",
            "bert",
            {"transformers": "AutoModelForSequenceClassification", "keras_hub": "TextClassifier"},
        ),
        ("XModel", "distilbert", {"transformers": "AutoModel", "keras_hub": "Backbone"}),
        ("XForMaskedLM", "distilbert", {"transformers": "AutoModel", "keras_hub": "Backbone"}),
    ],
)
def test_an_encoder_is_judged_like_a_listed_one(made, head, like, classes):
    folder = made("roberta")
    config(folder, model_type="x", architectures=[head])
    model, found = unlisted.model_of(folder), look(folder)
    assert (model.name, model.task, model.classes) == ("x", "predict", classes)
    assert model.architecture == models.load(like).architecture
    assert found.size.parameters == MODELS["roberta"].sizes["tiny"].parameters
    judged = limits.limits(model, found.size, "float32", "cpu")
    assert judged.keys() == models.load(like).tolerance["float32"].keys()


def test_a_sweep_needs_no_model_beside_weights(olmo2):
    grid = {"sut": ["mock,native-torch-eager"], "scenario": ["Offline"], "weights": [str(olmo2)]}
    assert [each.label for each in cells.make([grid], WHERE, control=False)] == [
        "mock olmo2 user Offline float32 batch 32",
        "native-torch-eager olmo2 user Offline float32 batch 32",
    ]


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("DistilBertModel", "distilbert"),
        ("DistilBertForMaskedLM", "distilbert"),
        ("DistilBertForSequenceClassification", "DistilBertForSequenceClassification"),
        ("DistilBertForTokenClassification", "DistilBertForTokenClassification"),
    ],
)
def test_another_head_of_a_listed_model_has_the_name_of_its_class(made, architecture, name):
    folder = made("distilbert")
    config(folder, architectures=[architecture])
    model = unlisted.model_of(folder)
    assert model.name == name
    assert bool(model.like) is (name != "distilbert")
    assert user_weights.look(folder, model).size.config["hidden_size"] == 64


def test_classifiers_of_tokens_run_where_a_library_has_a_class(made, tmp_path):
    folder = made("distilbert")
    config(folder, architectures=["DistilBertForTokenClassification"])
    found = {
        sut: plan.unsupported(request(tmp_path, sut=sut, model=None, weights=folder))
        for sut in ("native-torch-eager", "keras3-jax", "native-jax")
    }
    assert found["native-torch-eager"] is None
    assert "KerasHub 0.32 has no classifier of tokens" in str(found["keras3-jax"])
    assert "there is no sut/native_jax/token_classifier.py" in str(found["native-jax"])
