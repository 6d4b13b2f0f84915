"""GGUF files as llama.cpp writes them, of tiny models of Transformers with seeded weights."""

from typing import NamedTuple

import gguf
import numpy as np
import torch
import transformers

SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
KEYS = {
    "block_count": 2,
    "context_length": 256,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "rope.dimension_count": 16,
    "rope.freq_base": 10000.0,
    "vocab_size": 64,
    "attention.layer_norm_rms_epsilon": 1e-6,
}
RMS, NORM = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
WINDOW = "attention.sliding_window"
HEADS = {"attention.key_length": 16, "attention.value_length": 16}
LLAMA3_FACTORS = [1.0, 3.29953932762146, *[8.0] * 6]
"""By which Transformers divides the frequencies for LLAMA3."""
FACTORS = [1.0, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 7.0]
SCALING = "rope.scaling."
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"factor": 8.0, "original_context_length": 32}
GEMMA = {
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 2.0,
}
GEMMA_KEYS = {**HEADS, WINDOW: 8, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}


def rope(kind, **parameters):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **parameters}}


def scaled(kind, **values):
    return {f"{SCALING}type": kind, **{f"{SCALING}{key}": value for key, value in values.items()}}


class File(NamedTuple):
    """A GGUF file.

    Attributes:
        config: of the model that it states.
        tensors: those that are not in the model or left out.
    """

    architecture: str
    config: transformers.PretrainedConfig
    keys: dict = {}
    tensors: dict = {}


def right():
    """name → a file that becomes the model that it states."""
    llama, qwen3 = transformers.LlamaConfig, transformers.Qwen3Config
    yarn = {"factor": 8.0, "original_max_position_embeddings": 32}
    betas = {"beta_fast": 16.0, "beta_slow": 2.0}
    yarn_with_betas = rope("yarn", **yarn, **betas, attention_factor=0.75)
    own = {f"yarn_{key}": value for key, value in betas.items()}
    attention = {f"{SCALING}attn_factor": 0.75 / (0.1 * float(np.log(8.0)) + 1)}
    long, short = FACTORS, FACTORS[::-1]
    same = {"long_factor": long, "short_factor": long, "attention_factor": 1.0}
    other = {"long_factor": long, "short_factor": short, "attention_factor": 1.25}
    windowed = {"sliding_window": 40, "original_max_position_embeddings": 64}
    original = scaled("longrope", original_context_length=64, attn_factor=1.25)
    layers = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 8.0},
    }
    six = {**SIZES, **GEMMA, "num_hidden_layers": 6}
    bases = {"block_count": 6, "rope.freq_base": 1e5, "rope.freq_base_swa": 5000.0}
    base = {"rope_type": "default", "rope_theta": 500.0}
    half = {"rope.dimension_count": 8, "rope.freq_base": 500.0}
    longrope = rope("longrope", **same, original_max_position_embeddings=256)
    of_longrope = rope("longrope", **other, original_max_position_embeddings=64)
    return {
        "plain": File("llama", llama(**SIZES)),
        "llama3": File(
            "llama",
            llama(**SIZES, **rope("llama3", **LLAMA3)),
            tensors={"rope_freqs.weight": LLAMA3_FACTORS},
        ),
        "factors": File(
            "llama", llama(**SIZES, **longrope), tensors={"rope_freqs.weight": FACTORS}
        ),
        "linear": File(
            "llama", llama(**SIZES, **rope("linear", factor=4.0)), scaled("linear", factor=4.0)
        ),
        "yarn": File(
            "qwen2",
            transformers.Qwen2Config(**SIZES, **rope("yarn", **yarn)),
            scaled("yarn", **YARN),
        ),
        "yarn with betas": File(
            "qwen3",
            qwen3(**SIZES, head_dim=16, **yarn_with_betas),
            {**HEADS, **scaled("yarn", **YARN, **own), **attention},
        ),
        "longrope and a window": File(
            "phi3",
            transformers.Phi3Config(**SIZES, **windowed, **of_longrope),
            {RMS: 1e-5, WINDOW: 40, **original, "tokenizer.ggml.padding_token_id": 0},
            {"rope_factors_long.weight": long, "rope_factors_short.weight": short},
        ),
        "biases": File(
            "llama",
            llama(**SIZES, attention_bias=True, mlp_bias=True),
            tensors={"blk.0.attn_output.bias": ..., "blk.1.attn_output.bias": ...},
        ),
        "norms of q and k": File("qwen3", qwen3(**SIZES, head_dim=16), HEADS),
        "softcaps": File("gemma2", transformers.Gemma2Config(**SIZES, **GEMMA), GEMMA_KEYS),
        "two kinds of layers": File(
            "gemma3",
            transformers.Gemma3TextConfig(**six, rope_parameters=layers),
            {**GEMMA_KEYS, **bases, **scaled("linear", factor=8.0)},
        ),
        "a part of each head": File(
            "stablelm",
            transformers.StableLmConfig(
                **SIZES, layer_norm_eps=1e-3, rope_parameters=base | {"partial_rotary_factor": 0.5}
            ),
            {RMS: None, NORM: 1e-3, **half},
        ),
        "another base": File(
            "starcoder2",
            transformers.Starcoder2Config(**SIZES, rope_parameters=base),
            {RMS: None, NORM: 1e-5, "rope.freq_base": 500.0},
        ),
    }


