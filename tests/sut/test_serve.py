"""`./run.sh serve` with a framework."""

import json
import tempfile
from pathlib import Path

import pytest

from tests.support import server

_PROMPTS = ("the river", "runs past a small house", "an old clock has stopped at noon")


@pytest.mark.long
@pytest.mark.parametrize("sut", ["native-torch-eager", "native-jax"])
def test_a_framework_answers_equal_prompts_equally_and_scores_them(sut):
    flags = ("--sut", sut, "--model", "mistral", "--size", "tiny", "--max-tokens", 48)
    with tempfile.TemporaryDirectory() as path:
        with server.running(Path(path), *flags, "--batch-size", 2) as running:
            asked = []
            for prompt in _PROMPTS * 2:
                asked.append(running.begin("/v1/completions", {"prompt": prompt, "max_tokens": 9}))
            answers = [json.loads(each.getresponse().read()) for each in asked]
            next_text = running.complete("the", max_tokens=1)["choices"][0]["text"]
            scored = running.complete("the", max_tokens=1, echo=True, logprobs=1)["choices"][0]
    texts = [answer["choices"][0]["text"] for answer in answers]
    assert texts[:3] == texts[3:]
    assert {answer["usage"]["completion_tokens"] for answer in answers} == {9}
    assert scored["text"] == f"the{next_text}"
    first, *scores = scored["logprobs"]["token_logprobs"]
    assert (first, len(scores)) == (None, 4)
    assert max(scores) < 0
