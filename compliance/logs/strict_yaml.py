"""Parses only YAML that means the same to every reader. The plain values are those that MLCommons'
checker reads, because PyYAML's safe loader makes them (YAML 1.1: `on` is true, `1e3` is a text).
"""

from __future__ import annotations

from typing import Any

import yaml

from compliance.logs.strict_json import TWICE

# The config.yaml of a run has 3 KB. PyYAML reads this many characters within a second.
_MOST_CHARACTERS = 1 << 16
# A document has at most as many nodes as characters, and aliases may repeat them.
_MOST_NODES = 1 << 16
_TOO_MANY = "its aliases unpack to more than"
_TOO_LONG = "characters; at most"
LENIENT = (_TOO_MANY, _TOO_LONG)
"""The words of the errors for content that PyYAML's own loader accepts."""


class _Loader(yaml.SafeLoader):
    """Makes plain values, and refuses what a reader may take in another way."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.count = 0
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node. Raises ValueError for aliases that unpack to many nodes, or to a node that
        contains the alias.
        """
        is_alias = self.check_event(yaml.AliasEvent)
        line = self.peek_event().start_mark.line + 1
        before = self.count
        node = super().compose_node(parent, index)
        if is_alias:
            self.count += self.sizes.get(id(node), _MOST_NODES)
        else:
            self.count += 1
            self.sizes[id(node)] = self.count - before
        if self.count > _MOST_NODES:
            raise ValueError(f"line {line}: {_TOO_MANY} {_MOST_NODES} values")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The values of a mapping. Raises ValueError for a key that occurs twice."""
        values: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(values) < len(node.value):
            raise ValueError(f"a key {TWICE} that begins in line {node.start_mark.line + 1}")
        return values


def parse(text: str) -> Any:
    """The value of a YAML document.

    Raises ValueError, with the reason, for a document that is no YAML or has a key twice, a tag of
    a program's object, more than 65,536 characters, or more values when aliases are unpacked.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"{len(text)} {_TOO_LONG} {_MOST_CHARACTERS} are read")
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else 1
        raise ValueError(f"line {line}: {e.problem}") from None
    except yaml.YAMLError as e:
        raise ValueError(" ".join(str(e).split())) from None
