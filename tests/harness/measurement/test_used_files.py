"""A user's file that changes between the plan and the end of the tests is named, and no figure is
recorded under the digest of the earlier one.
"""

import os
from pathlib import Path

import pytest

from formats.result import Status
from harness import result
from harness.errors import UsageError
from harness.inputs import used_files
from harness.measurement import reference
from tests.support.cells import Reporter, measure, request
from tests.support.weights_folders import made, mock_reads_weights

__all__ = ["made", "mock_reads_weights"]
WEIGHTS = "model.safetensors"


def replaced(path):
    """Another file of the same bytes takes the place, as a training loop's last checkpoint would."""
    new = path.with_suffix(".new")
    new.write_bytes(path.read_bytes())
    new.replace(path)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "generation_config.json"])
def test_weights_that_change_between_plan_and_load_are_refused(
    name, mock_reads_weights, made, tmp_path
):
    folder = made("bert")
    if not (folder / name).exists():
        (folder / name).write_text("{}")
    planned = request(tmp_path / "runs", weights=folder)
    replaced(folder / name)
    with pytest.raises(UsageError, match=f"{name}: changed while it was used.*measure again"):
        measure(planned)
    assert not list((tmp_path / "runs").glob("**/result.json"))


def test_prompts_that_change_between_plan_and_load_are_refused(tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\n")
    planned = request(tmp_path / "runs", model="mistral", dataset=prompts)
    prompts.write_text("one\nthree\n")
    with pytest.raises(UsageError, match="prompts.txt: changed while it was used"):
        measure(planned)


class Replacing(Reporter):
    """Replaces a file when the worker of the performance test begins."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def watch(self, what):
        if what == "performance":
            replaced(self.path)
        return super().watch(what)


def test_weights_that_change_while_they_are_measured_give_no_figure(
    mock_reads_weights, made, tmp_path, monkeypatch
):
    monkeypatch.setattr(reference.engines, "not_judged", lambda request: "no time for a reference")
    folder = made("bert")
    planned = request(tmp_path / "runs", weights=folder)
    found = measure(planned, Replacing(folder / WEIGHTS))
    assert found.status is Status.ERROR and not found.ranked
    assert found.reason.startswith(f"{folder / WEIGHTS}: changed while it was used")
    assert result.derive(Path(found.directory)).reason == found.reason
    again = measure(request(tmp_path / "runs", weights=folder))
    assert again.status is Status.OK
    assert list((tmp_path / "runs").glob("**/performance.attempt-1"))


def test_every_kind_of_file_has_a_stamp_and_other_files_have_none(tmp_path):
    folder = tmp_path / "weights"
    for name in ("config.json", "unet/model.safetensors", "unet/notes.md", ".git/config", "a/b/c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1")
    file = tmp_path / "model.keras"
    file.write_text("1")
    before = used_files.stamps([folder, file, None, tmp_path / "missing"])
    assert {path.name for path in before} == {"config.json", "model.safetensors", "model.keras"}
    (folder / "unet" / "notes.md").write_text("2")
    assert not used_files.changed(before)
    stat = file.stat()
    file.write_text("12")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "model.keras: changed" in used_files.changed(before)
    file.unlink()
    assert "model.keras: changed" in used_files.changed(before)
