"""A checkpoint drawn by rules, and the tool that keeps the native library's own names and
shapes.
"""

import json
import subprocess
from pathlib import Path

import pytest

from harness.execution.environments import ROOT
from harness.inputs import models
from harness.inputs.models import drawn
from harness.inputs.models.drawn import Rule
from tests.support.long import LONG

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


def shapes(python: Path, model: models.Model, size: models.Size, folder: Path) -> Path:
    """The file that the tool writes about a size."""
    (folder / "config.json").write_text(json.dumps(size.config))
    command = [
        python,
        "-m",
        "sut.native_torch.state_shapes",
        model.classes["transformers"],
        folder / "config.json",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (folder / "shapes.json").write_text(done.stdout)
    return folder / "shapes.json"


def test_the_library_s_own_names_and_shapes_are_those_of_the_table(interpreter, tmp_path):
    """The tool on the class that the table of bert was written for by hand: it finds the same
    tensors.
    """
    tiny = BERT.sizes["tiny"]
    file = shapes(interpreter("native-torch"), BERT, tiny, tmp_path)
    found = drawn.shapes(file, tiny.config["num_hidden_layers"])
    assert found == {t.name: t.shape for t in tiny.tensors}
    made = drawn.tensors(
        (Rule(pattern="*LayerNorm.weight", mean=1.0), Rule(pattern="*", gain=1.0)), found
    )
    assert sum(t.mean for t in made) == sum("LayerNorm.weight" in t.name for t in tiny.tensors)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen3", "tiny"),
        *(
            pytest.param(name, size, marks=LONG)
            for name in ("qwen3", "gemma3")
            for size in ("tiny", "mid", "full")
            if (name, size) != ("qwen3", "tiny")
        ),
    ],
)
def test_the_kept_names_and_shapes_are_those_of_the_library(interpreter, tmp_path, name, size):
    model = models.load(name)
    file = shapes(interpreter("native-torch"), model, model.sizes[size], tmp_path)
    kept = Path(models.__file__).parent / f"{name}-{size}.json"
    assert json.loads(file.read_text())["tensors"] == json.loads(kept.read_text())["tensors"]
