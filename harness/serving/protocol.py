"""Requests of the OpenAI protocol, as far as `./run.sh serve` speaks it: JSON → `Completion`.

Answers are greedy. Fields that would change a greedy answer are refused. Others, such as `seed` and
`top_p`, are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.inputs import messages

_MOST_STOPS = 16
_MOST_TOP = 20
_DEFAULT_TOKENS = 16  # OpenAI's default of /v1/completions

_TYPES = {
    400: "invalid_request_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "server_error",
}


class Refusal(Exception):
    """A request that is not answered. `status` is that of HTTP."""

    def __init__(
        self, status: int, message: str, code: str | None = None, param: str | None = None
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param

    def document(self) -> dict[str, Any]:
        """The error in OpenAI's format."""
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of the requests.

    Attributes:
        model: the model's name.
        vocabulary: ids are below it.
        prompt_tokens, new_tokens: the longest prompt and the longest answer.
        ends: whether answers end at end tokens.
        scores: whether the log probabilities of a prompt can be requested.
    """

    model: str
    vocabulary: int
    prompt_tokens: int
    new_tokens: int
    ends: bool
    scores: bool


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A request that can be answered.

    Attributes:
        prompts: the ids of each prompt.
        new: the most tokens of each answer.
        stop: an answer ends before any of these texts.
        usage: whether a stream ends with the number of tokens.
        echo: whether the answer's text begins with the prompt.
        top: for the log probabilities of the prompt: so many of the likeliest tokens; None: none.
    """

    prompts: tuple[tuple[int, ...], ...]
    new: int
    stop: tuple[str, ...] = ()
    stream: bool = False
    usage: bool = False
    echo: bool = False
    top: int | None = None
    chat: bool = False


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Body(msgspec.Struct):
    """The fields of a request that are read. Those of both addresses are together."""

    model: str | None = None
    prompt: Any = None
    messages: Any = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    n: int | None = None
    best_of: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    stop: str | list[str] | None = None
    echo: bool | None = None
    logprobs: int | bool | None = None
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None
    tools: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    ignore_eos: bool | None = None


def read(text: bytes, limits: Limits) -> Body:
    """Read a request. Raises Refusal if it is not one, or requests what is not computed here."""
    try:
        body = msgspec.json.decode(text, type=Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise Refusal(400, f"the request is not understood: {e}") from None
    if body.model != limits.model:
        raise Refusal(
            404,
            f"model {body.model!r}: there is only {limits.model!r} here",
            code="model_not_found",
            param="model",
        )
    _check_greedy(body)
    if (body.ignore_eos or body.min_tokens) and limits.ends:
        raise Refusal(
            400,
            "ignore_eos and min_tokens: answers end at their end token here; start the server with"
            " --eos ignore",
            param="ignore_eos",
        )
    return body


def _check_greedy(body: Body) -> None:
    """Raises Refusal for a field that requests another answer than the greedy one."""
    if body.temperature:
        raise Refusal(
            400,
            f"temperature {body.temperature:g}: answers are greedy here: give 0, or leave it out",
            param="temperature",
        )
    for name in ("n", "best_of"):
        if getattr(body, name) not in (None, 1):
            raise Refusal(400, f"{name}: a prompt has one greedy answer: give 1", param=name)
    for name in ("frequency_penalty", "presence_penalty", "suffix", "logit_bias", "tools"):
        if getattr(body, name):
            raise Refusal(400, f"{name}: is not supported: leave it out", param=name)
    if body.response_format and body.response_format.get("type") != "text":
        raise Refusal(400, "response_format: there is only text", param="response_format")


def prompts_of(body: Body, encode: Callable[[str], Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The ids of each prompt of /v1/completions: a text, ids, or a list of either."""
    prompt = body.prompt
    if isinstance(prompt, str) or _are_ids(prompt):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise Refusal(400, "prompt: a text or a list of ids is needed, or several", param="prompt")
    rows = []
    for each in prompt:
        if isinstance(each, str):
            rows.append(tuple(encode(each)))
        elif _are_ids(each):
            rows.append(tuple(each))
        else:
            raise Refusal(400, "prompt: is neither texts nor ids", param="prompt")
    return tuple(rows)


def _are_ids(prompt: Any) -> bool:
    if not isinstance(prompt, list) or not prompt:
        return False
    return all(type(each) is int for each in prompt)


def messages_of(body: Body) -> list[dict[str, Any]]:
    """The messages of /v1/chat/completions, with texts as their content."""
    try:
        return messages.read(body.messages)
    except ValueError as e:
        raise Refusal(400, f"messages: {e}", param="messages") from None


def completion(
    body: Body, prompts: tuple[tuple[int, ...], ...], limits: Limits, chat: bool = False
) -> Completion:
    """The request with these prompts. Raises Refusal if a limit does not allow it."""
    for prompt in prompts:
        _check_prompt(prompt, limits)
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    stop = tuple(text for text in stop if text)
    if len(stop) > _MOST_STOPS:
        raise Refusal(400, f"stop: at most {_MOST_STOPS} texts", param="stop")
    options = body.stream_options
    # OpenAI's chat protocol has `false` for none. 0 asks for the scores of the prompt's own tokens.
    top = None if chat or body.logprobs in (None, False) else int(body.logprobs)
    new = _new_tokens(body, limits, chat)
    if chat and body.logprobs:
        raise Refusal(400, "logprobs: only /v1/completions has them here", param="logprobs")
    if top is not None:
        _check_scores(body, top, new, limits)
    elif new < 1:
        raise Refusal(400, "max_tokens: at least 1", param="max_tokens")
    return Completion(
        prompts=prompts,
        new=new,
        stop=stop,
        stream=bool(body.stream),
        usage=bool(options and options.include_usage),
        echo=bool(body.echo) and not chat,
        top=top,
        chat=chat,
    )


def _check_prompt(prompt: Sequence[int], limits: Limits) -> None:
    if not prompt:
        raise Refusal(400, "prompt: has no token", param="prompt")
    if len(prompt) > limits.prompt_tokens:
        raise Refusal(
            400,
            f"prompt: {len(prompt)} tokens, and at most {limits.prompt_tokens} are accepted (the"
            " server's --max-tokens less its --new-tokens)",
            code="context_length_exceeded",
            param="prompt",
        )
    if min(prompt) < 0 or max(prompt) >= limits.vocabulary:
        raise Refusal(400, f"prompt: ids are from 0 to {limits.vocabulary - 1}", param="prompt")


def _new_tokens(body: Body, limits: Limits, chat: bool) -> int:
    new = body.max_tokens if body.max_tokens is not None else body.max_completion_tokens
    if new is None:
        return limits.new_tokens if chat else min(_DEFAULT_TOKENS, limits.new_tokens)
    if new > limits.new_tokens:
        raise Refusal(
            400,
            f"max_tokens {new}: an answer has at most {limits.new_tokens} here (the server's"
            " --new-tokens)",
            code="context_length_exceeded",
            param="max_tokens",
        )
    return new


def _check_scores(body: Body, top: int, new: int, limits: Limits) -> None:
    if not limits.scores:
        raise Refusal(400, "logprobs: start the server with --logprobs", param="logprobs")
    if not body.echo or new not in (0, 1) or body.stream:
        raise Refusal(
            400,
            "logprobs: only those of a prompt are computed here: give echo, and max_tokens 0 or 1,"
            " without stream",
            param="logprobs",
        )
    if not 0 <= top <= _MOST_TOP:
        raise Refusal(400, f"logprobs: from 0 to {_MOST_TOP}", param="logprobs")
