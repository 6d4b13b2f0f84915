"""Whatever stands in a file, the audit answers with findings."""

import json
import os
import resource
import shutil
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compliance import audit, rules
from compliance.findings import page, verdict
from compliance.logs import strict_json
from formats.checks import Check
from tests.support.audits import whole
from tests.support.damage import FILES, damage, damaged

MOST_CPU_S = 10
MOST_MEMORY_KB = 200 << 10
LONGEST_LINE = 12_000


@pytest.fixture(scope="module")
def victim(measured, tmp_path_factory):
    return shutil.copytree(measured("tokens"), tmp_path_factory.mktemp("fuzz") / "quick-1")


@pytest.mark.parametrize("name", FILES)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(how=damage())
def test_damage_is_a_finding_and_never_a_traceback(victim, name, how):
    (path,) = victim.glob(FILES[name])
    before = path.read_bytes()
    path.write_bytes(how(before))
    try:
        found = whole(audit.audit(victim).checks)
    finally:
        path.write_bytes(before)
    assert found and all(isinstance(c, Check) and c.line() for c in found)


@pytest.fixture(scope="module")
def victims(victim, complied, tmp_path_factory):
    """Every file of a run that generates, and of one with a compliance test."""
    copy = shutil.copytree(complied, tmp_path_factory.mktemp("fuzz") / "quick-1")
    return sorted(path for run in (victim, copy) for path in run.rglob("*") if path.is_file())


@settings(max_examples=40, deadline=None)
@given(r=st.randoms(use_true_random=True))
def test_an_audit_of_damaged_values_keeps_its_promises(victims, r):
    path = r.choice(victims)
    run = next(folder for folder in path.parents if folder.name == "quick-1")
    of = r.choice((None, *rules.rounds()))
    before = path.read_bytes()
    path.write_bytes(damaged(r, before, path.name))
    try:
        first = audited(run, of)
        # A finding may name the minute, and a minute may just have ended.
        assert audited(run, of) == first or audited(run, of) == audited(run, of)
    finally:
        path.write_bytes(before)
    assert_clean(first)


def audited(run, of):
    """An audit that did not break off, and took little time and memory. A warning is an error."""
    start_s = time.process_time()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = audit.audit(run, of)
    assert time.process_time() - start_s < MOST_CPU_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MOST_MEMORY_KB
    whole(found.checks)
    return found


def assert_clean(found):
    """Lines, JSON and page show what was read as text, and nothing of it takes effect."""
    for check in found.checks:
        line = check.line()
        assert line.isprintable() and len(line) <= LONGEST_LINE
        assert "MemoryError" not in line and "Unable to allocate" not in line
    document = json.dumps(asdict(found.document("x", "submission")), ensure_ascii=False)
    assert strict_json.parse(document) == json.loads(document)
    html = page.render("x", "submission", found, datetime.now(UTC))
    assert "<script" not in html.lower()
    assert html.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "put", [None, Path.mkdir, Path.touch, os.mkfifo], ids=["gone", "a folder", "empty", "a pipe"]
)
def test_a_file_that_is_gone_or_none_is_a_failed_check(tokens_run, name, put):
    (path,) = tokens_run.glob(FILES[name])
    path.unlink()
    if put:
        put(path)
    assert not verdict.passes(whole(audit.audit(tokens_run).checks_for("quick")))
