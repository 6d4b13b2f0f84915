"""Whatever stands in a file, the audit answers with findings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from compliance import audit
from compliance.findings import verdict
from compliance.findings.check import Check
from tests.support.damage import FILES, damage
from tests.support.tree import whole


@pytest.fixture(scope="module")
def victim(measured: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(measured("tokens"), tmp_path_factory.mktemp("fuzz") / "quick-1"))


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(how=damage())
def test_damage_is_a_finding_and_never_a_traceback(victim: Path, name: str, how: Callable[[bytes], bytes]) -> None:
    (path,) = victim.glob(FILES[name])
    before = path.read_bytes()
    path.write_bytes(how(before))
    try:
        found = whole(audit.audit(victim).checks)
    finally:
        path.write_bytes(before)
    assert found and all(isinstance(c, Check) and c.line() for c in found)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", ["gone", "a folder", "empty"])
def test_a_file_that_is_gone_or_none_is_a_failed_check(measured: Callable[[str], Path], tmp_path: Path, name: str, what: str) -> None:
    run = Path(shutil.copytree(measured("tokens"), tmp_path / "quick-1"))
    (path,) = run.glob(FILES[name])
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "empty":
        path.touch()
    assert not verdict.passes(whole(audit.audit(run).checks_for("quick")))


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_a_files_place_does_not_hold_the_audit_up(measured: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(measured("tokens"), tmp_path / "quick-1"))
    (path,) = run.glob(FILES[name])
    path.unlink()
    os.mkfifo(path)
    assert not verdict.passes(whole(audit.audit(run).checks_for("quick")))
