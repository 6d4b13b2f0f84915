"""The tensors of a seeded checkpoint, drawn by the rows of a table."""

import json
import subprocess

import pytest

from harness.execution.environments import ROOT
from harness.inputs import models
from harness.inputs.models import drawn
from harness.inputs.models.drawn import Parts, Weight
from tests.support.long import LONG

SHAPES = {
    "stem.weight": (8, 3, 4, 4),
    "stem.bias": (8,),
    "block.0.norm.weight": (8,),
    "block.0.proj.weight": (16, 8),
}
PARTS = Parts(shapes=lambda config: SHAPES, configs=lambda config: {}, files={})
ROWS = (
    Weight("*norm*.weight", mean=1.0, std=0.1),
    Weight("*.bias", std=0.02),
    Weight("*.weight", gain=2.0),
)
_STATE = (
    "import json, sys, torch, transformers; kind = getattr(transformers, sys.argv[1]);"
    " config = kind.config_class(**json.loads(sys.argv[2]));"
    " torch.set_default_device('meta'); model = kind(config);"
    " print(json.dumps({n: list(p.shape) for n, p in model.named_parameters()}))"
)
"""Prints the names and shapes of the parameters of a class of Transformers."""


def test_the_first_row_whose_pattern_matches_counts():
    found = {t.name: (t.mean, t.std) for t in drawn.tensors(ROWS, {}, PARTS)}
    assert found["block.0.norm.weight"] == (1.0, 0.1)
    assert found["stem.bias"] == (0.0, 0.02)


def test_a_gain_keeps_the_scale_of_products_and_convolutions():
    found = {t.name: t.std for t in drawn.tensors(ROWS, {}, PARTS)}
    assert found["block.0.proj.weight"] == pytest.approx(2 / 8**0.5)
    assert found["stem.weight"] == pytest.approx(2 / 48**0.5)  # 3 channels of 4 × 4


def test_a_name_without_a_row_is_refused():
    with pytest.raises(ValueError, match="no row of the table matches stem.bias"):
        drawn.tensors(ROWS[::2], {}, PARTS)


def test_every_row_of_stable_diffusion_matches_a_tensor():
    model = models.load("stable-diffusion")
    assert model.parts
    names = model.parts.shapes(model.sizes["tiny"].config)
    assert set(drawn._rows_of(names, model.weights)) == set(model.weights)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("qwen3", "tiny"),
        *(
            pytest.param(name, size, marks=LONG)
            for name in ("bert", "qwen3", "gemma3")
            for size in ("tiny", "full")
            if (name, size) != ("qwen3", "tiny")
        ),
    ],
)
def test_names_and_shapes_are_those_of_the_library(interpreter, name, size):
    model = models.load(name)
    known = model.sizes[size]
    words = [model.classes["transformers"], json.dumps(known.config)]
    done = subprocess.run(
        [interpreter("native-torch"), "-P", "-c", _STATE, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    library = {each: tuple(shape) for each, shape in json.loads(done.stdout).items()}
    assert {each.name: each.shape for each in known.tensors} == library
