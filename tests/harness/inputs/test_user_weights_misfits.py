"""What does not fit is one sentence: the rule, what was found, what mends it."""

import os
import shutil

import ml_dtypes  # noqa: F401  numpy needs its bfloat16
import numpy as np
import pytest

from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import unlisted, user_weights
from tests.support.files import read_json
from tests.support.tokens import bpe
from tests.support.weights_folders import DROP, INDEX, MODELS, linked, made, says, shard, tensors


def only_these(folder, *names):
    (folder / "model.safetensors").unlink()
    for name in names:
        (folder / name).write_bytes(b"")


def index(folder, change):
    shard(folder)
    told = read_json(folder / INDEX)
    change(told["weight_map"])
    write_json(folder / INDEX, told)


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def adapter(folder, *names):
    """What PEFT's save_pretrained writes: no config.json."""
    only_these(folder, *names)
    (folder / "config.json").unlink()


def two_positions(folder):
    name = "roberta.embeddings.position_embeddings.weight"
    says(max_position_embeddings=2)(folder)
    tensors(folder, lambda t: t.update({name: t[name][:2].copy()}))


Q = "model.layers.0.self_attn.q_proj.weight"
MISFITS = [
    ("bert", shutil.rmtree, "is not a directory .names of the Hub are not downloaded"),
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
    ("mistral", says(model_type="bert"), "says model_type bert, .*: leave --model out"),
    ("mistral", says(model_type=DROP), "says model_type None"),
    ("bert", says(architectures=["BertForMaskedLM"]), "contains BertForMaskedLM, and bert here is BertForSeq"),
    ("mistral", says(quantization_config={"bits": 4}), "quantization_config, and quantised weights are not supported"),
    ("mistral", says(tie_word_embeddings=True), "lm_head.weight differs from model.embed_tokens.weight"),
    ("mistral", says(vocab_size=DROP), "has no vocab_size, and the harness needs a whole number from 1 on"),
    ("mistral", says(vocab_size="1000"), 'has "1000" vocab_size'),
    ("mistral", says(num_hidden_layers=0), "has 0 num_hidden_layers"),
    ("mistral", says(num_attention_heads=True), "has true num_attention_heads"),
    ("mistral", says(max_position_embeddings=40), r"max_position_embeddings 40: mistral takes 5 \+ 45 tokens here"),
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
    ("distilgpt2", says(model_type="bert"), "says model_type bert, .*: leave --model out"),
    ("mistral", says(model_type="gpt2"), "says model_type gpt2, .*: leave --model out"),
    ("roberta", two_positions, "max_position_embeddings 2: roberta has no position for a token"),
    ("gpt2", says(n_layer=DROP, num_hidden_layers=DROP), "has no num_hidden_layers, and the harness needs a whole number"),
    ("mistral", lambda f: (f / "tokenizer.json").write_text("{}"), r"tokenizer.json is not a tokenizer \("),
    ("mistral", lambda f: (f / "tokenizer.model").write_bytes(b"x"), r"tokenizer.model is not a tokenizer \("),
    ("mistral", lambda f: bpe(1200).save(str(f / "tokenizer.json")), "tokenizer.json has 1200 tokens and config.json says vocab_size 1000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spoil", "words"), MISFITS, ids=range(len(MISFITS)))
def test_a_misfit_is_one_sentence_that_names_the_folder(made, name, spoil, words):
    folder = made(name)
    spoil(folder)
    with pytest.raises(UsageError, match=words) as told:
        user_weights.look(folder, unlisted.model_of(folder, named=MODELS[name]))
    assert str(told.value).startswith(f"--weights {folder}")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused_before_anything_is_measured(made, dtype, value):
    def spoil(each):
        each |= {name: values.astype(dtype) for name, values in each.items()}
        each[Q][3, 5] = value

    folder = made("mistral")
    tensors(folder, spoil)
    with pytest.raises(UsageError, match=f"{Q} has 1 values that are NaN or infinite"):
        linked(folder)


def test_the_largest_finite_weights_are_taken(made):
    folder = made("mistral")
    tensors(folder, lambda each: each.update({Q: np.full_like(each[Q], np.finfo(np.float32).max)}))
    assert linked(folder).path.is_dir()
