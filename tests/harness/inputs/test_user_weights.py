"""A user's own folder that fits is taken as it is."""

import re
import shutil
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy needs its bfloat16
import numpy as np
import pytest

from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import checkpoint, dataset, models, user_weights
from tests.support.cells import measure, request
from tests.support.files import read_json
from tests.support.tokens import bpe
from tests.support.weights_folders import (
    DROP,
    INDEX,
    MODELS,
    config,
    digest_of,
    linked,
    look,
    made,
    mock_reads_weights,
    shard,
    tensors,
)


@pytest.mark.parametrize("name", MODELS)
def test_our_own_checkpoint_is_a_folder_that_fits_with_the_same_digest(made, tmp_path, name):
    folder, model = made(name), MODELS[name]
    size, tiny, full = look(folder).size, model.sizes["tiny"], model.sizes["full"]
    assert (size.name, size.precision, size.batch_size) == ("user", "float32", full.batch_size)
    assert size.parameters == tiny.parameters
    kept = full.inputs.keys() - {"quick_samples"}
    assert {name: size.inputs[name] for name in kept} == {name: full.inputs[name] for name in kept}
    own = checkpoint.ensure(model, tiny, tmp_path / "cache")
    assert linked(folder).digest == own.digest
    written = read_json(linked(folder).path / "config.json")
    assert {k: v for k, v in written.items() if k in tiny.config} == tiny.config


def test_only_the_weights_and_our_configuration_reach_a_sut(made):
    folder = made("mistral")
    shard(folder)
    others = "generation_config.json adapter_config.json pytorch_model.bin modeling_own.py"
    for name in (*others.split(), "consolidated.safetensors"):
        (folder / name).write_text("{}")
    config(folder, auto_map={"AutoModel": "modeling_own.Own"})
    files = ["config.json", *(f"model-0000{n}-of-00002.safetensors" for n in (1, 2))]
    found = linked(folder)
    assert sorted(p.name for p in found.path.iterdir()) == [*files, INDEX]
    assert "auto_map" not in look(folder).size.config
    note = "config.json names code of its own (auto_map), which is not run"
    assert note in look(folder).notes
    assert found.digest == digest_of(*(folder / file for file in files))
    assert found.bytes == sum((folder / file).stat().st_size for file in files[1:])


def test_changed_files_and_another_place_are_another_checkpoint(made, tmp_path):
    folder = made("bert")
    first = linked(folder)
    assert linked(folder) == first
    moved = tmp_path / "moved" / "bert"
    shutil.copytree(folder, moved)
    there = checkpoint.of_folder(look(moved), MODELS["bert"], tmp_path / "cache")
    assert (there.digest, there.path == first.path) == (first.digest, False)
    tensors(folder, lambda t: t["classifier.bias"].__iadd__(1))
    assert linked(folder).digest != first.digest
    shutil.rmtree(moved)
    shutil.copytree(folder, moved)
    there = checkpoint.of_folder(look(moved), MODELS["bert"], tmp_path / "cache")
    assert weights_of(there.path) == weights_of(folder)


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("damage", ["other weights", "no configuration", "one file more"])
def test_a_folder_of_links_that_was_changed_is_made_again(made, damage):
    folder = made("bert")
    first = linked(folder)
    if damage == "other weights":
        (first.path / "model.safetensors").unlink()
        (first.path / "model.safetensors").write_bytes(b"")
    elif damage == "no configuration":
        (first.path / "config.json").unlink()
    else:
        (first.path / "generation_config.json").write_text("{}")
    assert linked(folder) == first
    assert sorted(p.name for p in first.path.iterdir()) == ["config.json", "model.safetensors"]
    assert weights_of(first.path) == weights_of(folder)


def test_what_config_json_leaves_out_is_what_transformers_takes(made):
    folder = made("mistral")
    names = "rope_theta rms_norm_eps sliding_window hidden_act architectures dtype"
    config(folder, head_dim=None, **dict.fromkeys(names.split(), DROP), torch_dtype="bfloat16")
    config(folder, rope_parameters={"rope_theta": 5e5, "rope_type": "default"})
    found = look(folder).size
    assert found.precision == found.config["dtype"] == "bfloat16"
    told = {"head_dim": 16, "rope_theta": 5e5, "rms_norm_eps": 1e-6, "sliding_window": 4096}
    told |= {"hidden_act": "silu", "rope_parameters": None, "architectures": ["MistralForCausalLM"]}
    assert {name: found.config.get(name) for name in told} == told
    config(folder, sliding_window=None, rope_scaling=None, rope_parameters=DROP, rope_theta=2e4)
    again = look(folder).size.config
    assert (again["sliding_window"], again["rope_theta"]) == (None, 2e4)


