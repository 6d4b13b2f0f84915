"""Reads the JSON by which a `.keras` file describes its model. It needs no Keras, so that the
harness and the SUTs read it alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_RATE = re.compile(r"(.+_)?dropout(_rate)?")
_OF_CLASSES = {"rate": "Dropout", "stddev": "GaussianNoise"}
"""Key of a layer's config → a part of the names of the classes that draw random numbers by it."""


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object with a `class_name`, at any depth, in the order of the document."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if isinstance(each.get("class_name"), str):
                yield each
            each = list(each.values())
        if isinstance(each, list):
            pending += reversed(each)


def random_rates(described: Mapping[str, Any]) -> list[str]:
    """Return the keys of a layer's config with a rate of dropout, or a deviation of noise, that is
    more than 0.
    """
    config = described.get("config")
    if not isinstance(config, dict):
        return []
    found = []
    for key, value in config.items():
        of_class = key in _OF_CLASSES and _OF_CLASSES[key] in described["class_name"]
        if (of_class or _RATE.fullmatch(key)) and isinstance(value, int | float) and value > 0:
            found.append(key)
    return found
