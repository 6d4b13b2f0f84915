"""What does not fit is one sentence: the rule, what was found, what mends it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from harness.errors import UsageError
from harness.inputs import checkpoint, user_weights
from tests.support.tokens import bpe
from tests.support.weights_folders import DROP, INDEX, MODELS, made, says, shard, tensors


def only_these(folder: Path, *names: str) -> None:
    (folder / "model.safetensors").unlink()
    for name in names:
        (folder / name).write_bytes(b"")


def index(folder: Path, change: Callable[[dict[str, str]], Any]) -> None:
    shard(folder)
    told = json.loads((folder / INDEX).read_text())
    change(told["weight_map"])
    (folder / INDEX).write_text(json.dumps(told))


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def adapter(folder: Path, *names: str) -> None:
    """What PEFT's save_pretrained writes: no config.json."""
    only_these(folder, *names)
    (folder / "config.json").unlink()


def two_positions(folder: Path) -> None:
    name = "roberta.embeddings.position_embeddings.weight"
    says(max_position_embeddings=2)(folder)
    tensors(folder, lambda t: t.update({name: t[name][:2].copy()}))


Q = "model.layers.0.self_attn.q_proj.weight"
MISFITS: list[tuple[str, Callable[[Path], Any], str]] = [
    ("bert", shutil.rmtree, "there is no such directory .names of the Hub are not downloaded.; give a folder with config.json"),
    ("bert", lambda f: (shutil.rmtree(f), f.touch()), "is not a directory"),
    ("bert", lambda f: (f / "config.json").unlink(), "there is no config.json in it; give the folder that save_pretrained wrote"),
    ("bert", lambda f: (f / "config.json").write_text("{"), r"config.json cannot be read \(Expecting"),
    ("bert", lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), r"config.json cannot be read \('utf-8'"),
    ("bert", lambda f: (f / "config.json").write_text("[" * 100_000), r"cannot be read \(its values are nested too deeply"),
    ("bert", lambda f: (f / "config.json").write_text('{"a": NaN}'), r"cannot be read \(a number is NaN"),
    ("bert", lambda f: (f / "config.json").write_text('{"a": 1, "a": 2}'), r"cannot be read \(an object has the key 'a' twice"),
    ("bert", lambda f: os.truncate(f / "config.json", 10**9), r"cannot be read \(it has 1000 MB"),
    ("llama", says(num_hidden_layers=10**9), "num_hidden_layers 1000000000, and the files have only 21 tensors"),
    ("bert", lambda f: (f / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1"), "so run `git lfs pull`"),
    ("llama", lambda f: only_these(f, "a.gguf"), "a.gguf is a GGUF file of quantised weights.* ./run.sh weights .*a.gguf NEW"),
    ("llama", lambda f: only_these(f, "model.onnx"), "contains an ONNX graph, which no SUT reads"),
    ("bert", lambda f: (f / "config.json").write_text("[1]"), "config.json is not a JSON object"),
    ("bert", lambda f: only_these(f, "pytorch_model.bin"), "pytorch_model.bin is a pickle, and pickles run code when opened: if you trust it, convert it"),
    ("bert", lambda f: only_these(f, "best.pt"), "best.pt is a pickle"),
    ("bert", lambda f: only_these(f, "epoch=3.ckpt"), "epoch=3.ckpt is a pickle"),
    ("bert", lambda f: only_these(f), "neither model.safetensors nor .*index.json is in it: download the weights too"),
    ("mistral", lambda f: only_these(f, "consolidated.safetensors"), r"is in it \(consolidated.safetensors is not read"),
    ("mistral", lambda f: only_these(f, "adapter_config.json", "adapter_model.safetensors"), "only an adapter .*: give NEW after"),
    ("mistral", lambda f: adapter(f, "adapter_config.json", "adapter_model.safetensors"), "such as LoRA.* give NEW after"),
    ("mistral", lambda f: only_these(f, "adapter_model.safetensors"), "such as LoRA.* give NEW after"),
    ("mistral", lambda f: (shard(f), (f / "model-00002-of-00002.safetensors").unlink()), "names 2 files and model-00002.* are missing"),
    ("mistral", lambda f: index(f, lambda m: m.update({Q: "../elsewhere.safetensors"})), r"outside the folder \(\.\./elsewhere"),
    ("mistral", lambda f: index(f, lambda m: m.pop(Q)), f"its files do not agree on the place of {Q}:"),
    ("mistral", lambda f: (shard(f), (f / INDEX).write_text('{"weight_map": 3}')), "is not JSON with a `weight_map`"),
    ("gemma", says(model_type="gemma2"), "says model_type gemma2, and --model gemma is gemma: leave --model out, and the folder decides"),
    ("mistral", says(model_type="mixtral"), "says model_type mixtral, and --model mistral is mistral"),
    ("mistral", says(model_type="bert"), "says model_type bert, .*: --model bert$"),
    ("mistral", says(model_type=DROP), "says model_type None"),
    ("bert", says(architectures=["BertForMaskedLM"]), "contains BertForMaskedLM, and bert here is BertForSeq"),
    ("mistral", says(quantization_config={"bits": 4}), "quantization_config, and quantised weights are not supported"),
    ("bert", says(hidden_act="relu"), 'says hidden_act "relu", and bert here is computed with "gelu" or'),
    ("bert", says(layer_norm_eps=1e-5), "says layer_norm_eps 1e-05, .* with 1e-12 only"),
    ("bert", says(position_embedding_type="relative_key"), "says position_embedding_type"),
    ("mistral", says(tie_word_embeddings=True), "lm_head.weight differs from model.embed_tokens.weight"),
    ("gemma", says(tie_word_embeddings=False), "lacks lm_head.weight, of the 21 tensors that gemma has"),
    ("llama", says(mlp_bias=True), "says mlp_bias true, .* with false only"),
    ("llama", says(rope_scaling={"type": "dynamic", "factor": 2.0}), r"positions \(dynamic\), and those of llama here are scaled as "),
    ("llama", says(rope_scaling={"type": "llama3", "factor": 8}), r"positions \(llama3\) and gives no number for low_freq_factor"),
    ("mistral", says(attention_bias=True), "says attention_bias true"),
    ("mistral", says(rope_scaling={"type": "linear", "factor": 2.0}), r"scales its rotary positions \(linear\)"),
    ("mistral", says(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4}), r"rotary positions \(yarn\)"),
    ("gemma", says(hidden_activation="gelu"), 'says hidden_activation "gelu"'),
    ("gemma", says(rope_theta=1e6), "says rope_theta 1000000.0, .* with 10000.0 only"),
    ("gemma", says(rms_norm_eps=1e-5), "says rms_norm_eps 1e-05"),
    ("mistral", says(vocab_size=DROP), "has no vocab_size, and mistral needs a whole number from 1 on"),
    ("mistral", says(vocab_size="1000"), 'has "1000" vocab_size'),
    ("mistral", says(num_hidden_layers=0), "has 0 num_hidden_layers"),
    ("mistral", says(num_attention_heads=True), "has true num_attention_heads"),
    ("mistral", says(num_key_value_heads=3), "says num_key_value_heads 3, which does not divide 4"),
    ("bert", says(num_attention_heads=5), "says num_attention_heads 5, which does not divide 64"),
    ("mistral", says(max_position_embeddings=40), r"max_position_embeddings 40: mistral takes 5 \+ 45 tokens here"),
    ("mistral", lambda f: tensors(f, lambda t: t.pop(Q)), f"lacks {Q}, of the 21 tensors that mistral has: save"),
    ("mistral", says(num_hidden_layers=3), "lacks model.layers.2.input_layernorm.weight, .* and 6 more, of the 30 tensors"),
    ("mistral", says(num_hidden_layers=1), "contains model.layers.1.input_layernorm.weight, .* and 6 more, which"),
    ("bert", lambda f: tensors(f, lambda t: t.pop("classifier.weight")), "lacks classifier.weight"),
    ("mistral", says(intermediate_size=200), r"gate_proj.weight \(and 5 more\) is \[256, 64\] and .* makes it \[200, 64\]"),
    ("mistral", lambda f: tensors(f, lambda t: t.update({Q: t[Q].astype(np.int8)})), "q_proj.weight is stored as I8: quantised weights"),
    ("mistral", lambda f: tensors(f, lambda t: t.update({Q: t[Q].astype(np.float64)})), "q_proj.weight is stored as F64"),
    ("mistral", cut, r"model.safetensors is not a whole safetensors file \(.*download or save it again"),
    ("mistral", lambda f: (f / "model.safetensors").write_bytes(b"<html>404</html>"), "is not a whole safetensors file"),
    ("mistral", lambda f: (f / "model.safetensors").write_bytes(b""), "is not a whole safetensors file"),
    (
        "gemma",
        lambda f: tensors(f, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] * 2})),
        "lm_head.weight differs from model.embed_tokens.weight",
    ),
    ("gpt2", says(activation_function="relu"), 'says activation_function "relu", and gpt2 here is computed with "gelu_new" only'),
    ("gpt2", says(n_inner=300), 'says n_inner 300, .* with "4 \\* n_embd" only'),
    ("distilgpt2", says(model_type="bert"), "says model_type bert, .*: --model bert$"),
    ("mistral", says(model_type="gpt2"), "says model_type gpt2, .*: --model gpt2$"),
    ("roberta", two_positions, "max_position_embeddings 2: roberta has no position for a token"),
    ("gpt2", says(n_layer=DROP, num_hidden_layers=DROP), "has no num_hidden_layers, and gpt2 needs a whole number"),
    ("mistral", lambda f: (f / "tokenizer.json").write_text("{}"), r"tokenizer.json is not a tokenizer \("),
    ("mistral", lambda f: (f / "tokenizer.model").write_bytes(b"x"), r"tokenizer.model is not a tokenizer \("),
    ("mistral", lambda f: bpe(1200).save(str(f / "tokenizer.json")), "tokenizer.json has 1200 tokens and config.json says vocab_size 1000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spoil", "words"), MISFITS, ids=range(len(MISFITS)))
def test_a_misfit_is_one_sentence_that_names_the_folder(made, name, spoil, words):
    folder = made(name)
    spoil(folder)
    with pytest.raises(UsageError, match=words) as told:
        user_weights.look(folder, MODELS[name])
    assert str(told.value).startswith(f"--weights {folder}")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused_before_anything_is_measured(
    made, tmp_path, dtype, value
):
    def spoil(each: dict[str, Any]) -> None:
        for name, values in each.items():
            each[name] = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        each[Q][3, 5] = value

    model, folder = MODELS["mistral"], made("mistral")
    tensors(folder, spoil)
    with pytest.raises(UsageError, match=f"{Q} has 1 values that are NaN or infinite"):
        checkpoint.of_folder(user_weights.look(folder, model), model, tmp_path / "cache")


def test_the_largest_finite_weights_are_taken(made, tmp_path):
    model, folder = MODELS["mistral"], made("mistral")
    tensors(folder, lambda each: each.update({Q: np.full_like(each[Q], np.finfo(np.float32).max)}))
    assert checkpoint.of_folder(
        user_weights.look(folder, model), model, tmp_path / "cache"
    ).path.is_dir()
