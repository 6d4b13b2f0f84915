"""The HTTP addresses of `./run.sh serve`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

from aiohttp import web

from harness.execution.user_files import Program, Stopped
from harness.inputs import messages
from harness.serving import protocol
from harness.serving.preparation import Served
from harness.serving.protocol import Body, Completion, Refusal
from harness.serving.text import Text

_PROGRAM = "keras-mlperf-harness"
_MOST_BYTES = 16 << 20  # of a request
_LEAST_AT_ONCE = 256
"""So many requests are with the worker at once, or those of the largest batch. Others wait."""
_LONGEST_LINE = 1 << 28  # of the worker
_SENT = ("prompts", "new", "ends", "top")
"""The attributes of a Completion that the worker gets."""

_Document = dict[str, Any]


def application(served: Served, socket: Path) -> web.Application:
    """The application that answers requests by the worker at `socket`."""
    handlers = _Handlers(served, socket)
    application = web.Application(client_max_size=_MOST_BYTES, middlewares=[_explain])
    application.on_response_prepare.append(handlers.sign)
    application.on_startup.append(handlers.start)
    application.on_cleanup.append(handlers.end)
    router = application.router
    router.add_get("/health", handlers.health)
    router.add_get("/v1/models", handlers.models)
    router.add_post("/v1/completions", handlers.completions)
    router.add_post("/v1/chat/completions", handlers.chat)
    return application


@web.middleware
async def _explain(request: web.Request, handler: Any) -> web.StreamResponse:
    """Give each error OpenAI's format."""
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except Refusal as e:
        refusal = e
    except web.HTTPException as e:
        refusal = Refusal(e.status, f"{request.method} {request.path}: {e.text}")
    return web.json_response({"error": refusal.error}, status=refusal.status)