def refused():
    """name → a file whose model Transformers does not have."""
    llama = transformers.LlamaConfig(**SIZES)
    yarn = scaled("yarn", **YARN)
    return {
        "a clamp": File("llama", llama, {"attention.clamp_kqv": 8.0}),
        "experts": File("llama", llama, {"expert_count": 4}),
        "a window": File("qwen2", transformers.Qwen2Config(**SIZES), {WINDOW: 8}),
        "half of each head": File("llama", llama, {**HEADS, "rope.dimension_count": 8}),
        "a multiplier": File("llama", llama, {**yarn, f"{SCALING}yarn_log_multiplier": 0.1}),
        "two scalings": File("llama", llama, yarn, {"rope_freqs.weight": FACTORS}),
        "a foreign norm": File("llama", llama, {}, {"blk.0.attn_q_norm.weight": [1.0] * 16}),
        "a hole": File("llama", llama, {}, {"blk.1.ffn_up.weight": ...}),
        "a part of a model": File("llama", llama, {"split.count": 3}),
    }


def model_of(config):
    """The model of a configuration, with weights of seed 0. No norm and no bias is trivial."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(0.3 * torch.randn(weight.shape))
    return model


def write(path, architecture, model, keys, tensors):
    """Write a GGUF file. A tensor with the value `...` is left out of it, and zeros in the model."""
    names = gguf.get_tensor_name_map(
        next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture),
        model.config.num_hidden_layers,
    )
    writer = gguf.GGUFWriter(path, architecture)
    add = {int: writer.add_uint32, float: writer.add_float32}
    add |= {str: writer.add_string, list: writer.add_array}
    for key, value in {**KEYS, **keys}.items():
        own = key.startswith(("split.", "tokenizer."))
        if value is not None:
            add[type(value)](key if own else f"{architecture}.{key}", value)
    for name, value in model.state_dict().items():
        stem, _, end = name.rpartition(".")
        short = f"{names.get_name(stem)}.{end}"
        if tensors.get(short) is ...:
            value.zero_()
            continue
        if model.config.tie_word_embeddings and stem == "lm_head":
            continue
        if architecture == "llama" and (".attn_q." in short or ".attn_k." in short):
            heads = 4 if ".attn_q." in short else 2
            value = value.view(heads, 2, 8, -1).transpose(1, 2).reshape(value.shape)
        if architecture.startswith("gemma") and short.endswith("norm.weight"):
            value = value + 1
        writer.add_tensor(short, value.contiguous().numpy())
    for name, value in tensors.items():
        if value is not ...:
            writer.add_tensor(name, np.array(value, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_huge(path):
    """Write the beginning of a file whose tensor has 400 GB, none of which is stored."""
    shape, size_bytes = (100_000, 1_000_000), 400 * 10**9
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor_info("token_embd.weight", shape, np.dtype(np.float32), size_bytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(size_bytes + 4096)
