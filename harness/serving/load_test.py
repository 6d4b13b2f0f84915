"""A small load test of a server: requests at once, streamed, each prompt twice."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

_TEXT = "the river runs past a small house where an old clock has stopped at noon"
_WORDS = _TEXT.split()
_clock = time.perf_counter


@dataclass(frozen=True)
class _Answer:
    """The answer of one request. `error` is empty if there is none."""

    prompt: str
    error: str = ""
    first_s: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a load test found.

    Attributes:
        seconds: from the first request to the last answer.
        errors: what a request was refused with → how often.
        first_ms: the median of the times to the first token, and the longest.
        prompts: prompts that were answered more than once.
        agreeing: prompts whose answers are all equal.
    """

    requests: int
    answered: int
    seconds: float
    tokens: int
    errors: dict[str, int]
    first_ms: tuple[float, float]
    prompts: int
    agreeing: int

    @property
    def good(self) -> bool:
        """Whether all requests were answered, and equal prompts have equal answers."""
        return self.answered == self.requests and self.agreeing == self.prompts

    def lines(self) -> list[str]:
        """The outcome in words."""
        rate = self.answered / self.seconds
        tokens = self.tokens / self.seconds
        median, longest = self.first_ms
        found = [
            f"{self.answered} of {self.requests} requests answered in {self.seconds:.2f} s:"
            f" {rate:.2f} requests/s, {tokens:.1f} tokens/s",
            f"time to the first token: median {median:.0f} ms, longest {longest:.0f} ms",
            f"equal prompts with equal answers: {self.agreeing} of {self.prompts}",
        ]
        found += [f"{count} × {error}" for error, count in self.errors.items()]
        return found


async def run(url: str, model: str, count: int, new: int) -> Outcome:
    """Send `count` requests at once to the server at `url`, for `new` tokens each."""
    prompts = [_prompt(number // 2) for number in range(count)]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        start = _clock()
        requests = [_request(session, url, model, prompt, new) for prompt in prompts]
        answers = await asyncio.gather(*requests)
        seconds = _clock() - start
    return _outcome(answers, seconds)


def _prompt(number: int) -> str:
    """A different prompt for each number, of 4 to 11 words."""
    length = 4 + number % 8
    words = [_WORDS[(number + place) % len(_WORDS)] for place in range(length)]
    return f"{number} {' '.join(words)}"


async def _request(
    session: aiohttp.ClientSession, url: str, model: str, prompt: str, new: int
) -> _Answer:
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": new,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start = _clock()
    first_s = 0.0
    text = ""
    tokens = 0
    async with session.post(f"{url}/v1/completions", json=body) as response:
        if response.status != 200:
            document = await response.json()
            return _Answer(prompt, f"{response.status} {document['error']['message']}")
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            part = json.loads(line.removeprefix(b"data: "))
            if "error" in part:
                return _Answer(prompt, part["error"]["message"])
            first_s = first_s or _clock() - start
            for choice in part["choices"]:
                text += choice["text"]
            if "usage" in part:
                tokens = part["usage"]["completion_tokens"]
    return _Answer(prompt, "", first_s, _clock() - start, tokens, text)


def _outcome(answers: Sequence[_Answer], seconds: float) -> Outcome:
    good = [answer for answer in answers if not answer.error]
    texts = defaultdict(list)
    for answer in good:
        texts[answer.prompt].append(answer.text)
    repeated = [each for each in texts.values() if len(each) > 1]
    first_s = [answer.first_s for answer in good] or [0.0]
    return Outcome(
        requests=len(answers),
        answered=len(good),
        seconds=seconds,
        tokens=sum(answer.tokens for answer in good),
        errors=dict(Counter(answer.error for answer in answers if answer.error)),
        first_ms=(1e3 * statistics.median(first_s), 1e3 * max(first_s)),
        prompts=len(repeated),
        agreeing=sum(len(set(each)) == 1 for each in repeated),
    )
