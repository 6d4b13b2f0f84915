"""An engine behind the OpenAI protocol, wherever it runs. It gets prompts and returns text. The
tokens of an answer are those of the model's own tokenizer.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from tokenizers import Tokenizer

from formats.cell import UNKNOWN
from formats.outcome import CUT_SHORT
from sut.contract import AsGiven, Batch, Call, Evidence, Workload
from sut.endpoint import settings
from sut.endpoint.client import Client
from sut.endpoint.replies import EndpointError, Reply, shown

TIMEOUT_S = 120.0
_PINGS = 9
_MOST_CONNECTIONS = 1 << 14
"""An address has at most 28,000 connections from here (ip_local_port_range)."""
_OTHER_FILES = 256
"""Files that are open for other reasons: logs, libraries, the pipes of the worker."""
_LARGEST_DIFFERENCE = 0.1
"""The share by which the engine's count of tokens may differ from ours."""
_FEW_TOKENS = 100


class Endpoint(AsGiven):
    """An engine. Its methods are those of `sut.contract.Engine`."""

    in_flight = 1

    def __init__(self, workload: Workload):
        options = workload.options
        self.config = workload.config
        self.ends = tuple(workload.config.get("end_tokens", ()))
        path = workload.config["tokenizer"]
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.chat = options.get("api") == "chat"
        self.path = "/chat/completions" if self.chat else "/completions"
        self.silence_s = float(options.get("timeout-s", TIMEOUT_S))
        most = options.get("in_flight")
        self.most_in_flight = _allowed_connections(most or _MOST_CONNECTIONS)
        if most and most > self.most_in_flight:
            raise EndpointError(
                f"--sut-option in_flight={most}: this process can keep {self.most_in_flight:,}"
                f" connections open: allow it more files (`ulimit -n {most + _OTHER_FILES}`), or"
                " give a smaller number"
            )
        self.client = Client(options["url"], _key(options), self.silence_s, most)
        self.facts = _facts(self.client)
        self.model = options.get("model") or _first_model(self.client)
        # Prompt → its messages, if the engine gets messages.
        conversations = workload.config.get("conversations", ())
        self.messages = {tuple(ids): messages for ids, messages in conversations}
        # The mark that the tokenizer adds before each text.
        self.begin = self.tokenizer.encode("").ids[:1]
        self.sends_ids = False
        self.fixed: dict[str, Any] = {}
        self._try()
        self.counts = _Counts()

    def submit(
        self,
        sample: Batch,
        on_first: Callable[[np.ndarray], None] | None,
        on_end: Callable[[Batch | Exception], None],
    ) -> None:
        """Send one sample, and return at once."""
        ids = sample["input_ids"][0, : int(sample["prompt_length"][0])].tolist()
        most = int(sample["max_new_tokens"][0])
        body = self._body(ids, most, streams=on_first is not None)
        told = False

        def on_text(text: str) -> None:
            nonlocal told
            first = self._encode(text)[:1]
            if first and on_first and not told:
                told = True
                on_first(np.array([first], np.int32))

        def on_reply(reply: Reply | Exception) -> None:
            try:
                if isinstance(reply, Exception):
                    raise reply
                answer = self._answer(reply, ids, most)
            # Text may be anything, such as half of a surrogate pair.
            except Exception as e:  # noqa: BLE001
                on_end(e if isinstance(e, EndpointError) else EndpointError(f"a reply: {e}"))
                return
            if on_first and not told:  # an answer that is only an end token
                on_first(np.ascontiguousarray(answer["tokens"][:, :1]))
            on_end(answer)

        self.client.begin(self.path, body, on_text if on_first else None, on_reply, most)

    def synchronise(self) -> None:
        """Return at once: what the engine does is over when it has answered."""

    def evidence(self, call: Call) -> Evidence:
        """Report what the engine says of itself, how far away it is, and whether it counts tokens
        as its tokenizer does. Raises EndpointError if the counts differ by more than a tenth.
        """
        self.counts.check(ignores_ends=not self.ends)
        counts = self.counts.facts()
        call()
        self.counts = _Counts()  # those of synthetic prompts do not count
        network_ms = _network_ms(self.client)
        detail = {
            **self.facts,
            "model": self.model,
            "prompts": "messages" if self.chat else "ids" if self.sends_ids else "text",
            "network_ms": network_ms,
            **counts,
        }
        return Evidence(graphs=0, graph_breaks=None, precision=UNKNOWN, detail=detail)

    def _body(self, ids: list[int], most: int, streams: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": most, "temperature": 0}
        body |= self.fixed
        if self.chat:
            body["messages"] = self._conversation(ids)
        else:
            body["prompt"] = ids if self.sends_ids else self._text(ids)
        if streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def _conversation(self, ids: list[int]) -> list[dict[str, str]]:
        """The messages of a prompt of the user. Another prompt is one message."""
        known = self.messages.get(tuple(ids))
        return known or [{"role": "user", "content": self.tokenizer.decode(ids)}]

    def _text(self, ids: list[int]) -> str:
        """The text of a prompt, without the mark that the engine adds itself."""
        if ids[:1] == self.begin:
            ids = ids[1:]
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _answer(self, reply: Reply, ids: list[int], most: int) -> Batch:
        """The answer in tokens. Raises EndpointError if there is none."""
        tokens = self._encode(reply.text)
        is_short = reply.finish == "length" and _is_short(
            reply.completion_tokens, len(tokens), most
        )
        self.counts.add(len(tokens), reply, len(ids), is_short)
        if not self.ends and (is_short or reply.finish == "stop"):
            why = "the engine takes no ignore_eos; use --eos stop"
            if is_short:
                why = (
                    "prompt and answer are longer than the engine's window, or it has a limit of"
                    " its own; give fewer --new-tokens, or --eos stop"
                )
            raise EndpointError(
                f"an answer ended after {len(tokens)} of {most} tokens, and --eos ignore gives"
                f" every answer all its tokens: {why}",
                {CUT_SHORT: len(tokens)},
            )
        if reply.finish == "stop":
            tokens.append(self.ends[0])
        if not tokens:
            raise EndpointError("an answer without a token")
        return {
            "tokens": np.array([tokens], np.int32),
            "n_tokens": np.array([len(tokens)], np.int32),
            "in_one_part": np.array([reply.in_one_part]),
        }

    def _try(self) -> None:
        """Find out which requests the engine takes. Raises EndpointError if it takes none."""
        ids = self._encode("The quick brown fox jumps over the lazy dog")
        if not self.chat:
            self.sends_ids = True
            try:
                reply = self._ask(ids)
                self.sends_ids = reply.prompt_tokens in (None, len(ids))
            except EndpointError:
                self.sends_ids = False
        self._ask(ids)
        if self.ends:
            return
        self.fixed = {"ignore_eos": True}
        try:
            self._ask(ids)
        except EndpointError:
            self.fixed = {}

    def _ask(self, ids: list[int]) -> Reply:
        return self.client.ask(self.path, self._body(ids, 2, streams=False), self.chat)


@dataclass
class _Counts:
    """The answers, and their tokens by the model's tokenizer and by the engine. The names are those
    of the evidence. `not_utf8`: answers with bytes that are no UTF-8.
    """

    answers: int = 0
    answers_cut_short: int = 0
    answers_with_reasoning: int = 0
    tokens: int = 0
    tokens_by_engine: int = 0
    largest_difference_of_tokens: int = 0
    answers_without_usage: int = 0
    prompts_counted_by_engine: int = 0
    prompts_of_other_length: int = 0
    not_utf8: int = 0

    def add(self, tokens: int, reply: Reply, prompt: int, is_short: bool) -> None:
        """Add an answer of so many tokens to a prompt of so many."""
        self.answers += 1
        self.answers_cut_short += is_short
        self.answers_with_reasoning += reply.has_reasoning
        # A text that was cut off may end with a part of a character.
        self.not_utf8 += "\ufffd" in reply.text.rstrip("\ufffd")
        if reply.prompt_tokens is not None:
            self.prompts_counted_by_engine += 1
            self.prompts_of_other_length += reply.prompt_tokens != prompt
        if reply.completion_tokens is None:
            self.answers_without_usage += 1
            return
        # An engine may count the end token or not.
        difference = reply.completion_tokens - tokens
        if reply.finish == "stop" and difference == 1:
            difference = 0
        self.tokens += tokens
        self.tokens_by_engine += tokens + difference
        most = max(self.largest_difference_of_tokens, abs(difference))
        self.largest_difference_of_tokens = most

    def check(self, *, ignores_ends: bool = False) -> None:
        """Raises EndpointError if the counts differ too much."""
        apart = abs(self.tokens_by_engine - self.tokens)
        if apart <= _LARGEST_DIFFERENCE * max(self.tokens, _FEW_TOKENS):
            return
        why = "it has another tokenizer, or tokens that it does not send"
        if ignores_ends:
            why += ", such as the end tokens that --eos ignore goes on after: try --eos stop"
        if 2 * self.not_utf8 > self.answers:
            why = (
                f"{self.not_utf8:,} of {self.answers:,} texts have bytes that are no UTF-8"
                " (U+FFFD), as those of random weights do, and other tokens are made of them"
            )
        elif self.answers_with_reasoning and self.tokens_by_engine < self.tokens:
            why = "it does not count its reasoning"
        raise EndpointError(
            f"the engine counts {self.tokens_by_engine:,} tokens, and its texts have"
            f" {self.tokens:,} by the tokenizer of --weights: {why}"
        )

    def facts(self) -> dict[str, int]:
        """The counts of the evidence, by name."""
        facts = asdict(self)
        del facts["not_utf8"]
        return facts


def _is_short(engines: int | None, ours: int, most: int) -> bool:
    """Return whether an answer that ended for its length has fewer tokens than were requested, by
    the engine's count and by ours. A text may have other tokens than those of which it was made, so
    without the engine's count a tenth may be missing.
    """
    if engines is None:
        return ours < (1 - _LARGEST_DIFFERENCE) * most
    return max(engines, ours) < most


def _key(options: Mapping[str, Any]) -> str:
    """The bearer token; empty: none."""
    if name := options.get("key-env"):
        return os.environ.get(name, "")
    if path := options.get("key-file"):
        return Path(path).read_text(encoding="utf-8").strip()
    return ""


def _allowed_connections(wanted: int) -> int:
    """Allow this process a file for each of so many connections. Return how many of them it may
    have.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft < files:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_CONNECTIONS, soft - _OTHER_FILES)


def _first_model(client: Client) -> str:
    """The first model that the engine names. Raises EndpointError."""
    reply, _, _ = client.get("/models")
    data = reply.get("data")
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    if not isinstance(name, str):
        raise EndpointError(
            f"GET {client.url}/models names no model ({shown(reply)}): give --sut-option model=NAME"
        )
    return name


def _facts(client: Client) -> dict[str, Any]:
    """What the engine says of itself: `url`, `server`, `version` and `engine_settings`, as far as
    it does. Raises EndpointError if nothing answers.
    """
    facts: dict[str, Any] = {"url": client.url}
    parts = urlsplit(client.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    for name, path in (("models", "/models"), ("version", f"{origin}/version")):
        try:
            reply, headers, _ = client.get(path)
        except EndpointError as e:
            if "HTTP " not in str(e) and name == "models":
                raise
            continue
        if "Server" in headers:
            facts["server"] = headers["Server"][:100]
        if name == "version" and isinstance(reply.get("version"), str):
            facts["version"] = reply["version"][:100]
    if reported := settings.of(client, origin):
        facts["engine_settings"] = reported
    return facts


def _network_ms(client: Client) -> float | None:
    """The median time of requests that need no model, in milliseconds. None: the engine has none of
    them.
    """
    seconds = []
    try:
        for _ in range(_PINGS):
            seconds.append(client.get("/models")[2])
    except EndpointError:
        return None
    return round(1e3 * statistics.median(seconds), 3)


def load(workload: Workload) -> Endpoint:
    """Connect to the engine. Raises EndpointError if it does not answer as the protocol says."""
    return Endpoint(workload)
