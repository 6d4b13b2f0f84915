"""What `./run.sh bundle` refuses, and what it keeps and removes in a folder that is there."""

import argparse
import json
import shutil

import pytest

from harness.commands import bundle
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import wheels
from harness.inputs import models
from harness.terminal import Terminal
from tests.support.wheels import wheel


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "a bundle needs either --sut A,B"),
        (["--core", "--sut", "mock"], "a bundle needs either --sut A,B"),
        (["--core", "--tests"], "--tests: need all that is locked"),
        (["--sut", "mock", "--without", "scipy"], "--without scipy: is for --core"),
        (["--core", "--without", "scipi"], "did you mean scipy?"),
        (["--sut", "keras3-jacks"], "did you mean keras3-jax?"),
        (["--core", "--platform", "win_amd64"], "--platform win_amd64: is written as manylinux_2_28_x86_64"),
        (["--core", "--python", "3.9"], "--python 3.9: LoadGen has wheels for 3.11, 3.12, 3.13"),
        (["--core", "--model", "bret"], "did you mean bert?"),
        (["--core", "--model", "bert", "--size", "tinny"], "did you mean tiny?"),
    ],
)
def test_a_bundle_that_cannot_be_is_refused(tmp_path, flags, words):
    with pytest.raises(UsageError) as refused:
        bundle.main([str(tmp_path / "new"), *flags])
    assert words in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_folder_of_the_users_own_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no bundle and not empty: name a new folder"):
        bundle.main([str(tmp_path), "--core"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_weights_of_a_model_of_several_parts_come_with_their_folders(tmp_path):
    model = models.load("stable-diffusion")
    files = bundle._data([(model, model.sizes["tiny"])], tmp_path, Terminal(quiet=True))
    names = {name.split("/", 3)[-1]: path for name, path in files.items()}
    assert {"config.json", "digest.json", "unet/config.json", "text_encoder/config.json", "vae/config.json"} <= names.keys()
    assert all(path.is_file() and path == tmp_path / name.removeprefix(".cache/") for name, path in files.items())


def test_the_size_of_the_weights_is_told_before_they_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bundle.bundle, "resolve", lambda *asked: [])
    flags = [str(tmp_path / "new"), "--sut", "mock", "--model", "bert,gemma", "--cache", str(tmp_path / "cache"), "--dry-run", "--json"]

    def told():
        assert bundle.main(flags) == 0
        summary = json.loads(capsys.readouterr().out)
        return summary["weight_bytes"], summary["weight_bytes_to_write"]

    size, to_write = told()
    assert to_write == 2 * size, "they are drawn, and copied to the same disk"
    assert list(tmp_path.iterdir()) == []
    weights = bundle._weights(argparse.Namespace(model="bert,gemma", size="tiny"))
    written = bundle._data(weights, tmp_path / "cache", Terminal(quiet=True))
    assert size == pytest.approx(sum(path.stat().st_size for path in written.values() if path.suffix == ".safetensors"), rel=0.01)
    assert told() == (size, size)
    bundle._begin(tmp_path / "new")
    shutil.copytree(tmp_path / "cache", tmp_path / "new" / ".cache")
    assert told() == (size, 0)


def test_a_disk_that_is_too_small_for_the_weights_is_told_before_anything_is_written(tmp_path, monkeypatch):
    folder = tmp_path / "new"
    summary = {
        "environments": {},
        "wheels": 1,
        "wheel_bytes": 1,
        "source_bytes": 1,
        "weight_bytes": 6e9,
        "to_fetch": 1,
        "bytes_to_fetch": 1e9,
    }
    monkeypatch.setattr(bundle.shutil, "disk_usage", lambda path: argparse.Namespace(free=10e9))
    assert "weights, 6,000.0 MB" in [*bundle._announcement({**summary, "weight_bytes_to_write": 6e9}, folder)][0]
    with pytest.raises(EnvironmentFailure, match="new: 13.0 GB are wanted and 10.0 GB are free"):
        list(bundle._announcement({**summary, "weight_bytes_to_write": 12e9}, folder))


def test_what_an_earlier_bundle_left_is_removed_and_the_users_runs_stay(tmp_path):
    folder, source = tmp_path / "bundle", tmp_path / "source.py"
    source.write_text("new = True\n")
    for name in ("wheels/old-1.0-py3-none-any.whl", "sut/gone.py", "runs/mine.py", "sut/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("there before")
    made = wheel(folder / wheels.FOLDER, "fast")
    known = wheels.sha256(made)
    each = bundle.Wheel(filename=made.name, url=made.as_uri(), sha256=known, bytes=made.stat().st_size)
    plan = bundle._Plan(environments={"core": [each]}, texts={}, sources={"sut/kept.py": source, "run.sh": source})
    flags = argparse.Namespace(python="3.12", device="cpu", core=True, without=None)
    manifest = bundle._write(folder, plan, {}, flags, [], ["manylinux_2_28_x86_64"])
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {f"wheels/{made.name}", "sut/kept.py", "sut/notes.txt", "runs/mine.py", "run.sh", wheels.MANIFEST}
    assert manifest["files"][f"wheels/{made.name}"]["sha256"] == known
    assert json.loads((folder / wheels.MANIFEST).read_text()) == manifest
