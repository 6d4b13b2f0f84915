"""A user's own folder that fits is taken as it is."""

import json
import re
import shutil
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy needs its bfloat16
import numpy as np
import pytest

from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import checkpoint, dataset, models, user_weights
from harness.inputs.architectures import UserFile
from harness.measurement import run
from tests.conftest import CACHE
from tests.support.cells import Reporter, measure, request
from tests.support.files import read_json
from tests.support.tokens import bpe
from tests.support.weights_folders import (
    DROP,
    INDEX,
    MODELS,
    config,
    digest_of,
    made,
    shard,
    tensors,
)


@pytest.mark.parametrize("name", MODELS)
def test_our_own_checkpoint_is_a_folder_that_fits_with_the_same_digest(made, tmp_path, name):
    folder, model = made(name), MODELS[name]
    found = user_weights.look(folder, model)
    tiny, full = model.sizes["tiny"], model.sizes["full"]
    assert (found.size.name, found.size.precision, found.size.batch_size) == (
        "user",
        "float32",
        full.batch_size,
    )
    assert found.size.parameters == tiny.parameters
    assert {key: found.size.inputs[key] for key in full.inputs if key != "quick_samples"} == {
        key: value for key, value in full.inputs.items() if key != "quick_samples"
    }
    linked = checkpoint.of_folder(found, model, tmp_path / "cache")
    assert linked.digest == checkpoint.ensure(model, tiny, tmp_path / "cache").digest
    assert {
        k: v for k, v in read_json(linked.path / "config.json").items() if k in tiny.config
    } == tiny.config


