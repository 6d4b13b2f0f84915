"""The command `sweep`, and a record of the tests that it ran."""

import json

import pytest

from harness import cli
from harness.execution import process
from harness.sweep import loop


@pytest.fixture
def sweep(tmp_path, capsys, monkeypatch):
    """Arguments → (exit code, the JSON document or None, what was said). No repeat is measured
    again because another test disturbed it.
    """
    monkeypatch.setattr(loop, "AGAIN_A_REPEAT", 0)

    def run(*arguments):
        out = [] if "--out" in arguments else ["--out", str(tmp_path / "runs")]
        code = cli.main(["sweep", *map(str, arguments), *out])
        captured = capsys.readouterr()
        return (
            code,
            json.loads(captured.out) if captured.out.startswith("{") else None,
            captured.err,
        )

    run.out = tmp_path / "runs"
    return run


@pytest.fixture
def tests_run(monkeypatch):
    """The LoadGen tests that really ran."""
    ran, original = [], process.Worker.run

    def run(worker, job, watch):
        ran.append(job.test)
        return original(worker, job, watch)

    monkeypatch.setattr(process.Worker, "run", run)
    return ran
