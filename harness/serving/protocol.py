"""Requests of the OpenAI protocol, as far as `./run.sh serve` speaks it: JSON → `Completion`.

Answers are greedy. Fields that would change a greedy answer are refused. Others, such as `seed` and
`top_p`, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.serving.preparation import Served

_MOST_TOP = 20
_USUAL_TOKENS = 16  # OpenAI's default of /v1/completions
_GREEDY: dict[str, Any] = {
    "temperature": 0,
    "n": 1,
    "best_of": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "suffix": "",
    "logit_bias": {},
    "tools": [],
    "response_format": {"type": "text"},
}
"""Fields that may have only this value."""
Prompts = tuple[tuple[int, ...], ...]
"""The ids of each prompt."""


class Refusal(Exception):
    """A request that is not answered. `status` is that of HTTP."""

    def __init__(
        self, status: int, message: str, code: str | None = None, param: str | None = None
    ):
        super().__init__(message)
        self.status = status
        kind = "server_error" if status == 503 else "invalid_request_error"
        self.error = {"message": message, "type": kind, "param": param, "code": code}


def bad(param: str, rule: str, code: str | None = None) -> Refusal:
    """The refusal of a field."""
    return Refusal(400, f"{param}: {rule}", code, param)


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A request that can be answered.

    Attributes:
        new: the most tokens of each answer.
        ends: the tokens at which an answer ends.
        stop: an answer ends before any of these texts.
        usage: whether a stream ends with the number of tokens.
        top: the prompts are scored, with so many of the likeliest tokens; None: they are answered.
    """

    prompts: Prompts
    new: int
    ends: tuple[int, ...]
    stop: tuple[str, ...]
    stream: bool
    usage: bool
    top: int | None
    chat: bool


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Body(msgspec.Struct):
    """The fields of a request that are read. Those of both addresses are together."""

    model: str | None = None
    prompt: Any = None
    messages: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    echo: bool | None = None
    logprobs: int | bool | None = None


def read(text: bytes, served: Served) -> Body:
    """Read a request. Raises Refusal if it is not one, or requests another than the greedy
    answer.
    """
    try:
        document = msgspec.json.decode(text, type=dict[str, Any])
        body = msgspec.convert(document, Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise Refusal(400, f"the request is not understood: {e}") from None
    if body.model != served.model:
        why = f"model {body.model!r}: there is only {served.model!r} here"
        raise Refusal(404, why, "model_not_found", "model")
    for name, only in _GREEDY.items():
        if document.get(name) not in (None, only):
            rule = f"one greedy text is the answer here: give {json.dumps(only)}, or leave it out"
            raise bad(name, rule)
    if body.min_tokens and served.ends and not body.ignore_eos:
        raise bad("min_tokens", "an answer ends at its end token: give ignore_eos")
    return body


def prompts_of(body: Body, encode: Callable[[str], Sequence[int]]) -> Prompts:
    """The prompts of /v1/completions: a text, ids, or a list of either."""
    prompt = body.prompt
    if isinstance(prompt, str) or _are_ids(prompt):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise bad("prompt", "a text or a list of ids is needed, or several")
    rows = []
    for each in prompt:
        if not isinstance(each, str) and not _are_ids(each):
            raise bad("prompt", "is neither texts nor ids")
        rows.append(tuple(encode(each) if isinstance(each, str) else each))
    return tuple(rows)


def _are_ids(prompt: Any) -> bool:
    if not isinstance(prompt, list) or not prompt:
        return False
    return all(type(each) is int for each in prompt)


def completion(body: Body, prompts: Prompts, served: Served, chat: bool = False) -> Completion:
    """The request with these prompts. Raises Refusal if a limit does not allow it."""
    for prompt in prompts:
        if not prompt:
            raise bad("prompt", "has no token")
        if len(prompt) > served.prompt_tokens:
            rule = (
                f"{len(prompt)} tokens, and at most {served.prompt_tokens} are accepted (the"
                " server's --max-tokens less its --new-tokens)"
            )
            raise bad("prompt", rule, "context_length_exceeded")
        if min(prompt) < 0 or max(prompt) >= served.vocabulary:
            raise bad("prompt", f"ids are from 0 to {served.vocabulary - 1}")
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    top = _top(body, chat)
    return Completion(
        prompts=prompts,
        new=_new_tokens(body, served, chat, least=1 if top is None else 0),
        ends=() if body.ignore_eos else served.ends,
        stop=tuple(text for text in stop if text),
        stream=bool(body.stream),
        usage=bool(body.stream_options and body.stream_options.include_usage),
        top=top,
        chat=chat,
    )


def _new_tokens(body: Body, served: Served, chat: bool, least: int) -> int:
    new = body.max_tokens if body.max_tokens is not None else body.max_completion_tokens
    new_tokens = served.new_tokens
    if new is None:
        return new_tokens if chat else min(_USUAL_TOKENS, new_tokens)
    if not least <= new <= new_tokens:
        rule = f"{new} is not from {least} to {new_tokens} (the server's --new-tokens)"
        raise bad("max_tokens", rule, "context_length_exceeded")
    return new


def _top(body: Body, chat: bool) -> int | None:
    """See `Completion.top`. OpenAI's chat protocol has `false` for none. 0 requests the scores of
    the prompt's own tokens.
    """
    wanted = None if body.logprobs is False else body.logprobs
    if wanted is None and (chat or not body.echo):
        return None
    is_prompt = body.echo and body.max_tokens in (0, 1) and not body.stream and not chat
    if wanted is None or not is_prompt or not 0 <= wanted <= _MOST_TOP:
        rule = (
            "only those of a prompt are computed, by /v1/completions: give logprobs from 0 to"
            f" {_MOST_TOP}, echo, and max_tokens 0 or 1, without stream"
        )
        raise bad("logprobs", rule)
    return int(wanted)