def test_only_the_weights_and_our_configuration_reach_a_sut(made, tmp_path):
    folder = made("mistral")
    shard(folder)
    for name in (
        "generation_config.json",
        "adapter_config.json",
        "consolidated.safetensors",
        "pytorch_model.bin",
        "modeling_own.py",
    ):
        (folder / name).write_text("{}")
    config(folder, auto_map={"AutoModel": "modeling_own.Own"})
    found = user_weights.look(folder, MODELS["mistral"])
    linked = checkpoint.of_folder(found, MODELS["mistral"], tmp_path / "cache")
    assert sorted(p.name for p in linked.path.iterdir()) == [
        "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX
    ]  # fmt: skip
    assert "auto_map" not in found.size.config
    assert "config.json names code of its own (auto_map), which is not run" in found.notes
    files = [
        folder / n
        for n in (
            "config.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        )
    ]
    assert linked.digest == digest_of(*files)
    assert linked.bytes == sum(f.stat().st_size for f in files[1:])


def test_changed_files_and_another_place_are_another_checkpoint(made, tmp_path):
    folder, model = made("bert"), MODELS["bert"]

    def linked(where):
        return checkpoint.of_folder(user_weights.look(where, model), model, tmp_path / "cache")

    first = linked(folder)
    assert linked(folder) == first
    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    assert (linked(moved).digest, linked(moved).path == first.path) == (first.digest, False)
    tensors(folder, lambda t: t["classifier.bias"].__iadd__(1))
    assert linked(folder).digest != first.digest
    shutil.rmtree(moved)
    shutil.copytree(folder, moved)
    assert (linked(moved).path / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("damage", ["other weights", "no configuration", "one file more"])
def test_a_folder_of_links_that_was_changed_is_made_again(made, tmp_path, damage):
    folder, model = made("bert"), MODELS["bert"]
    linked = checkpoint.of_folder(user_weights.look(folder, model), model, tmp_path / "cache")
    if damage == "other weights":
        (linked.path / "model.safetensors").unlink()
        (linked.path / "model.safetensors").write_bytes(b"")
    elif damage == "no configuration":
        (linked.path / "config.json").unlink()
    else:
        (linked.path / "generation_config.json").write_text("{}")
    assert (
        checkpoint.of_folder(user_weights.look(folder, model), model, tmp_path / "cache") == linked
    )
    assert sorted(p.name for p in linked.path.iterdir()) == ["config.json", "model.safetensors"]
    assert (linked.path / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_what_config_json_leaves_out_is_what_transformers_takes(made):
    folder = made("mistral")
    config(
        folder,
        head_dim=None,
        rope_theta=DROP,
        rms_norm_eps=DROP,
        sliding_window=DROP,
        hidden_act=DROP,
        architectures=DROP,
        dtype=DROP,
    )
    config(
        folder, rope_parameters={"rope_theta": 5e5, "rope_type": "default"}, torch_dtype="bfloat16"
    )
    found = user_weights.look(folder, MODELS["mistral"]).size
    assert found.precision == found.config["dtype"] == "bfloat16"
    told = {
        k: found.config.get(k)
        for k in (
            "head_dim",
            "rope_theta",
            "rms_norm_eps",
            "sliding_window",
            "hidden_act",
            "rope_parameters",
        )
    }
    assert told == {
        "head_dim": 16, "rope_theta": 5e5, "rms_norm_eps": 1e-6, "sliding_window": 4096, "hidden_act": "silu", "rope_parameters": None
    }  # fmt: skip
    assert found.config["architectures"] == ["MistralForCausalLM"]
    config(folder, sliding_window=None, rope_scaling=None, rope_parameters=DROP, rope_theta=2e4)
    again = user_weights.look(folder, MODELS["mistral"]).size.config
    assert (again["sliding_window"], again["rope_theta"]) == (None, 2e4)


def test_the_classes_of_a_classifier_are_those_of_its_labels(made):
    folder = made("bert")
    config(folder, num_labels=DROP, id2label={"0": "a", "1": "b", "2": "c"})
    tensors(
        folder,
        lambda t: t.update(
            {
                "classifier.weight": np.ones((3, 64), np.float32),
                "classifier.bias": np.ones(3, np.float32),
            }
        ),
    )
    assert user_weights.look(folder, MODELS["bert"]).size.config["num_labels"] == 3


def test_legacy_names_and_buffers_are_no_misfit(made):
    folder = made("bert")

    def age(t):
        for name in [n for n in t if "LayerNorm" in n]:
            t[
                name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                    "LayerNorm.bias", "LayerNorm.beta"
                )
            ] = t.pop(name)
        t["bert.embeddings.position_ids"] = np.arange(512)[None]

    tensors(folder, age)
    assert (
        "tensors without parameters, not read: bert.embeddings.position_ids"
        in user_weights.look(folder, MODELS["bert"]).notes
    )
    folder = made("mistral")
    tensors(
        folder,
        lambda t: t.update(
            {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
        ),
    )
    assert "not read: model.layers.0.self_attn.rotary_emb.inv_freq" in " ".join(
        user_weights.look(folder, MODELS["mistral"]).notes
    )


def test_a_tied_head_may_be_stored_too(made):
    folder = made("gemma")
    tensors(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].copy()}))
    assert (
        "lm_head.weight equals model.embed_tokens.weight, with which it is tied: not read"
        in user_weights.look(folder, MODELS["gemma"]).notes
    )


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_tied_folder_needs_no_head(made, name):
    folder = made(name)
    config(folder, tie_word_embeddings=True)
    tensors(folder, lambda t: t.pop("lm_head.weight"))
    size = user_weights.look(folder, MODELS[name]).size
    assert size.parameters == MODELS[name].sizes["tiny"].parameters - 1000 * 64


def test_both_spellings_of_scaled_positions_are_read_alike(made):
    folder = made("llama")
    scaling = MODELS["llama"].sizes["tiny"].config["rope_scaling"]
    config(
        folder, rope_scaling=DROP, rope_theta=DROP, rope_parameters={"rope_theta": 1e4, **scaling}
    )
    found = user_weights.look(folder, MODELS["llama"]).size.config
    assert (found["rope_theta"], found["rope_scaling"], "rope_parameters" in found) == (
        1e4,
        scaling,
        False,
    )