class _Handlers:
    """One method for each address."""

    def __init__(self, served: Served, socket: Path):
        self.served = served
        self.tokenizer = served.tokenizer
        self.renderer = Program("chat", {})
        self.socket = socket
        self.turn = asyncio.Semaphore(max(_LEAST_AT_ONCE, served.request.batch_size))

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Say which SUT answers, for clients that record the engine."""
        cell = self.served.request
        response.headers["Server"] = f"{_PROGRAM} ({cell.options.sut} {cell.precision})"

    async def start(self, _: web.Application) -> None:
        """Start the process that renders, because that takes longer than most first tokens."""
        if self.served.template:
            self.renderer.ask(self.served.template.job(()))

    async def end(self, _: web.Application) -> None:
        """End the process that renders."""
        self.renderer.end()

    async def health(self, request: web.Request) -> web.Response:
        """Whether requests are answered."""
        _, writer = await self._connected()
        writer.close()
        return web.json_response({"status": "ok"})

    async def models(self, request: web.Request) -> web.Response:
        """The one model."""
        name = self.served.model
        model = {"id": name, "object": "model", "created": 0, "owned_by": _PROGRAM}
        return web.json_response({"object": "list", "data": [model]})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Answer prompts, or score them."""
        body = protocol.read(await request.read(), self.served)
        prompts = protocol.prompts_of(body, self.tokenizer.encode)
        asked = protocol.completion(body, prompts, self.served)
        return await self._answered(request, asked)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer the messages of a chat."""
        body = protocol.read(await request.read(), self.served)
        asked = protocol.completion(body, (self._rendered(body),), self.served, chat=True)
        return await self._answered(request, asked)

    def _rendered(self, body: Body) -> tuple[int, ...]:
        """The ids of the messages."""
        template = self.served.template
        encode = self.tokenizer.encode_marked
        if template is None or encode is None:
            raise Refusal(400, self.served.no_template, code="no_chat_template")
        try:
            chat = messages.read(body.messages)
        except ValueError as e:
            raise protocol.bad("messages", str(e)) from None
        job = template.job([chat], body.chat_template_kwargs)
        try:
            answer = self.renderer.ask(job)
        except Stopped as e:
            answer = {"why": str(e)}
        if "why" in answer:
            why = f"the chat template cannot render them ({answer['why']})"
            raise protocol.bad("messages", why)
        return tuple(encode(answer["texts"][0]))

    async def _answered(self, request: web.Request, asked: Completion) -> web.StreamResponse:
        kind = "text_completion"
        if asked.chat:
            kind = "chat.completion.chunk" if asked.stream else "chat.completion"
        head = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": self.served.model,
        }
        if asked.stream:
            return await self._streamed(request, asked, head)
        choices: list[_Document] = [{"text": ""} for _ in asked.prompts]

        async def add(choice: _Document) -> None:
            text = choices[choice["index"]]["text"] + choice["text"]
            choices[choice["index"]] = {**choice, "text": text}

        usage = await self._answer(asked, add)
        if asked.chat:
            for choice in choices:
                choice["message"] = {"role": "assistant", "content": choice.pop("text")}
        return web.json_response({**head, "choices": choices, "usage": usage})

    async def _streamed(
        self, request: web.Request, asked: Completion, head: _Document
    ) -> web.StreamResponse:
        """Send each part of the answers as a server-sent event. The status is sent with the first
        one, so that an early refusal has its own.
        """
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )

        async def send(document: _Document) -> None:
            if not response.prepared:
                await response.prepare(request)
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
            await response.write(f"data: {text}\n\n".encode())

        async def send_choice(choice: _Document) -> None:
            if asked.chat:
                role = {} if response.prepared else {"role": "assistant"}
                choice["delta"] = {**role, "content": choice.pop("text")}
            await send({**head, "choices": [choice]})

        try:
            usage = await self._answer(asked, send_choice)
            if asked.usage:
                await send({**head, "choices": [], "usage": usage})
        except Refusal as e:
            if not response.prepared:
                raise
            await send({"error": e.error})
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _answer(
        self, asked: Completion, take: Callable[[_Document], Awaitable[None]]
    ) -> dict[str, int]:
        """Let the worker answer. Hand over each further part of an answer as OpenAI's `choice`.
        Return the numbers of tokens. A client that leaves ends this, and so the worker's request.
        """
        texts = [Text(self._decode, prompt, asked.stop) for prompt in asked.prompts]
        unfinished = set(range(len(texts)))
        new = 0
        async with self.turn:
            reader, writer = await self._connected()
            with closing(writer):
                document = {name: getattr(asked, name) for name in _SENT}
                writer.write(json.dumps(document).encode() + b"\n")
                while unfinished:
                    index, content, end = json.loads(await _line(reader))
                    if index not in unfinished:  # it ended at a stop text, before the worker knew
                        continue
                    if asked.top is None:
                        text = texts[index]
                        further = text.add(content, last=end is not None)
                        choice = _choice(index, further, "stop" if text.stopped else end, None)
                        new += len(content)
                    else:
                        choice = self._scored(asked, index, content)
                        new += asked.new
                    if choice["finish_reason"]:
                        unfinished.remove(index)
                    await take(choice)
        prompt = sum(map(len, asked.prompts))
        return {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}

    def _scored(self, asked: Completion, index: int, scores: Mapping[str, Any]) -> _Document:
        """A choice with OpenAI's `logprobs` of a prompt. With `max_tokens` 1 the likeliest next
        token is the answer. Each list has an entry a token. The first token has no score.
        """
        ids = list(asked.prompts[index])
        chosen = [None, *scores["chosen"]]
        if asked.new:
            next_ids, next_scores = scores["top"][-1]
            ids.append(next_ids[0])
            chosen.append(next_scores[0])
        tokens = [self._decode([i]) for i in ids]
        top: list[Any] = [None]
        for token, score, likeliest in zip(tokens[1:], chosen[1:], scores["top"], strict=False):
            names = [self._decode([i]) for i in likeliest[0][: asked.top]]
            top.append({token: score, **dict(zip(names, likeliest[1], strict=False))})
        logprobs = {
            "tokens": tokens,
            "token_logprobs": chosen,
            "top_logprobs": top,
            "text_offset": list(accumulate(map(len, tokens[:-1]), initial=0)),
        }
        return _choice(index, self._decode(ids), "length", logprobs)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the worker. Raises Refusal if there is no warm worker."""
        try:
            return await asyncio.open_unix_connection(self.socket, limit=_LONGEST_LINE)
        except OSError:
            why = "nothing is answered: the SUT is being loaded, or the server has just ended"
            raise Refusal(503, why, code="unavailable") from None

    def _decode(self, ids: Sequence[int]) -> str:
        """The text of any ids. A model may answer with ids that its tokenizer does not have."""
        return self.tokenizer.decode([i for i in ids if 0 <= i < self.tokenizer.vocabulary])


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line of the worker. Raises Refusal if the worker has ended."""
    try:
        line = await reader.readline()
    except ConnectionError:
        line = b""
    if not line:
        why = "the SUT has failed: the server prints the reason, and ends"
        raise Refusal(503, why, code="unavailable")
    return line


def _choice(index: int, text: str, reason: str | None, logprobs: _Document | None) -> _Document:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
