"""Whatever stands in a file, the audit answers with findings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compliance import audit
from compliance.findings import verdict
from compliance.findings.check import Check
from tests.compliance.tree import whole

FILES = {
    "the performance detail log": "open/*/results/*/*/*/performance/run_1/mlperf_log_detail.txt",
    "the performance summary": "open/*/results/*/*/*/performance/run_1/mlperf_log_summary.txt",
    "the accuracy detail log": "open/*/results/*/*/*/accuracy/mlperf_log_detail.txt",
    "the truncated accuracy log": "open/*/results/*/*/*/accuracy/mlperf_log_accuracy.json",
    "accuracy.txt": "open/*/results/*/*/*/accuracy/accuracy.txt",
    "the whole accuracy log": "raw/accuracy/mlperf_log_accuracy.json",
    "the teacher-forced logits": "raw/accuracy/logits.npy",
    "the SUT's own logits": "raw/accuracy/own_logits.npy",
    "user.conf": "raw/performance/user.conf",
    "job.json": "raw/accuracy/job.json",
    "outcome.json": "raw/performance/outcome.json",
    "reference.npz": "reference.npz",
    "record.json": "record.json",
    "the system description": "open/*/systems/*.json",
    "model_mapping.json": "open/*/model_mapping.json",
    "measurements.json": "open/*/results/*/*/*/measurements.json",
}


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut, overwrite, insert, or replace the whole."""
    where = draw(st.floats(0, 1))
    junk = draw(st.binary(max_size=40) | st.sampled_from([b"null", b"[]", b"{}", b"1e999", b"NaN", b"-1", b'"x"', b"\n"]))
    kind = draw(st.sampled_from(["cut", "overwrite", "insert", "replace", "number"]))

    def apply(content: bytes) -> bytes:
        at = int(where * len(content))
        if kind == "number":  # a digit somewhere becomes something else that JSON may hold
            at = next((i for i in range(at, len(content)) if content[i : i + 1].isdigit()), at)
            return content[:at] + junk + content[at + 1 :]
        rest = {"cut": b"", "overwrite": junk + content[at + len(junk) :], "insert": junk + content[at:]}
        return content[:at] + rest[kind] if kind in rest else junk

    return apply


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