@pytest.mark.parametrize(
    ("name", "prefix", "head"),
    [
        ("gpt2", "transformer.", "score.weight"),
        ("distilbert", "distilbert.", "vocab_layer_norm.bias"),
    ],
)
def test_a_model_without_a_head_is_read_out_of_one_with_any(made, name, prefix, head):
    folder = made(name)

    def give_a_head(t):
        for key in list(t):
            t[prefix + key.removeprefix(prefix)] = t.pop(key)
        t[head] = np.ones(3, np.float32)

    tensors(folder, give_a_head)
    config(folder, architectures=["SomethingWithAHead"], use_cache=True)
    found = user_weights.look(folder, MODELS[name])
    assert found.size.parameters == MODELS[name].sizes["tiny"].parameters + 3
    assert not found.names


def test_the_librarys_own_names_of_numbers_count_and_what_is_measured_is_set(made):
    folder = made("gpt2")
    config(
        folder,
        hidden_size=DROP,
        num_hidden_layers=DROP,
        num_attention_heads=DROP,
        max_position_embeddings=DROP,
        use_cache=True,
    )
    found = user_weights.look(folder, MODELS["gpt2"]).size
    assert (
        found.config["hidden_size"],
        found.config["max_position_embeddings"],
        found.config["use_cache"],
    ) == (64, 1024, False)
    config(folder, architectures=["GPT2LMHeadModel"])
    text = user_weights.look(folder, models.load("gpt2", "generate")).size
    assert (text.config["use_cache"], text.inputs["new_tokens"]) == (True, 45)


def test_roberta_may_lack_its_pooler(made):
    folder, whole = made("roberta"), MODELS["roberta"].sizes["tiny"].parameters
    tensors(
        folder, lambda t: [t.pop(f"roberta.pooler.dense.{part}") for part in ("weight", "bias")]
    )
    assert user_weights.look(folder, MODELS["roberta"]).size.parameters == whole - 64 * 65


def test_prompts_of_a_model_without_a_head_are_padded_with_a_mask(made, tmp_path):
    (tmp_path / "text").write_text("one\n\nanother, which is longer")
    size, model = user_weights.look(made("roberta"), MODELS["roberta"]).size, MODELS["roberta"]
    found = dataset.prepare(model, size, 2, tmp_path / "text", tmp_path / "cache")
    assert (found.description.seq_len, found.description.lengths["shortest"]) == (32, 5)
    with np.load(found.path) as f:
        assert f["attention_mask"].sum(1).tolist() == [5, 26]
        # The padding id, 1, would move RoBERTa's positions.
        assert (f["input_ids"][f["attention_mask"] == 0] == 0).all()


_UNLESS = "is used unless --precision says otherwise"
_HALF = f"float32 {_UNLESS}; --precision float16 computes in float16"
_BF16 = "the parameters are stored in bfloat16"


@pytest.mark.parametrize(
    ("stored", "named", "notes"),
    [
        ("float16", {}, [f"the parameters are stored in float16: {_HALF}"]),
        (
            "float32",
            {"dtype": "float16"},
            ["config.json says float16, and .* in float32: " + _HALF],
        ),
        (
            "float32",
            {"dtype": "bfloat16"},
            [f".* says bfloat16, .* in float32: bfloat16 {_UNLESS}"],
        ),
        ("bfloat16", {"dtype": "float32"}, [f".* float32, and {_BF16}: float32 {_UNLESS}"]),
        (
            "float32",
            {"dtype": "float32", "torch_dtype": "bfloat16"},
            ["config.json says dtype float32 and torch_dtype bfloat16: the first counts"],
        ),
        ("both", {}, [f"{_BF16} and float32: float32 {_UNLESS}"]),
        ("bfloat16", {"torch_dtype": "bfloat16"}, []),
        ("bfloat16", {}, []),
    ],
)
def test_a_dtype_that_is_not_the_precision_is_reported(made, stored, named, notes):
    folder = made("mistral")

    def change(arrays):
        names = sorted(arrays)[: 1 if stored == "both" else None]
        kind = "bfloat16" if stored == "both" else stored
        arrays.update({name: arrays[name].astype(kind) for name in names})

    tensors(folder, change)
    config(folder, **{"dtype": DROP, "torch_dtype": DROP, **named})
    found = [note for note in user_weights.look(folder, MODELS["mistral"]).notes if "float" in note]
    assert len(found) == len(notes)
    for note, words in zip(found, notes, strict=True):
        assert re.match(words, note)


