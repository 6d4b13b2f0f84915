"""The causes of an invalid result are those its schema has."""

import json

from harness import result
from harness.execution.environments import ROOT


def test_every_cause_is_in_the_schema():
    schema = json.loads((ROOT / "compliance/schemas/result.json").read_text())
    causes = schema["$defs"]["result"]["properties"]["cause"]["enum"]
    assert {*result._CAUSES, "loadgen", "audit", None} == set(causes)
