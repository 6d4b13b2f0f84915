"""Keras 2: what the table of names holds, and what the registry says it lacks."""

import pytest

from harness.inputs import models
from sut.checkpoint import bert_keras_nlp, causal_lm_keras_nlp
from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.long import LONG
from tests.sut.conftest import KERAS2

SUT = "keras2-tensorflow"
GPT2 = (
    'AttributeError: Exception encountered when calling layer "transformer_layer_0" (type'
    " TransformerDecoder)"
)
ERRORS = {
    "gemma": "ValueError: `GemmaBackbone` requires Keras 3",
    "llama": "AttributeError: module 'keras_nlp.models' has no attribute 'LlamaBackbone'",
    "qwen3": "AttributeError: module 'keras_nlp.models' has no attribute 'Qwen3Backbone'",
    "gemma3": "AttributeError: module 'keras_nlp.models' has no attribute 'Gemma3Backbone'",
    "mistral/bfloat16": (
        'AttributeError: Exception encountered when calling layer "transformer_layer_0" (type'
        " MistralTransformerDecoder)"
    ),
    "gpt2/generate/bfloat16": GPT2,
    "distilgpt2/generate/bfloat16": GPT2,
    "mistral/fit": "ValueError: no weight is left to train",
}

WHERE = {
    "mistral/bfloat16": "rotary_embedding.py",
    "gpt2/generate/bfloat16": "cached_multi_head_attention.py",
}


@pytest.mark.parametrize("model", ["mistral", "gpt2"])
@pytest.mark.parametrize("size", ["tiny", "full"])
def test_the_table_of_a_language_model_holds_every_tensor_once_and_each_third_of_gpt2s(model, size):
    found = models.load(model, "generate").sizes[size]
    places = list(getattr(causal_lm_keras_nlp, model)(found.config["num_hidden_layers"]))
    thirds = {
        name: [p.third for p in places if p.tensor == name] for name in {p.tensor for p in places}
    }
    assert sorted(thirds) == sorted(t.name for t in found.tensors)
    assert all(
        third == ([0, 1, 2] if "c_attn" in name else [None]) for name, third in thirds.items()
    )
    assert len({p.path for p in places}) == len(places)


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_the_table_of_names_holds_every_tensor_of_the_checkpoint_once(size):
    bert = models.load("bert").sizes[size]
    paths, names = zip(*bert_keras_nlp.variables(bert.config["num_hidden_layers"]), strict=True)
    assert sorted(names) == sorted(t.name for t in bert.tensors)
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("model", ["bert", "mistral"])
def test_every_variable_of_the_model_is_in_the_table(probed, model):
    """Their number is that of the checkpoint's tensors, and an unset one would show in the
    answers.
    """
    found = probed(SUT, model)
    assert read_json(found.out / "lacks.json")["variables"] == len(found.size.tensors)


@pytest.mark.parametrize("cell", ERRORS)
def test_what_is_unsupported_on_keras_2_was_tried(probed, cell):
    told = read_json(probed(SUT, "bert").out / "lacks.json")
    assert told[cell].startswith(ERRORS[cell])
    assert WHERE.get(cell, "") in told[cell]
    assert {sut: SUTS[sut].unsupported.keys() for sut in KERAS2} == dict.fromkeys(
        KERAS2, ERRORS.keys()
    )


@LONG
def test_a_mistral_that_kerasnlp_has_not_is_refused(probed):
    told = read_json(probed(SUT, "mistral").out / "lacks.json")
    assert all(
        told[key].startswith("KerasNLP's Mistral lacks ")
        for key in ("tie_word_embeddings", "rope_scaling", "head_dim")
    ), told
