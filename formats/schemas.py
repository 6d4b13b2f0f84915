"""The JSON Schemas of this project's documents, built from their types.

`python -m formats.schemas NAME` prints one.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import msgspec

from formats import cell, checks, record, result
from formats.checks import Audited, Checked
from formats.record import Record
from formats.result import Document

DOCUMENTS: dict[str, type] = {
    "record": Record,
    "result": Document,
    "audit": Audited,
    "checks": Checked,
}
"""Name of a schema → the type of its document."""
_CONSTRAINTS = ("enum", "minimum", "pattern")


def of(kind: type, title: str = "") -> dict[str, Any]:
    """The JSON Schema of a dataclass.

    It includes the constraints in the metadata of fields (`formats.fields`). Descriptions are left
    out.
    """
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    # Name of each dataclass of the formats → its fields.
    classes = [kind]
    for module in (cell, checks, record, result):
        classes += vars(module).values()
    fields_of = {
        each.__name__: dataclasses.fields(each)
        for each in classes
        if isinstance(each, type) and dataclasses.is_dataclass(each)
    }
    for name, definition in definitions.items():
        definition.pop("description", None)
        for field in fields_of.get(name, ()):
            metadata = field.metadata
            constraints = {key: metadata[key] for key in _CONSTRAINTS if key in metadata}
            if "enum" in constraints:
                nothing = [None] if field.default is None else []
                constraints["enum"] = [*constraints["enum"], *nothing]
            definition["properties"][field.name] |= constraints
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "$defs": definitions,
    }
    return {"title": title, **schema} if title else schema


def named(name: str) -> dict[str, Any]:
    """The schema of one of DOCUMENTS."""
    return of(DOCUMENTS[name])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(named(sys.argv[1]), indent=2) + "\n")
