"""The README's and the documents' commands parse, and the worked example of a SUT runs as it stands there."""

import json
import re
import shlex
import shutil
import subprocess

import pytest

from harness.execution.environments import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
_COMMAND = re.compile(r"^    (\./run\.sh [^#\n…\[]+?) *(?:#.*)?$", re.M)
COMMANDS = sorted({command for text in (README, *DOCUMENTS.values()) for command in _COMMAND.findall(text)})
EXAMPLE = DOCUMENTS["adding-a-sut.md"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source with the example's SUT put in; environments and weights are the real ones."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("harness", "scenarios", "sut", "compliance", "environments"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "run.sh", copy / "run.sh")
    (copy / ".cache").symlink_to(ROOT / ".cache")
    blocks = dict(re.findall(r"^```python (\S+)\n(.*?)^```", EXAMPLE, re.M | re.S))
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
    command = shlex.split(re.search(r"^```console sut\n(.*?)\n```", EXAMPLE, re.M | re.S)[1])
    done = subprocess.run([*command, "--duration", "1", "--json"], cwd=tree, capture_output=True, text=True, check=False)
    cell = json.loads(done.stdout)["cells"][0]
    assert (cell["status"], cell["reason"]) == ("ok", "")
    assert cell["accuracy"]["passed"]
    assert cell["accuracy"]["value"] > 0  # another implementation, not the reference itself
    assert (tree / "runs").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documents_is_understood(command, tmp_path):
    (tmp_path / "prompts.txt").write_text("a prompt\n\nand another")
    words = [word.replace("prompts.txt", str(tmp_path / "prompts.txt")) for word in shlex.split(command)[1:]]
    if words[0] == "test":
        words = ["test", "--version"]
    elif words[0] in ("pack", "compliance") or "DIR" in words:
        words.append("--help")  # there is nothing to pack or audit here, no run and no folder of weights
    elif words[0].startswith("-"):
        words.append("--dry-run")
    done = subprocess.run([ROOT / "run.sh", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readme_names_its_two_commands():
    assert _COMMAND.findall(README)[:2] == ["./run.sh --sut keras3-jax --scenario Offline --model mistral", "./run.sh test"]
