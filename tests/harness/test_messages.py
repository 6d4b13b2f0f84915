"""The messages: no two have one text, and each value has a name."""

from __future__ import annotations

import enum
import inspect
import string

from harness import messages

KINDS = [
    kind
    for _, kind in inspect.getmembers(messages, inspect.isclass)
    if issubclass(kind, enum.StrEnum) and kind is not enum.StrEnum
]


def test_no_two_messages_have_one_text():
    for kind in KINDS:
        assert len(kind.__members__) == len(list(kind)), kind


def test_every_value_of_a_message_has_a_name():
    for kind in KINDS:
        for message in kind:
            names = [
                name for _, name, _, _ in string.Formatter().parse(message) if name is not None
            ]
            assert all(name.isidentifier() for name in names), message
