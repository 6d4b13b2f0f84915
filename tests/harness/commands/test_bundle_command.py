"""What `./run.sh bundle` refuses and lists, and what it keeps and removes in a folder."""

import argparse
import json
import re

import pytest

from harness.commands import bundle
from harness.errors import UsageError
from harness.execution import environments, wheels
from tests.support.files import read_json
from tests.support.wheels import wheel

CORE = (environments.LOCKS / "core.txt").read_text()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "one of the arguments --sut --core is required"),
        (["--core", "--sut", "mock"], "argument --sut: not allowed with argument --core"),
        (["--core", "--tests"], "--tests cannot be combined with --core"),
        (["--sut", "mock", "--without", "scipy"], "--without cannot be combined with --sut"),
        (["--sut", "mock", "--reference"], "--reference cannot be combined with --sut"),
        (["--core", "--without", "scipi"], "did you mean scipy?"),
        (["--sut", "keras3-jacks"], "did you mean keras3-jax?"),
        (
            ["--core", "--platform", "win_amd64"],
            "--platform win_amd64: write it as manylinux_2_28_x86_64",
        ),
        (["--core", "--python", "3.9"], "argument --python: invalid choice: '3.9'"),
        (
            ["--core", "--model", "bert"],
            "--model is gone: the other machine draws the same weights",
        ),
    ],
)
def test_a_bundle_that_cannot_be_is_refused(tmp_path, flags, words):
    with pytest.raises(UsageError) as refused:
        bundle.main([str(tmp_path / "new"), *flags])
    assert words in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_folder_of_the_users_own_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty and not a bundle. Name a new folder"):
        bundle.main([str(tmp_path), "--core"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_dry_run_lists_the_packages_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle, "_sources", lambda options: {})  # also without a git checkout
    cache = tmp_path / "cache"
    flags = ["--sut", "mock", "--python", "3.12", "--cache", str(cache)]
    assert bundle.main([str(tmp_path / "new"), *flags, "--dry-run", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert list(tmp_path.iterdir()) == []
    numpy = [each for each in summary["environments"]["core"] if each.startswith("numpy==")]
    assert numpy == re.findall(r"^(numpy==\S+) ; python_full_version >= '3.12'", CORE, re.M)


def test_what_an_earlier_bundle_left_is_removed_and_the_users_runs_stay(tmp_path, monkeypatch):
    folder = tmp_path / "bundle"
    source = tmp_path / "source.py"
    source.write_text("new = True\n")
    for name in ("wheels/old-1.0-py3-none-any.whl", "sut/gone.py", "runs/mine.py", "sut/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("there before")
    made = wheel(folder / wheels.FOLDER, "fast")
    monkeypatch.setattr(bundle.bundle, "download", lambda *arguments: {"core": [made.name]})
    options = argparse.Namespace(
        folder=folder,
        cache=tmp_path,
        quiet=True,
        json=False,
        python="3.12",
        platform=["manylinux_2_28_x86_64"],
        device="cpu",
        core=True,
        without=[],
        sut=[],
    )
    total = bundle._write(options, {}, {"sut/kept.py": source, "run.sh": source})
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    kept = {f"wheels/{made.name}", "sut/kept.py", "run.sh"}
    assert files == {*kept, "sut/notes.txt", "runs/mine.py", wheels.MANIFEST}
    manifest = read_json(folder / wheels.MANIFEST)
    assert manifest["files"].keys() == kept
    assert manifest["files"][f"wheels/{made.name}"]["sha256"] == wheels.sha256(made)
    assert total == sum(file["bytes"] for file in manifest["files"].values())
