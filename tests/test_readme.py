"""The README's commands parse, and its worked example of a SUT runs as it stands there."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from harness.execution.environments import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (\./run\.sh [^#\n…]+)", README, re.M)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source with the README's SUT put in; environments and weights are the real ones."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("harness", "scenarios", "sut", "compliance", "environments"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "run.sh", copy / "run.sh")
    (copy / ".cache").symlink_to(ROOT / ".cache")
    blocks = dict(re.findall(r"^```python (\S+)\n(.*?)^```", README, re.M | re.S))
    registry = copy / "sut/registry.py"
    registry.write_text(
        registry.read_text().replace("SUTS: dict[str, SutSpec] = {\n", "SUTS: dict[str, SutSpec] = {\n" + blocks.pop("registry"), 1)
    )
    for path, text in blocks.items():
        (copy / path).parent.mkdir()
        (copy / path).write_text(text)
    return copy


def test_the_worked_example_passes_accuracy_and_audit(tree, interpreter):
    interpreter("native-torch")  # the reference's
    command = shlex.split(re.search(r"^```console sut\n(.*?)\n```", README, re.M | re.S)[1])
    done = subprocess.run([*command, "--load-seconds", "1", "--json"], cwd=tree, capture_output=True, text=True, check=False)
    cell = json.loads(done.stdout)["cells"][0]
    assert (cell["status"], cell["reason"]) == ("ok", "")
    assert cell["accuracy"]["passed"]
    assert cell["accuracy"]["value"] > 0  # another implementation, not the reference itself
    assert (tree / "runs").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_understood(command):
    words = shlex.split(command)[1:]
    if words[0] == "test":
        words = ["test", "--version"]
    elif words[0] in ("pack", "comply"):
        words.append("--help")  # there is nothing to pack here, and no run
    elif words[0].startswith("-"):
        words.append("--dry-run")
    done = subprocess.run([ROOT / "run.sh", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readme_names_its_two_commands():
    assert [c.strip() for c in COMMANDS[:2]] == ["./run.sh --sut keras3-jax --scenario Offline --model mistral", "./run.sh test"]