def test_synthetic_inputs_hold_none_of_the_folders_special_ids(made, tmp_path):
    folder = made("gemma")
    config(folder, eos_token_id=[7, 9], pad_token_id=20)
    bpe(300).save(str(folder / "tokenizer.json"))
    size = user_weights.look(folder, MODELS["gemma"]).size
    assert size.inputs["special_ids"] == (0, 1, 2, 7, 9, 20)
    found = dataset.prepare(MODELS["gemma"], size, 2000, None, tmp_path / "cache")
    with np.load(found.path) as f:
        ids = set(f["input_ids"].ravel().tolist())
    assert ids == set(range(1000)) - set(size.inputs["special_ids"])


def test_the_sequence_is_no_longer_than_the_folder_has_positions_for(made):
    folder = made("bert")
    assert user_weights.look(folder, MODELS["bert"]).size.inputs["sequence_length"] == 512
    config(folder, max_position_embeddings=100)
    tensors(
        folder,
        lambda t: t.update(
            {(n := "bert.embeddings.position_embeddings.weight"): t[n][:100].copy()}
        ),
    )
    assert user_weights.look(folder, MODELS["bert"]).size.inputs["sequence_length"] == 100


def test_a_folder_and_a_size_exclude_each_other(made, tmp_path):
    with pytest.raises(
        UsageError, match=r"its config.json decides the size: leave out --size tiny"
    ):
        request(tmp_path, weights=made("bert"), size="tiny")


def test_a_cell_of_a_users_folder_says_so_everywhere(made, tmp_path, monkeypatch):
    """The mock stands for a SUT that reads them."""
    import dataclasses

    from sut import registry

    monkeypatch.setitem(
        registry.SUTS, "mock", dataclasses.replace(registry.SUTS["mock"], reads_weights=True)
    )
    folder = made("bert")
    bpe(400).save(str(folder / "tokenizer.json"))
    text = tmp_path / "text"
    text.write_text("one prompt\n\nand another")
    asked = request(tmp_path / "runs", weights=folder, dataset=text)
    found = measure(asked)
    assert (found.status, found.cell.size) == ("ok", "user")
    digest = digest_of(folder / "config.json", folder / "model.safetensors")
    assert found.cell.weights == digest[:12]
    record = read_json(Path(found.directory) / "record.json")
    assert (record["digests"]["weights_source"], record["digests"]["weights_folder"]) == (
        "user",
        str(folder),
    )
    measured = read_json(next(Path(found.directory).rglob("measurements.json")))
    assert (
        f"the user's {folder}, digest with config.json {digest}"
        in measured["starting_weights_filename"]
    )
    assert f"weights of {folder}, tokenizer tokenizer.json" in found.warnings
    assert any(
        w.startswith("text: 2 prompts of ")
        and " tokens, padded to " in w
        and w.endswith(" (tokenizer.json)")
        for w in found.warnings
    )


def test_the_mock_takes_the_folders_sizes_and_reads_nothing(made, tmp_path):
    found = measure(
        request(tmp_path / "runs", weights=made("mistral"), model="mistral", cache=CACHE)
    )
    assert (found.status, found.cell.size, found.ranked) == ("ok", "user", False)
    assert read_json(Path(found.directory) / "record.json")["digests"]["weights_source"] == "none"


