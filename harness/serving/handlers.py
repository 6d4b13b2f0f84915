"""The HTTP addresses of `./run.sh serve`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from harness.serving import protocol
from harness.serving.answers import Answers, Usage
from harness.serving.link import Link
from harness.serving.protocol import Completion, Limits, Refusal
from harness.serving.rendering import Renderer
from harness.serving.text import Text

if TYPE_CHECKING:
    from harness.inputs.chat import Template
    from harness.inputs.tokenizer import Tokenizer

_PROGRAM = "keras-mlperf-harness"
LEFT = 499
"""The status under which a request is counted whose client has left, as in nginx."""
_FAILED = "failed"
"""Key of a request whose stream ended with an error: the status that it would have had."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is served.

    Attributes:
        limits: the limits of a request.
        tokenizer: text → ids, and back.
        template: renders the messages of a chat; None: the model has none, and `no_template` says
            why.
        timeout_s: a request that takes longer is refused.
        max_request_bytes: of a request's body.
        worker: the settings of the worker.
        sut: the SUT and its precision.
    """

    limits: Limits
    tokenizer: Tokenizer
    template: Template | None
    no_template: str
    timeout_s: float
    max_request_bytes: int
    worker: dict[str, Any]
    sut: str


@dataclass
class Counts:
    """What was answered.

    Attributes:
        requests: status of HTTP → requests; LEFT: the client has left.
        prompt_tokens, new_tokens: of the requests that were answered.
    """

    requests: Counter[int] = field(default_factory=Counter)
    prompt_tokens: int = 0
    new_tokens: int = 0


def application(settings: Settings, link: Link, counts: Counts) -> web.Application:
    """The application that answers requests by `link`, and counts them."""
    handlers = _Handlers(settings, link, counts)
    application = web.Application(
        client_max_size=settings.max_request_bytes, middlewares=[_guard(settings, counts)]
    )
    application.on_cleanup.append(handlers.close)
    application.on_response_prepare.append(handlers.sign)
    application.router.add_get("/health", handlers.health)
    application.router.add_get("/v1/models", handlers.models)
    application.router.add_get("/v1/models/{model:.+}", handlers.model)
    application.router.add_post("/v1/completions", handlers.completions)
    application.router.add_post("/v1/chat/completions", handlers.chat)
    return application


def _guard(settings: Settings, counts: Counts) -> Any:
    """Return the middleware that gives each error OpenAI's format, and counts the requests."""

    @web.middleware
    async def guarded(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)
        except Refusal as e:
            response = _refused(e)
        except TimeoutError:
            response = _refused(_late(settings.timeout_s))
        except web.HTTPRequestEntityTooLarge:
            most = settings.max_request_bytes
            why = f"the request has more than {most} bytes (the server's --max-request-bytes)"
            response = _refused(Refusal(413, why))
        except web.HTTPException as e:
            response = _refused(Refusal(e.status, f"{request.method} {request.path}: {e.reason}"))
        except (asyncio.CancelledError, ConnectionError):
            counts.requests[LEFT] += 1
            raise
        if request.method == "POST":
            counts.requests[request.get(_FAILED, response.status)] += 1
        return response

    return guarded


def _refused(refusal: Refusal) -> web.Response:
    return web.json_response(refusal.document(), status=refusal.status)


