from __future__ import annotations

import pytest

from harness.inputs import families, models

EVERY = [(name, size) for name in models.names() for size in models.load(name).sizes]


def test_the_models_are_those_of_the_files():
    assert models.names() == ["bert", "gemma", "llama", "mistral"]
    with pytest.raises(KeyError):
        models.load("no-such-model")


def test_the_full_sizes_have_the_published_numbers_of_parameters():
    assert models.load("bert").sizes["full"].parameters == 109_483_778  # bert-base with a head over two classes
    assert models.load("mistral").sizes["full"].parameters == 7_241_732_096  # Mistral-7B-v0.1
    assert models.load("gemma").sizes["full"].parameters == 8_537_680_896  # gemma-7b, its head tied
    assert models.load("llama").sizes["full"].parameters == 8_030_261_248  # Llama-3.1-8B
    assert models.load("mistral").sizes["full"].weight_bytes("bfloat16") == 14_483_464_192


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_every_size_is_complete(name, size):
    model = models.load(name)
    found = model.sizes[size]
    assert set(found.batch_size) == {"Offline", "SingleStream"} | ({"Fit"} if model.fit else set())
    assert found.batch_size["SingleStream"] == 1
    assert found.precision in model.tolerance
    assert set(found.inputs) == ({"prompt_length", "new_tokens"} if families.of(model).generates_tokens else {"sequence_length"})
    assert found.config["hidden_size"] % found.config["num_attention_heads"] == 0
    assert 0 < sum(found.inputs.values()) <= found.config["max_position_embeddings"]


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_every_tensor_has_a_name_of_its_own_and_a_spread(name, size):
    tensors = models.load(name).sizes[size].tensors
    assert len({t.name for t in tensors}) == len(tensors)
    assert not any("{" in t.name for t in tensors)
    assert all(t.std > 0 for t in tensors)


def test_a_weight_table_names_every_layer():
    names = {t.name for t in models.load("mistral").sizes["full"].tensors}
    assert {f"model.layers.{i}.mlp.gate_proj.weight" for i in range(32)} <= names
    assert len(names) == 32 * 9 + 3


def test_residual_branches_shrink_with_depth():
    bert = models.load("bert").sizes
    name = "bert.encoder.layer.0.output.dense.weight"
    tiny, full = (next(t for t in bert[size].tensors if t.name == name) for size in ("tiny", "full"))
    assert tiny.std * (256 * 2) ** 0.5 == pytest.approx(full.std * (3072 * 12) ** 0.5)


@pytest.mark.parametrize("name", models.names())
def test_lower_precision_is_judged_less_strictly(name):
    limits = models.load(name).tolerance
    assert limits["float32"]["logit_error"] < limits["tf32"]["logit_error"] < limits["bfloat16"]["logit_error"]
