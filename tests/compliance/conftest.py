"""Good run directories, measured once for the whole session; each test works on a copy."""

import shutil
from pathlib import Path

import pytest

from tests.support import tree


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")

    def get(kind):
        path = folder / kind.replace(" ", "-")
        if path.exists():
            return path
        tree.build(path, *tree.KINDS[kind])
        summary = path / "raw" / "performance" / "mlperf_log_summary.txt"
        if "Result is : VALID" in summary.read_text():
            return path
        # The machine was slower while calibrating than in the test, which was too short then.
        shutil.rmtree(path)
        return tree.build(path, *tree.KINDS[kind])

    return get


@pytest.fixture(scope="session")
def complied(tmp_path_factory):
    """A run of one sample at a time, with the compliance test TEST01. Tests must not change it."""
    folder = tmp_path_factory.mktemp("complied")
    run = tree.build(folder / "quick-1", "SingleStream", milliseconds=40)
    return tree.comply(run, names=["TEST01"])


@pytest.fixture
def run(measured, tmp_path, request):
    """A copy of the kind the test is parametrised with, else Offline's."""
    return Path(
        shutil.copytree(measured(getattr(request, "param", "Offline")), tmp_path / "quick-1")
    )


@pytest.fixture
def tokens_run(measured, tmp_path):
    """A copy of a run that generates."""
    return shutil.copytree(measured("tokens"), tmp_path / "quick-1")


@pytest.fixture
def bare(run, tmp_path):
    """The submission of `run`, without its run directory."""
    return shutil.copytree(run / "open", tmp_path / "bare" / "open").parent


@pytest.fixture
def two_scenarios(measured, tmp_path):
    """A submission of Offline and SingleStream."""
    for kind in ("Offline", "SingleStream"):
        shutil.copytree(measured(kind) / "open", tmp_path / "two" / "open", dirs_exist_ok=True)
    return tmp_path / "two"
