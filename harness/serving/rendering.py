"""Renders the chats of a server in one process that stays, because starting it takes longer than
most answers' first token.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from harness.inputs import chat, chat_render
from harness.inputs.chat import Template
from harness.serving.protocol import Refusal


class Renderer:
    """A chat template in a process with limits of time and memory."""

    def __init__(self, template: Template):
        self._template = template
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def text(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The text of a conversation, up to where the answer begins. Raises Refusal if the template
        fails, loops, or takes too much memory.
        """
        async with self._turn:
            try:
                line = await self._ask(messages)
            except BaseException:  # the answer would be taken for that of the next conversation
                await self._end()
                raise
            if not line:
                await self._end()
                raise Refusal(
                    400,
                    f"messages: the chat template was stopped: it needs more than {chat.SECONDS} s,"
                    " or too much memory",
                    param="messages",
                )
        answer = json.loads(line)
        if "why" in answer:
            why = f"messages: the chat template cannot render them ({answer['why']})"
            raise Refusal(400, why, param="messages")
        return str(answer["text"])

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._end()

    async def _ask(self, messages: Sequence[Mapping[str, str]]) -> bytes:
        """The process's line for these messages; empty if it has been stopped."""
        process = self._process or await self._start()
        assert process.stdin and process.stdout
        with suppress(ConnectionError):
            process.stdin.write(json.dumps(messages).encode() + b"\n")
            await process.stdin.drain()
        return await process.stdout.readline()

    async def _start(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            chat_render.__file__,
            chat_render.LINES,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the whole terminal
            limit=chat_render.MEMORY_BYTES,
        )
        assert self._process.stdin
        job = {
            "text": self._template.text,
            "variables": self._template.variables,
            "seconds": chat.SECONDS,
        }
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        return self._process

    async def _end(self) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._process = None