def test_the_classes_of_a_classifier_are_those_of_its_labels(made):
    folder = made("bert")
    config(folder, num_labels=DROP, id2label={"0": "a", "1": "b", "2": "c"})
    head = {"weight": np.ones((3, 64), np.float32), "bias": np.ones(3, np.float32)}
    tensors(folder, lambda t: t.update({f"classifier.{k}": v for k, v in head.items()}))
    assert look(folder).size.config["num_labels"] == 3


def test_legacy_names_and_buffers_are_no_misfit(made):
    folder = made("bert")

    def age(t):
        for name in [n for n in t if "LayerNorm" in n]:
            old = name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            t[old] = t.pop(name)
        t["bert.embeddings.position_ids"] = np.arange(512)[None]

    tensors(folder, age)
    unread = "tensors without parameters, not read: bert.embeddings.position_ids"
    assert unread in look(folder).notes
    folder = made("mistral")
    buffer = "model.layers.0.self_attn.rotary_emb.inv_freq"
    tensors(folder, lambda t: t.update({buffer: np.ones(8, np.float32)}))
    assert f"not read: {buffer}" in " ".join(look(folder).notes)


def test_a_tied_head_may_be_stored_too(made):
    folder = made("gemma")
    tensors(folder, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].copy()}))
    note = "lm_head.weight equals model.embed_tokens.weight, with which it is tied: not read"
    assert note in look(folder).notes


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_tied_folder_needs_no_head(made, name):
    folder = made(name)
    config(folder, tie_word_embeddings=True)
    tensors(folder, lambda t: t.pop("lm_head.weight"))
    assert look(folder).size.parameters == MODELS[name].sizes["tiny"].parameters - 1000 * 64


def test_both_spellings_of_scaled_positions_are_read_alike(made):
    folder = made("llama")
    scaling = MODELS["llama"].sizes["tiny"].config["rope_scaling"]
    both = {"rope_theta": 1e4, **scaling}
    config(folder, rope_scaling=DROP, rope_theta=DROP, rope_parameters=both)
    found = look(folder).size.config
    assert (found["rope_theta"], found["rope_scaling"]) == (1e4, scaling)
    assert "rope_parameters" not in found


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
    found = look(folder)
    assert found.size.parameters == MODELS[name].sizes["tiny"].parameters + 3
    assert not found.names


def test_the_librarys_own_names_of_numbers_count_and_what_is_measured_is_set(made):
    folder = made("gpt2")
    names = "hidden_size num_hidden_layers num_attention_heads max_position_embeddings"
    config(folder, **dict.fromkeys(names.split(), DROP), use_cache=True)
    found, expected = look(folder).size.config, {"hidden_size": 64, "use_cache": False}
    expected["max_position_embeddings"] = 1024
    assert {name: found[name] for name in expected} == expected
    config(folder, architectures=["GPT2LMHeadModel"])
    text = user_weights.look(folder, models.load("gpt2", "generate")).size
    assert (text.config["use_cache"], text.inputs["new_tokens"]) == (True, 45)


def test_roberta_may_lack_its_pooler(made):
    folder, whole = made("roberta"), MODELS["roberta"].sizes["tiny"].parameters
    tensors(folder, lambda t: [t.pop(f"roberta.pooler.dense.{p}") for p in ("weight", "bias")])
    assert look(folder).size.parameters == whole - 64 * 65


def test_prompts_of_a_model_without_a_head_are_padded_with_a_mask(made, tmp_path):
    (tmp_path / "text").write_text("one\n\nanother, which is longer")
    size = look(made("roberta")).size
    found = dataset.prepare(MODELS["roberta"], size, 2, tmp_path / "text", tmp_path / "cache")
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
        ("float32", {"dtype": "float16"}, [f"config.json says float16, and .* float32: {_HALF}"]),
        ("float32", {"dtype": "bfloat16"}, [f".* bfloat16, .* in float32: bfloat16 {_UNLESS}"]),
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
    found = [note for note in look(folder).notes if "float" in note]
    assert [bool(re.match(*each)) for each in zip(notes, found, strict=True)] == [True] * len(notes)


