"""Refuses a Mistral with features that an older implementation does not compute.

The older ones are those of KerasNLP and of Transformers 4 for TensorFlow. Today's Mistral of
Transformers has these features.
"""

from __future__ import annotations

from collections.abc import Mapping

from sut.contract import Config, Unsupported


def check(whose: str, config: Config, more: Mapping[str, bool] | None = None) -> None:
    """Raises Unsupported for a configuration that the older implementation ignores.

    Args:
        whose: name of the older implementation, for the message.
        config: the model's configuration.
        more: name of another missing feature → whether this configuration requires it.
    """
    width = config.get("head_dim", 0) * config["num_attention_heads"]
    lacks = {
        "heads of another width than hidden_size / num_attention_heads": (
            width not in (0, config["hidden_size"])
        ),
        "a head that is tied to the embedding": config["tie_word_embeddings"],
        "scaled rotary positions": "rope_scaling" in config,
        **(more or {}),
    }
    for feature, required in lacks.items():
        if required:
            raise Unsupported(f"{whose} lacks {feature}: take native-torch")
