import pytest

from harness.inputs import architectures, models
from harness.inputs.architectures import text as text_of

EVERY = [(name, size) for name in models.names() for size in models.load(name).sizes]


def test_the_models_are_those_of_the_files():
    usual = "bert gemma gemma3 llama mistral qwen3 sam stable-diffusion"
    assert models.in_group("") == usual.split()
    assert models.groups() == ["hf-2019"]
    assert models.in_group("hf-2019") == ["distilbert", "distilgpt2", "gpt2", "roberta"]
    assert sorted(models.in_group("") + models.in_group("hf-2019")) == models.names()
    with pytest.raises(KeyError):
        models.load("no-such-model")


@pytest.mark.parametrize(
    ("name", "size", "parameters"),
    [
        ("bert", "full", 109_483_778),  # BERT base with a head over two classes
        ("sam", "mid", 93_735_728),  # sam_vit_b, with its frequencies of positions
        ("sam", "full", 641_090_864),  # sam_vit_h, likewise
        # V1.4: text encoder 123, UNet 860, VAE 84 million.
        ("stable-diffusion", "full", 1_066_235_307),
        ("mistral", "full", 7_241_732_096),  # Mistral-7B-v0.1
        ("gemma", "full", 8_537_680_896),  # gemma-7b, its head tied
        ("llama", "full", 8_030_261_248),  # Llama-3.1-8B
        ("qwen3", "full", 8_190_735_360),  # Qwen3-8B
        ("gemma3", "full", 3_880_263_168),  # Gemma 3 4B without its encoder of pictures
        ("distilbert", "full", 66_362_880),  # distilbert-base-uncased
        ("gpt2", "full", 124_439_808),  # gpt2
        ("distilgpt2", "full", 81_912_576),  # distilgpt2
        ("roberta", "full", 124_645_632),  # roberta-base
    ],
)
def test_the_full_sizes_have_the_published_numbers_of_parameters(name, size, parameters):
    found = models.load(name).sizes[size]
    assert (found.parameters, found.weight_bytes("bfloat16")) == (parameters, 2 * parameters)


@pytest.mark.parametrize(
    ("name", "size", "facts"),
    [
        ("bert", "mid", "6 layers of 384, 22.7 M parameters"),
        ("bert", "full", "BERT base, 12 layers of 768, 109.5 M parameters"),
        ("distilgpt2", "tiny", "1 layer of 64, 0.2 M parameters"),
        ("distilgpt2", "full", "DistilGPT-2, 6 layers of 768, 81.9 M parameters"),
        ("sam", "mid", "Meta's ViT-B, 12 layers of 768, 93.7 M parameters"),
        ("stable-diffusion", "mid", "UNet of 64 to 256 channels, 57.6 M parameters"),
    ],
)
def test_a_size_says_its_layers_width_and_parameters(name, size, facts):
    assert models.load(name).sizes[size].facts == facts


def test_a_model_that_is_like_another_differs_in_what_its_file_says():
    distilled, whole = (models.load(name).sizes["mid"] for name in ("distilgpt2", "gpt2"))
    assert (distilled.config["n_layer"], whole.config["n_layer"]) == (3, 6)
    assert {**distilled.config, "n_layer": 6, "num_hidden_layers": 6} == whole.config
    assert distilled.batch_size == whole.batch_size and distilled.facts != whole.facts


def test_another_task_says_answers_inputs_and_rows_of_weights_anew():
    hidden, text = models.load("distilgpt2"), models.load("distilgpt2", "generate")
    assert (hidden.tasks, hidden.second_task) == (("predict", "generate"), None)
    assert (text.second_task, text.architecture) == ("generate", "causal_lm")
    assert (text.native_class, text.answer_keys) == ("GPT2LMHeadModel", ("tokens",))
    assert text.classes["hf_tensorflow"] == "TFGPT2LMHeadModel"
    assert "hidden_error" not in text.tolerance["float32"]
    tiny, other = text.sizes["tiny"], hidden.sizes["tiny"]
    assert (tiny.config["use_cache"], other.config["use_cache"]) == (True, False)
    assert tiny.config["n_layer"] == 1
    rows = zip(tiny.tensors, other.tensors, strict=True)
    assert [own.name for own, of_hidden in rows if own != of_hidden] == ["ln_f.weight"]
    assert models.load("gpt2", "predict").sizes == models.load("gpt2").sizes
    with pytest.raises(KeyError):
        models.load("bert", "generate")


@pytest.mark.parametrize(
    ("name", "size", "task"), [*((*each, None) for each in EVERY), ("gpt2", "mid", "generate")]
)
def test_every_size_is_complete(name, size, task):
    model = models.load(name, task)
    found = model.sizes[size]
    assert set(found.batch_size) == {"Offline", "SingleStream"} | ({"Fit"} if model.fit else set())
    assert found.batch_size["SingleStream"] == 1
    assert found.precision in model.tolerance
    architecture = architectures.of(model)
    of_answers = {
        "tokens": {"prompt_length", "new_tokens"},
        "mask": {"points"},
        "image": {"prompt_length"},
    }
    of_inputs = of_answers.get(model.answer_keys[0], {"sequence_length"})
    assert set(found.inputs) - {"quick_samples"} == of_inputs | (
        {"trained_tokens"} if model.fit and architecture.generates_tokens else set()
    )
    assert found.config["hidden_size"] % found.config["num_attention_heads"] == 0
    tokens = sum(found.inputs[key] for key in of_inputs)
    assert 0 < tokens <= text_of.positions(found.config)


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_every_tensor_has_a_name_of_its_own_and_a_spread(name, size):
    tensors = models.load(name).sizes[size].tensors
    assert len({t.name for t in tensors}) == len(tensors)
    assert not any("{" in t.name for t in tensors)
    assert [t.name for t in tensors if not t.std > 0] == (
        ["roberta.embeddings.token_type_embeddings.weight"] if name == "roberta" else []
    )


def test_residual_branches_shrink_with_depth():
    bert = models.load("bert").sizes
    name = "bert.encoder.layer.0.output.dense.weight"
    tiny, full = ({t.name: t.std for t in bert[size].tensors} for size in ("tiny", "full"))
    assert tiny[name] * (256 * 2) ** 0.5 == pytest.approx(full[name] * (3072 * 12) ** 0.5)


@pytest.mark.parametrize("name", models.names())
def test_lower_precision_is_judged_less_strictly(name):
    limits = models.load(name).tolerance
    order = ["float32", "tf32", "float16", "bfloat16"]
    assert list(limits) == [precision for precision in order if precision in limits]
    assert {"float32", "tf32"} <= limits.keys()
    for error in [key for key in limits["float32"] if key.endswith("_error")]:
        found = [limit[error] for limit in limits.values()]
        assert found == sorted(set(found))
