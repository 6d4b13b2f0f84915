"""A checkpoint drawn by rules, and the tool that keeps the native library's own names and
shapes.
"""

import json
import subprocess

import pytest

from harness.execution.environments import ROOT
from harness.inputs import models
from harness.inputs.models import drawn
from harness.inputs.models.drawn import Rule

BERT = models.load("bert")
SHAPES = {
    "stem.weight": (8, 3, 4, 4),
    "stem.bias": (8,),
    "block.0.norm.weight": (8,),
    "block.0.proj.weight": (16, 8),
}
RULES = (
    Rule(pattern="*norm*.weight", mean=1.0, std=0.1),
    Rule(pattern="*.bias", std=0.02),
    Rule(pattern="*.weight", gain=2.0),
)


def test_the_first_rule_that_matches_counts():
    found = {t.name: (t.mean, t.std) for t in drawn.tensors(RULES, SHAPES)}
    assert found["block.0.norm.weight"] == (1.0, 0.1)
    assert found["stem.bias"] == (0.0, 0.02)


def test_a_gain_keeps_the_scale_of_products_and_convolutions():
    found = {t.name: t.std for t in drawn.tensors(RULES, SHAPES)}
    assert found["block.0.proj.weight"] == pytest.approx(2 / 8**0.5)
    assert found["stem.weight"] == pytest.approx(2 / 48**0.5)  # 3 channels of 4 × 4


def test_a_name_without_a_rule_and_a_rule_without_a_name_are_refused():
    with pytest.raises(ValueError, match="no rule matches stem.bias"):
        drawn.tensors(RULES[::2], SHAPES)
    with pytest.raises(ValueError, match=r"the rule 'head\.\*' matches no tensor"):
        drawn.tensors((Rule(pattern="head.*"), *RULES), SHAPES)


def test_the_library_s_own_names_and_shapes_are_those_of_the_table(interpreter, tmp_path):
    """The tool on the class that the table of bert was written for by hand: it finds the same
    tensors.
    """
    tiny = BERT.sizes["tiny"]
    (tmp_path / "config.json").write_text(json.dumps(tiny.config))
    command = [
        interpreter("native-torch"),
        "-m",
        "sut.native_torch.state_shapes",
        BERT.classes["transformers"],
        tmp_path / "config.json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (tmp_path / "shapes.json").write_text(done.stdout)
    found = drawn.shapes(tmp_path / "shapes.json")
    assert found == {t.name: t.shape for t in tiny.tensors}
    made = drawn.tensors(
        (Rule(pattern="*LayerNorm.weight", mean=1.0), Rule(pattern="*", gain=1.0)), found
    )
    assert sum(t.mean for t in made) == sum("LayerNorm.weight" in t.name for t in tiny.tensors)
