"""`--sut-option shards=N`: refuses what cannot be split on N devices."""

from __future__ import annotations

from formats.cell import SHARDS
from harness.errors import UsageError
from harness.inputs.models import Model, Size
from harness.request.options import OFF, Options
from sut.registry import QUANTIZE, SutSpec

_SPLIT = {
    "num_attention_heads": "heads",
    "num_key_value_heads": "heads of keys and values",
    "hidden_size": "columns of its embedding",
    "intermediate_size": "columns between two products",
    "vocab_size": "tokens in its vocabulary",
}
"""Number of a configuration, which is split → its meaning."""


def count(options: Options) -> int:
    """The number of shards. 1: the model is not split."""
    return int(options.sut_options.get(SHARDS, 1))


def flag(options: Options) -> str:
    """The option as it is typed."""
    return f"--sut-option {SHARDS}={count(options)}"


def check(options: Options, spec: SutSpec, model: Model, size: Size) -> None:
    """Raises UsageError if the model, or another flag, does not go with the shards."""
    shards = count(options)
    if shards == 1:
        return
    if model.name not in spec.sharded:
        raise UsageError(
            f"{flag(options)}: {options.sut} splits only {', '.join(spec.sharded)}, and not"
            f" {model.name}: leave it out"
        )
    if options.trains:
        raise UsageError(
            f"{flag(options)}: is for answers, and {options.scenario} trains: leave it out"
        )
    if QUANTIZE in options.sut_options:
        raise UsageError(
            f"{flag(options)}: weights of 8 bits are not split: leave {QUANTIZE} out, or {SHARDS}"
        )
    if options.tuned != OFF:
        raise UsageError(
            f"{flag(options)}: the switches of --tuned {options.tuned} are for models that are not"
            " split: leave one of both out"
        )
    for name, meaning in _SPLIT.items():
        number = size.config.get(name)
        if number is not None and number % shards:
            raise UsageError(
                f"{flag(options)}: {model.name} has {number} {meaning}, which {shards} devices"
                f" cannot share equally: choose a number that divides {number}"
            )
