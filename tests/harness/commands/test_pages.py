"""Pages and files that a command writes, and what commands without a run share."""

import sys

import pytest

from harness import cli
from tests.support.synthetic_runs import cell, write


@pytest.fixture
def runs(tmp_path):
    write(tmp_path / "runs", cell("keras3-jax"), [100, 101, 102])
    return tmp_path / "runs"


@pytest.mark.parametrize("command", ["report", "show"])
def test_commands_that_read_runs_take_the_folder_of_the_core_environment(
    runs, tmp_path, capsys, command
):
    """run.sh tells who cannot write below the checkout to give it."""
    assert cli.main([command, str(runs), "--cache", str(tmp_path)]) == 0
    assert "unrecognized" not in capsys.readouterr().err


def test_a_page_that_cannot_be_drawn_for_want_of_matplotlib_is_one_sentence(
    runs, tmp_path, monkeypatch, capsys
):
    for name in ("page", "figures"):
        monkeypatch.delitem(sys.modules, f"harness.report.{name}", raising=False)
        monkeypatch.delattr(f"harness.report.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["report", str(runs), "--html", str(tmp_path / "page.html")]) == 3
    assert (
        "--html: needs matplotlib, which a bundle made with --core does not have"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["report", "audit"])
def test_a_file_that_is_no_page_of_this_command_is_kept(runs, tmp_path, capsys, command):
    (tmp_path / "notes.html").write_text("mine")
    directory = next(runs.rglob("result.json")).parent if command == "audit" else runs
    assert cli.main([command, str(directory), "--html", str(tmp_path / "notes.html")]) == 2
    what = "an audit" if command == "audit" else "a report"
    assert (
        f"the file exists and is not a page of {what}, so it is not overwritten"
        in capsys.readouterr().err
    )
    assert (tmp_path / "notes.html").read_text() == "mine"
