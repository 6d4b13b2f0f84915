"""Good run directories, measured once for the whole session; each test works on a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tree


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("runs")

    def get(kind: str) -> Path:
        path = folder / kind.replace(" ", "-")
        return path if path.exists() else tree.build(path, *tree.KINDS[kind])

    return get


@pytest.fixture
def run(measured: Callable[[str], Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the kind the test is parametrised with, else Offline's."""
    return Path(shutil.copytree(measured(getattr(request, "param", "Offline")), tmp_path / "quick-1"))
