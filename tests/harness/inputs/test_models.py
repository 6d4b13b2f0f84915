import pytest

from harness.inputs import architectures, models
from harness.inputs.architectures import text as text_of

EVERY = [(name, size) for name in models.names() for size in models.load(name).sizes]


def test_the_models_are_those_of_the_files():
    assert models.in_group("") == [
        "bert",
        "gemma",
        "gemma3",
        "llama",
        "mistral",
        "qwen3",
        "sam",
        "stable-diffusion",
    ]
    assert models.groups() == ["hf-2019"]
    assert models.in_group("hf-2019") == ["distilbert", "distilgpt2", "gpt2", "roberta"]
    assert sorted(models.in_group("") + models.in_group("hf-2019")) == models.names()
    with pytest.raises(KeyError):
        models.load("no-such-model")


def test_the_full_sizes_have_the_published_numbers_of_parameters():
    # Bert-base with a head over two classes.
    assert models.load("bert").sizes["full"].parameters == 109_483_778
    # sam_vit_b, with its frequencies of positions.
    assert models.load("sam").sizes["mid"].parameters == 93_735_728
    assert models.load("sam").sizes["full"].parameters == 641_090_864  # sam_vit_h, likewise
    # V1.4: text encoder 123, UNet 860, VAE 84 million.
    assert models.load("stable-diffusion").sizes["full"].parameters == 1_066_235_307
    assert models.load("mistral").sizes["full"].parameters == 7_241_732_096  # Mistral-7B-v0.1
    assert models.load("gemma").sizes["full"].parameters == 8_537_680_896  # gemma-7b, its head tied
    assert models.load("llama").sizes["full"].parameters == 8_030_261_248  # Llama-3.1-8B
    assert models.load("qwen3").sizes["full"].parameters == 8_190_735_360  # Qwen3-8B
    # Gemma 3 4B without its encoder of pictures.
    assert models.load("gemma3").sizes["full"].parameters == 3_880_263_168
    assert models.load("mistral").sizes["full"].weight_bytes("bfloat16") == 14_483_464_192
    # Distilbert-base-uncased.
    assert models.load("distilbert").sizes["full"].parameters == 66_362_880
    assert models.load("gpt2").sizes["full"].parameters == 124_439_808  # gpt2
    assert models.load("distilgpt2").sizes["full"].parameters == 81_912_576  # distilgpt2
    assert models.load("roberta").sizes["full"].parameters == 124_645_632  # roberta-base


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
    assert (hidden.tasks, hidden.second_task, text.second_task) == (
        ("predict", "generate"),
        None,
        "generate",
    )
    assert (text.architecture, text.native_class, text.answer_keys) == (
        "causal_lm",
        "GPT2LMHeadModel",
        ("tokens",),
    )
    assert (
        text.classes["hf_tensorflow"] == "TFGPT2LMHeadModel"
        and "hidden_error" not in text.tolerance["float32"]
    )
    tiny = text.sizes["tiny"]
    assert (
        tiny.config["use_cache"],
        hidden.sizes["tiny"].config["use_cache"],
        tiny.config["n_layer"],
    ) == (True, False, 1)
    changed = {
        t.name
        for t, other in zip(tiny.tensors, hidden.sizes["tiny"].tensors, strict=True)
        if t != other
    }
    assert changed == {"ln_f.weight"}
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


def test_a_weight_table_names_every_layer():
    names = {t.name for t in models.load("mistral").sizes["full"].tensors}
    assert {f"model.layers.{i}.mlp.gate_proj.weight" for i in range(32)} <= names
    assert len(names) == 32 * 9 + 3


def test_residual_branches_shrink_with_depth():
    bert = models.load("bert").sizes
    name = "bert.encoder.layer.0.output.dense.weight"
    tiny, full = (
        next(t for t in bert[size].tensors if t.name == name) for size in ("tiny", "full")
    )
    assert tiny.std * (256 * 2) ** 0.5 == pytest.approx(full.std * (3072 * 12) ** 0.5)


@pytest.mark.parametrize("name", models.names())
def test_lower_precision_is_judged_less_strictly(name):
    limits = models.load(name).tolerance
    order = ["float32", "tf32", "float16", "bfloat16"]
    assert list(limits) == [precision for precision in order if precision in limits]
    assert {"float32", "tf32"} <= limits.keys()
    for error in [key for key in limits["float32"] if key.endswith("_error")]:
        assert [limit[error] for limit in limits.values()] == sorted(
            {limit[error] for limit in limits.values()}
        )


def test_a_row_of_a_table_stands_for_window_and_global_layers_and_for_each_word_of_a_list():
    tiny = {t.name: t.shape for t in models.load("sam").sizes["tiny"].tensors}
    of_layers = {n: tiny[f"image_encoder.blocks.{n}.attn.rel_pos_h"] for n in range(4)}
    assert of_layers == {0: (9, 16), 1: (15, 16), 2: (9, 16), 3: (15, 16)}
    assert tiny["image_encoder.blocks.2.attn.qkv.weight"] == (3 * 64, 64)
    attention = "mask_decoder.transformer.layers.1.self_attn"
    assert {f"{attention}.{part}_proj.bias" for part in ("q", "k", "v", "out")} <= set(tiny)
