"""The README's and the documents' commands parse, and the table of SUTs and models is that
of the registry.
"""

import re
import shlex

import numpy as np
import pytest
from PIL import Image

from formats.result import Status
from harness.commands.list import matrix
from harness.execution.environments import ROOT
from harness.inputs import models
from sut.registry import FIT
from tests import options_document
from tests.support import keras_files
from tests.support.commands import call
from tests.support.long import long_unless

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")}
_COMMAND = re.compile(r"^    (\./run\.sh [^#\n…\[]+?) *(?:#.*)?$", re.M)
COMMANDS = sorted(
    {command for text in (README, *DOCUMENTS.values()) for command in _COMMAND.findall(text)}
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
LARGE = ("./run.sh sweep keras3-published --dry-run",)
"""Commands that resolve hundreds of cells."""


@pytest.mark.parametrize("command", long_unless(COMMANDS, lambda each: each not in LARGE))
def test_a_command_of_the_documents_is_understood(command, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # --threads refuses it
    (tmp_path / "prompts.txt").write_text("a prompt\n\nand another")
    (tmp_path / "labelled.jsonl").write_text('{"prompt": "a prompt", "label": 1}\n')
    keras_files.dense(tmp_path / "my_model.keras")
    np.savez(tmp_path / "labelled.npz", x=np.zeros((64, 4)), label=np.zeros((64, 2)))
    (tmp_path / "layers.py").touch()
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    files = r"^(prompts\.txt|labelled\.jsonl|photos/)$"
    words = [
        re.sub(files, lambda name: str(tmp_path / name[0]), word)
        for word in shlex.split(command)[1:]
    ]
    if words[0] == "test":
        words = ["test", "--version"]
    elif words[0] in ("bundle", "conformance", "serve", "weights") or "--limits" in words:
        words.append("--help")  # it would ask the package index, measure for minutes, or serve
    elif words[0].startswith("-") or words[0] in ("sweep", "choose", "profile"):
        words.append("--dry-run")
    code, out, error = call(words, capfd)
    # There is no run here, and no folder of weights. A command may be refused for that, but not for
    # its words: those get a hint at --help.
    reads = {"pack", "compliance", "report", "compare", "show", "audit"}
    folders = {"DIR", "minilm", "my-model/", "smollm2", "vit-base"}
    missing = words[0] in reads or folders & set(words)
    # As a machine is that runs tests.
    busy = words[0] == "doctor" and code == 1 and "[FAIL] other load" in out
    assert code == 0 or busy or (missing and code == 2 and "--help)" not in error), error


def test_the_table_of_flags_is_made_from_the_flags():
    assert options_document.current(DOCUMENTS["options.md"]) == DOCUMENTS["options.md"]


def test_the_readme_names_its_two_commands():
    commands = {"./run.sh --sut keras3-jax --scenario Offline --model mistral", "./run.sh test"}
    assert commands <= set(_COMMAND.findall(README))


def test_the_document_shows_which_sut_runs_which_model():
    runs = {
        (row["sut"], row["model"], row["task"] == FIT)
        for row in matrix()
        if row["status"] != Status.UNSUPPORTED
    }
    named, group = models.in_group(""), models.in_group("hf-2019")

    def words(sut, model):
        how = (("runs", False), ("trains", True))
        return ", ".join(word for word, trains in how if (sut, model, trains) in runs) or "–"

    for sut in dict.fromkeys(sut for sut, _, _ in runs):
        found = [f"`{model}`" for model in group if (sut, model, False) in runs]
        last = "all four" if len(found) == len(group) else ", ".join(found) or "–"
        row = [f"`{sut}`", *(words(sut, model) for model in named), last]
        assert f"| {' | '.join(row)} |" in DOCUMENTS["suts.md"]


def anchors(page):
    """The names that GitHub gives to a page's headings."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for link in _LINK.findall(re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_that_the_source_names_is_there():
    sources = [
        path for room in ("harness", "scenarios", "sut") for path in (ROOT / room).rglob("*.py")
    ]
    for path in (*sources, ROOT / "CONTRIBUTING.md", ROOT / "Dockerfile"):
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path}: {name}"
