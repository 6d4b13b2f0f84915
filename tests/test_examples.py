"""The notebook runs from top to bottom and prints what it promises."""

import json
import shutil
import sys

from harness.execution.environments import ROOT
from tests.support.synthetic_runs import cell, write


def test_the_notebook_answers_from_run_directories(tmp_path, monkeypatch, capsys):
    write(tmp_path / "runs", cell("keras3-jax"), [200, 202, 198], sweep="s-1")
    write(tmp_path / "runs", cell("native-torch-eager"), [100, 101, 99], sweep="s-1")
    shutil.copy(ROOT / "run.sh", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    names: dict[str, object] = {}
    for block in json.loads((ROOT / "examples/choose.ipynb").read_text())["cells"]:
        if block["cell_type"] == "code":
            exec("".join(block["source"]), names)
    printed = capsys.readouterr().out
    assert "keras3-jax is fastest: 2.00 × native-torch-eager" in printed
    assert "native-torch-eager is 0.5" in printed and "batch 32: 200.0 samples/s, 3 runs" in printed