def test_end_tokens_are_those_transformers_generates_by(made):
    folder = made("mistral")
    assert user_weights.look(folder, MODELS["mistral"]).end_tokens == (2,)
    write_json(folder / "generation_config.json", {"eos_token_id": [7, 2, 10**9, "x"]})
    assert user_weights.look(folder, MODELS["mistral"]).end_tokens == (2, 7)
    (folder / "generation_config.json").write_text("{}")
    assert user_weights.look(folder, MODELS["mistral"]).end_tokens == (2,)


@pytest.fixture
def prompted(made, tmp_path):
    """Flags of a cell with a user's weights, tokenizer and prompts; almost every second token is an
    end token there.
    """
    folder, text = made("mistral"), tmp_path / "text"
    bpe(400).save(str(folder / "tokenizer.json"))
    write_json(folder / "generation_config.json", {"eos_token_id": list(range(2, 300))})
    text.write_text("one prompt\n\nand another\n\na third one, which is longer")
    return {
        "model": "mistral",
        "scenario": "Offline",
        "batch_size": 2,
        "weights": folder,
        "dataset": text,
        "cache": CACHE,
    }


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_an_answer_ends_at_its_end_token_unless_told_otherwise(prompted, tmp_path, scenario):
    flags = {**prompted, "scenario": scenario, "batch_size": 2 if scenario == "Offline" else 1}
    found = measure(request(tmp_path / "stop", **flags))
    assert (found.status, found.reason, found.cell.eos) == ("ok", "", "stop")
    assert found.measured["tokens"] < 128 * found.measured["samples"]
    assert found.measured["passes"] % 1 == 0
    assert found.accuracy.passed
    assert found.accuracy.detail["tokens"] == found.accuracy.detail["reference_tokens"] < 3 * 128
    record = read_json(Path(found.directory) / "record.json")
    assert record["end_tokens"] == list(range(2, 300))


def test_end_tokens_can_be_ignored_and_that_is_told(prompted, tmp_path):
    found = measure(request(tmp_path / "ignore", **prompted, eos="ignore"))
    assert (found.status, found.cell.eos) == ("ok", "ignore")
    assert found.measured["tokens"] == 128 * found.measured["samples"]
    assert any(
        w.startswith("--eos ignore: an answer continues after its end token (2 or 3 or")
        for w in found.warnings
    )


def test_an_end_token_that_only_the_tokenizer_names_is_reported(prompted, tmp_path):
    folder = prompted["weights"]
    settings = {"eos_token": {"content": "<pad>"}}
    write_json(folder / "tokenizer_config.json", settings)
    write_json(folder / "generation_config.json", {"eos_token_id": 2})
    asked = request(tmp_path, **prompted)
    assert asked.end_tokens == (2,)
    words = "no answer ends at the tokenizer's eos_token <pad> (0), as in Transformers: "
    assert any(note.startswith(words) for note in asked.reasons)
    (folder / "generation_config.json").unlink()
    config(folder, eos_token_id=None)
    asked = request(tmp_path, **prompted)
    assert (asked.eos, asked.end_tokens) == ("ignore", ())
    lacking = (
        "needs an eos_token_id in config.json or generation_config.json, and there is only the"
        " tokenizer's eos_token <pad> (0)"
    )
    assert f"no answer ends before it has all its tokens: an end {lacking}" in asked.reasons
    with pytest.raises(UsageError, match=f"no end token is known. It {re.escape(lacking)}"):
        request(tmp_path, **prompted, eos="stop")
    (folder / "special_tokens_map.json").write_text("{")
    assert not user_weights.look(folder, MODELS["mistral"]).other_end


def test_synthetic_prompts_keep_their_count(prompted, tmp_path):
    asked = request(tmp_path, **{**prompted, "dataset": None})
    assert (asked.eos, asked.end_tokens) == ("ignore", ())
    with pytest.raises(
        UsageError, match="synthetic prompts have a fixed number of tokens: give your own"
    ):
        request(tmp_path, **{**prompted, "dataset": None}, eos="stop")
