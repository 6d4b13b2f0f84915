"""BERT, Mistral, Llama and Gemma in NumPy and float64, without a framework and without a cache:
what the reference is compared with.
"""

import numpy as np
from scipy.special import erf

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_pytorch_tanh": (
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def classify(weights, config, ids, mask):
    """BERT: ids and mask [rows, length] → logits [rows, classes]."""

    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(
            x.var(-1, keepdims=True) + config["layer_norm_eps"]
        )
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    word, position, kind = (
        weights[f"bert.embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    x = norm(word[ids] + position[: ids.shape[1]] + kind[0], "bert.embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        heads = [
            split(dense(x, f"{layer}.attention.self.{name}"), config["num_attention_heads"])
            for name in ("query", "key", "value")
        ]
        mixed = attend(*heads, np.where(mask[:, None, None, :] == 1, 0.0, -np.inf))
        x = norm(
            x + dense(mixed, f"{layer}.attention.output.dense"),
            f"{layer}.attention.output.LayerNorm",
        )
        inner = ACTIVATIONS[config["hidden_act"]](dense(x, f"{layer}.intermediate.dense"))
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return dense(np.tanh(dense(x[:, 0], "bert.pooler.dense")), "classifier")


def next_token_logits(weights, config, ids):
    """Mistral, Llama and Gemma: ids [rows, length] → logits [rows, length, vocabulary]. Gemma
    scales its embeddings, adds 1 to the factors of its norms, and its head is its embedding.
    """
    gemma = config["model_type"] == "gemma"

    def norm(x, name):
        factors = weights[f"{name}.weight"] + (1 if gemma else 0)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * factors

    embedding = weights["model.embed_tokens.weight"]
    x = embedding[ids] * (np.sqrt(config["hidden_size"]) if gemma else 1)
    future = np.triu(np.full((ids.shape[1], ids.shape[1]), -np.inf), 1)
    groups = config["num_attention_heads"] // config["num_key_value_heads"]
    turns = frequencies(config)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        normed = norm(x, f"{layer}.input_layernorm")
        query, key, value = (
            normed @ weights[f"{layer}.self_attn.{name}_proj.weight"].T for name in "qkv"
        )
        query = rotate(split(query, config["num_attention_heads"]), turns)
        key = rotate(split(key, config["num_key_value_heads"]), turns).repeat(groups, axis=1)
        value = split(value, config["num_key_value_heads"]).repeat(groups, axis=1)
        x = x + attend(query, key, value, future) @ weights[f"{layer}.self_attn.o_proj.weight"].T
        normed = norm(x, f"{layer}.post_attention_layernorm")
        gate, up = (
            normed @ weights[f"{layer}.mlp.{name}_proj.weight"].T for name in ("gate", "up")
        )
        x = (
            x
            + (ACTIVATIONS[config["hidden_act"]](gate) * up)
            @ weights[f"{layer}.mlp.down_proj.weight"].T
        )
    head = embedding if config["tie_word_embeddings"] else weights["lm_head.weight"]
    return norm(x, "model.norm") @ head.T


def split(x, heads):
    """[rows, length, heads × size] → [rows, heads, length, size]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attend(query, key, value, hidden):
    """Softmax attention, its heads joined: [rows, length, heads × size]. `hidden`: -inf where a key
    is not looked at.
    """
    scores = query @ key.swapaxes(2, 3) / np.sqrt(query.shape[-1]) + hidden
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (shares / shares.sum(-1, keepdims=True)) @ value
    return mixed.swapaxes(1, 2).reshape(len(mixed), mixed.shape[2], -1)


def frequencies(config):
    """Radians a position, one for each pair of a head's dimensions. Llama 3.1 divides those that
    turn too little by its factor, leaves those that turn often as they are, and goes from one to
    the other in between.
    """
    size = config["head_dim"]
    turns = config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    if not (scaling := config.get("rope_scaling")):
        return turns
    rounds = scaling["original_max_position_embeddings"] * turns / (2 * np.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    share = np.clip((rounds - low) / (high - low), 0, 1)
    return turns * (share + (1 - share) / scaling["factor"])


def rotate(x, turns):
    """Rotary positions, the first half of a head's dimensions paired with the second."""
    size = x.shape[-1]
    angles = np.arange(x.shape[2])[:, None] * turns
    cosine, sine = (np.tile(f(angles), 2) for f in (np.cos, np.sin))
    turned = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1)
    return x * cosine + turned * sine
