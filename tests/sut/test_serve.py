"""`./run.sh serve` with a framework."""

from __future__ import annotations

import os
import subprocess

import pytest

from harness.execution.environments import ROOT
from tests.support import server


@pytest.mark.long
@pytest.mark.parametrize("sut", ["native-torch-eager", "native-jax"])
def test_a_framework_answers_equal_prompts_equally(sut):
    flags = ("--sut", sut, "--model", "mistral", "--size", "tiny", "--max-tokens", 48)
    words = server.command(*flags, "--batch-size", 2, "--self-test", 6)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "6 of 6 requests answered" in ended.stdout
    assert "equal prompts with equal answers: 3 of 3" in ended.stdout
    assert "compiled while requests waited" not in ended.stdout
