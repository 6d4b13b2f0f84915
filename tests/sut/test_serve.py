"""`./run.sh serve` with a framework."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path

import pytest

from tests.support import server

_PROMPTS = ("the river", "runs past a small house", "an old clock has stopped at noon")


@pytest.mark.long
@pytest.mark.parametrize("sut", ["native-torch-eager", "native-jax"])
def test_a_framework_answers_equal_prompts_equally(sut):
    flags = ("--sut", sut, "--model", "mistral", "--size", "tiny", "--max-tokens", 48)
    with tempfile.TemporaryDirectory() as path:
        with server.running(Path(path), *flags, "--batch-size", 2) as running:
            asked = []
            for prompt in _PROMPTS * 2:
                asked.append(running.begin("/v1/completions", {"prompt": prompt, "max_tokens": 9}))
            answers = [json.loads(each.getresponse().read()) for each in asked]
            code, out, _ = running.end(signal.SIGINT)
    texts = [answer["choices"][0]["text"] for answer in answers]
    assert texts[:3] == texts[3:]
    assert {answer["usage"]["completion_tokens"] for answer in answers} == {9}
    assert (code, "compiled while requests waited" in out) == (0, False)
