"""The notebook runs from top to bottom and prints what it promises."""

import importlib
import json
import shlex
import shutil
import sys

from harness.commands import COMMANDS
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
    assert "native-torch-eager is 0.5" in printed
    assert "batch 32: 199.993 samples/s, 3 runs" in printed


def test_each_command_of_the_workflow_is_one_that_the_harness_takes():
    lines = (ROOT / "examples/slower-release.yml").read_text().splitlines()
    cell = next(line.partition(": ")[2] for line in lines if "CELL:" in line)
    commands = [line[line.index("./run.sh") :] for line in lines if "./run.sh" in line]
    package = next(line.partition(": ")[2] for line in lines if "PACKAGE:" in line)
    assert len(commands) == 4
    for command in commands:
        words = shlex.split(command.replace("$CELL", cell).replace("$PACKAGE", package))[1:]
        known = words[0] in COMMANDS
        module = importlib.import_module(f"harness.commands.{words[0] if known else 'run'}")
        parser = module.run_parser if not known else getattr(module, "_parser", None)
        if parser:
            parser().parse_args(words[known:])