def test_synthetic_inputs_hold_none_of_the_folders_special_ids(made, tmp_path):
    folder = made("gemma")
    config(folder, eos_token_id=[7, 9], pad_token_id=20)
    bpe(300).save(str(folder / "tokenizer.json"))
    size = look(folder).size
    assert size.inputs["special_ids"] == (0, 1, 2, 7, 9, 20)
    found = dataset.prepare(MODELS["gemma"], size, 2000, None, tmp_path / "cache")
    with np.load(found.path) as f:
        ids = set(f["input_ids"].ravel().tolist())
    assert ids == set(range(1000)) - set(size.inputs["special_ids"])


def test_the_sequence_is_no_longer_than_the_folder_has_positions_for(made):
    folder = made("bert")
    assert look(folder).size.inputs["sequence_length"] == 512
    config(folder, max_position_embeddings=100)
    name = "bert.embeddings.position_embeddings.weight"
    tensors(folder, lambda t: t.update({name: t[name][:100].copy()}))
    assert look(folder).size.inputs["sequence_length"] == 100


def test_a_folder_and_a_size_exclude_each_other(made, tmp_path):
    words = "its config.json decides the size: leave out --size tiny"
    with pytest.raises(UsageError, match=words):
        request(tmp_path, weights=made("bert"), size="tiny")


def test_a_cell_of_a_users_folder_says_so_everywhere(made, tmp_path, mock_reads_weights):
    folder = made("bert")
    bpe(400).save(str(folder / "tokenizer.json"))
    text = tmp_path / "text"
    text.write_text("one prompt\n\nand another")
    asked = request(tmp_path / "runs", weights=folder, dataset=text)
    assert asked.end_tokens == ()
    found = measure(asked)
    assert (found.status, found.cell.size) == ("ok", "user")
    digest = digest_of(folder / "config.json", folder / "model.safetensors")
    assert found.cell.weights == digest[:12]
    digests = read_json(Path(found.directory) / "record.json")["digests"]
    assert (digests["weights_source"], digests["weights_folder"]) == ("user", str(folder))
    measured = read_json(next(Path(found.directory).rglob("measurements.json")))
    name = f"the user's {folder}, digest with config.json {digest}"
    assert name in measured["starting_weights_filename"]
    assert f"weights of {folder}, tokenizer tokenizer.json" in found.warnings
    note = r"text: 2 prompts of .* tokens, padded to .* \(tokenizer.json\)"
    assert any(re.fullmatch(note, text) for text in found.warnings)


def test_the_mock_takes_the_folders_sizes_and_reads_nothing(made, tmp_path):
    found = measure(request(tmp_path / "runs", weights=made("mistral"), model="mistral"))
    assert (found.status, found.cell.size, found.ranked) == ("ok", "user", False)
    assert read_json(Path(found.directory) / "record.json")["digests"]["weights_source"] == "none"


def test_end_tokens_are_those_transformers_generates_by(made):
    folder = made("mistral")
    assert look(folder).end_tokens == (2,)
    write_json(folder / "generation_config.json", {"eos_token_id": [7, 2, 10**9, "x"]})
    assert look(folder).end_tokens == (2, 7)
    (folder / "generation_config.json").write_text("{}")
    assert look(folder).end_tokens == (2,)


@pytest.fixture
def prompted(made, tmp_path):
    """Flags of a cell with a user's weights, tokenizer and prompts; almost every second token is an
    end token there.
    """
    folder, text = made("mistral"), tmp_path / "text"
    bpe(400).save(str(folder / "tokenizer.json"))
    write_json(folder / "generation_config.json", {"eos_token_id": list(range(2, 300))})
    text.write_text("one prompt\n\nand another\n\na third one, which is longer")
    flags = {"model": "mistral", "scenario": "Offline", "batch_size": 2}
    return flags | {"weights": folder, "dataset": text}


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
    words = "--eos ignore: an answer continues after its end token (2 or 3 or"
    assert any(text.startswith(words) for text in found.warnings)


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
    assert not look(folder).other_end


def test_synthetic_prompts_keep_their_count(prompted, tmp_path):
    synthetic = prompted | {"dataset": None}
    asked = request(tmp_path, **synthetic)
    assert (asked.eos, asked.end_tokens) == ("ignore", ())
    words = "synthetic prompts have a fixed number of tokens: give your own"
    with pytest.raises(UsageError, match=words):
        request(tmp_path, **synthetic, eos="stop")


def test_without_the_tokenizer_of_the_weights_no_end_token_is_known(prompted, tmp_path):
    (prompted["weights"] / "tokenizer.json").unlink()
    for weights in (prompted["weights"], None):
        asked = request(tmp_path, **prompted | {"weights": weights})
        assert (asked.eos, asked.end_tokens) == ("ignore", ())
