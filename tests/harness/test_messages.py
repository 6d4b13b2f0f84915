"""The messages: each is said somewhere, with exactly the values of its template."""

from __future__ import annotations

import ast
import enum
import inspect
import string
from pathlib import Path

from harness import messages

KINDS = {
    name: kind
    for name, kind in inspect.getmembers(messages, inspect.isclass)
    if issubclass(kind, enum.StrEnum) and kind is not enum.StrEnum
}


def _values(message):
    return {name for _, name, _, _ in string.Formatter().parse(message) if name is not None}


def _message(node):
    """The message that a node of a syntax tree names, else None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        kind = KINDS.get(node.value.id)
        return kind.__members__.get(node.attr) if kind else None
    return None


def _uses():
    """(message, names of its values, place) of each use; without `format` there are no values."""
    for path in sorted(Path(messages.__file__).parent.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        formatted = set()
        for node in nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            message = _message(node.func.value)
            if message is not None and node.func.attr == "format":
                formatted.add(node.func.value)
                names = {keyword.arg for keyword in node.keywords}
                yield message, names, f"{path.name}:{node.lineno}"
        for node in nodes:
            message = _message(node)
            if message is not None and node not in formatted:
                yield message, set(), f"{path.name}:{node.lineno}"


def test_no_two_messages_have_one_text():
    for kind in KINDS.values():
        assert len(kind.__members__) == len(list(kind)), kind


def test_each_message_is_said_somewhere():
    said = {(type(message), message.name) for message, _, _ in _uses()}
    for kind in KINDS.values():
        for message in kind:
            assert (kind, message.name) in said, message.name


def test_each_message_gets_exactly_its_values():
    for message, names, place in _uses():
        assert names == _values(message), (place, message.name)