class _Handlers:
    """One method for each address."""

    def __init__(self, settings: Settings, link: Link, counts: Counts):
        self.settings = settings
        self.link = link
        self.counts = counts
        self.renderer = Renderer(settings.template) if settings.template else None

    async def close(self, application: web.Application) -> None:
        """End what was started for the requests."""
        if self.renderer:
            await self.renderer.close()

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Say which SUT answers, for clients that record the engine."""
        response.headers["Server"] = f"{_PROGRAM} ({self.settings.sut})"

    async def health(self, request: web.Request) -> web.Response:
        """Whether requests are answered."""
        self.link.check()
        return web.json_response({"status": "ok"})

    async def models(self, request: web.Request) -> web.Response:
        """The one model."""
        return web.json_response({"object": "list", "data": [self._model()]})

    async def model(self, request: web.Request) -> web.Response:
        """The model, by its name."""
        name = request.match_info["model"]
        if name != self.settings.limits.model:
            raise Refusal(404, f"model {name!r}: is not here", code="model_not_found")
        return web.json_response(self._model())

    def _model(self) -> dict[str, Any]:
        limits = self.settings.limits
        return {
            "id": limits.model,
            "object": "model",
            "created": 0,
            "owned_by": _PROGRAM,
            "max_model_len": limits.prompt_tokens + limits.new_tokens,
        }

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Answer prompts."""
        deadline = self._deadline()
        async with asyncio.timeout_at(deadline):
            body = protocol.read(await request.read(), self.settings.limits)
        prompts = protocol.prompts_of(body, self.settings.tokenizer.encode)
        asked = protocol.completion(body, prompts, self.settings.limits)
        if asked.top is not None:
            return await self._scored(asked, deadline)
        return await self._answered(request, asked, deadline)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer the messages of a chat."""
        deadline = self._deadline()
        async with asyncio.timeout_at(deadline):
            body = protocol.read(await request.read(), self.settings.limits)
            ids = await self._rendered(protocol.messages_of(body))
        asked = protocol.completion(body, (tuple(ids),), self.settings.limits, chat=True)
        return await self._answered(request, asked, deadline)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.settings.timeout_s

    async def _rendered(self, messages: list[dict[str, Any]]) -> list[int]:
        """The ids of the messages. Another process renders the template."""
        encode = self.settings.tokenizer.encode_marked
        if self.renderer is None or encode is None:
            raise Refusal(400, self.settings.no_template, code="no_chat_template")
        return encode(await self.renderer.text(messages))

    async def _answered(
        self, request: web.Request, asked: Completion, deadline: float
    ) -> web.StreamResponse:
        if asked.stream:
            return await self._streamed(request, asked, deadline)
        texts = self._texts(asked)
        reasons = [""] * len(texts)
        new = 0
        async with aclosing(self.link.generate(asked.prompts, asked.new, deadline)) as steps:
            async for step in steps:
                new += len(step.tokens)
                text = texts[step.prompt]
                text.add(step.tokens, last=step.reason is not None)
                reasons[step.prompt] = reasons[step.prompt] or _reason(text, step.reason)
                if all(reasons):
                    break
        usage = self._count(asked, new)
        echoed = [self._echoed(asked, prompt) for prompt in asked.prompts]
        whole = [echo + text.whole for echo, text in zip(echoed, texts, strict=True)]
        answers = Answers(asked, self.settings.limits.model)
        return web.json_response(answers.whole(whole, reasons, usage))

    async def _streamed(
        self, request: web.Request, asked: Completion, deadline: float
    ) -> web.StreamResponse:
        """Send each part of the answers as a server-sent event. The status is sent with the first
        one, so that a full queue still has its own.
        """
        answers = Answers(asked, self.settings.limits.model)
        texts = self._texts(asked)
        ended = [False] * len(texts)
        new = 0
        stream = _Events(request)
        try:
            async with aclosing(self.link.generate(asked.prompts, asked.new, deadline)) as steps:
                async for step in steps:
                    if not stream.begun:
                        await stream.begin()
                        await self._begin(stream, answers, asked)
                    if ended[step.prompt]:  # at a stop text, before the worker knew
                        continue
                    new += len(step.tokens)
                    text = texts[step.prompt]
                    further = text.add(step.tokens, last=step.reason is not None)
                    reason = _reason(text, step.reason) or None
                    await stream.send(answers.part(step.prompt, further, reason))
                    ended[step.prompt] = reason is not None
                    if all(ended):
                        break
        except (Refusal, TimeoutError) as e:
            if not stream.begun:
                raise
            refusal = e if isinstance(e, Refusal) else _late(self.settings.timeout_s)
            request[_FAILED] = refusal.status
            await stream.send(refusal.document())
        else:
            usage = self._count(asked, new)
            if asked.usage:
                await stream.send(answers.usage(usage))
        return await stream.end()

    async def _begin(self, stream: _Events, answers: Answers, asked: Completion) -> None:
        for index, prompt in enumerate(asked.prompts):
            if asked.chat:
                await stream.send(answers.first(index))
            elif asked.echo:
                await stream.send(answers.part(index, self._echoed(asked, prompt), None))

    async def _scored(self, asked: Completion, deadline: float) -> web.Response:
        """The log probabilities of the prompts. With `max_tokens` 1 the likeliest next token is the
        answer.
        """
        assert asked.top is not None
        found = await self.link.scores(asked.prompts, asked.top, deadline)
        texts = []
        scores = []
        for prompt, score in zip(asked.prompts, found, strict=True):
            ids = list(prompt)
            chosen = [None, *score["chosen"]]
            if asked.new:
                next_ids, next_scores = score["top"][-1]
                ids.append(next_ids[0])
                chosen.append(next_scores[0])
            texts.append(self._decode(ids))
            scores.append(self._logprobs(ids, chosen, score["top"], asked.top))
        usage = self._count(asked, asked.new * len(texts))
        answers = Answers(asked, self.settings.limits.model)
        return web.json_response(answers.scored(texts, scores, usage))

    def _logprobs(
        self, ids: list[int], chosen: list[float | None], top: list[Any], count: int
    ) -> dict[str, Any]:
        """OpenAI's `logprobs`: each list has an entry a token. The first token has no score."""
        tokens = [self._decode([i]) for i in ids]
        likeliest: list[dict[str, float] | None] = [None]
        for position in range(1, len(ids)):
            names = [self._decode([i]) for i in top[position - 1][0][:count]]
            row = dict(zip(names, top[position - 1][1], strict=False))
            score = chosen[position]
            assert score is not None
            row.setdefault(tokens[position], score)
            likeliest.append(row)
        offsets = [0]
        for token in tokens[:-1]:
            offsets.append(offsets[-1] + len(token))
        return {
            "tokens": tokens,
            "token_logprobs": chosen,
            "top_logprobs": likeliest,
            "text_offset": offsets,
        }

    def _texts(self, asked: Completion) -> list[Text]:
        return [Text(self._decode, prompt, asked.stop) for prompt in asked.prompts]

    def _echoed(self, asked: Completion, prompt: Sequence[int]) -> str:
        return self._decode(prompt) if asked.echo else ""

    def _decode(self, ids: Sequence[int]) -> str:
        """The text of any ids. A model may answer with ids that its tokenizer does not have."""
        tokenizer = self.settings.tokenizer
        return tokenizer.decode([i for i in ids if 0 <= i < tokenizer.vocabulary])

    def _count(self, asked: Completion, new: int) -> Usage:
        usage = Usage(sum(map(len, asked.prompts)), new)
        self.counts.prompt_tokens += usage.prompt
        self.counts.new_tokens += new
        return usage


class _Events:
    """A response of server-sent events."""

    def __init__(self, request: web.Request):
        self._request = request
        self._response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        self.begun = False

    async def begin(self) -> None:
        self.begun = True
        await self._response.prepare(self._request)

    async def send(self, document: dict[str, Any]) -> None:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        await self._response.write(f"data: {text}\n\n".encode())

    async def end(self) -> web.StreamResponse:
        await self._response.write(b"data: [DONE]\n\n")
        await self._response.write_eof()
        return self._response


def _late(seconds: float) -> Refusal:
    return Refusal(
        503, f"not answered within {seconds:g} s (the server's --timeout-s)", code="timeout"
    )


def _reason(text: Text, reason: str | None) -> str:
    """Why an answer ended; empty: it has not."""
    return "stop" if text.stopped else reason or ""
