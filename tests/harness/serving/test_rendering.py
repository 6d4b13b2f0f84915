"""Chats of a server are rendered in one process that stays."""

from __future__ import annotations

import asyncio

import pytest

from harness.inputs.chat import Template
from harness.serving import rendering
from harness.serving.protocol import Refusal
from harness.serving.rendering import Renderer

_TEMPLATE = """{%- if messages[0].content == 'loop' -%}
{%- for a in range(99999) -%}{%- for b in range(99999) -%}{%- endfor -%}{%- endfor -%}
{%- elif messages[0].content == 'raise' -%}{{ raise_exception('no') }}
{%- else -%}{{ mark }}{{ messages[0].content }}{%- endif -%}"""


def said(content):
    return [{"role": "user", "content": content}]


async def _refused(renderer, content):
    with pytest.raises(Refusal) as found:
        await renderer.text(said(content))
    assert found.value.status == 400
    return str(found.value)


def test_one_process_renders_all_and_a_template_that_loops_is_stopped(monkeypatch):
    monkeypatch.setattr(rendering.chat, "SECONDS", 0)

    async def run():
        renderer = Renderer(Template(_TEMPLATE, {"mark": "<s>"}))
        assert await renderer.text(said("hi")) == "<s>hi"
        process = renderer._process.pid
        assert "cannot render them (TemplateError: no)" in await _refused(renderer, "raise")
        texts = await asyncio.gather(*(renderer.text(said(f"{n}ü")) for n in range(9)))
        assert texts == [f"<s>{n}ü" for n in range(9)]
        assert renderer._process.pid == process
        assert "was stopped" in await _refused(renderer, "loop")
        assert await renderer.text(said("again")) == "<s>again"
        await renderer.close()
        assert renderer._process is None

    asyncio.run(run())


def test_who_leaves_does_not_change_the_next_ones_text():
    async def run():
        renderer = Renderer(Template(_TEMPLATE, {}))
        leaving = asyncio.create_task(renderer.text(said("loop")))
        await asyncio.sleep(0.3)
        leaving.cancel()
        assert await renderer.text(said("next")) == "next"
        await renderer.close()

    asyncio.run(run())
