"""The port of a server, its answers before the SUT is ready, and its chat template."""

import http.client
import json
from types import SimpleNamespace

import pytest
from aiohttp import web

from harness.errors import UsageError
from harness.request import options
from harness.serving import preparation
from harness.serving.handlers import application
from harness.serving.server import answering
from tests.conftest import CACHE


def test_a_port_is_taken_at_once():
    with answering(web.Application(), "127.0.0.1", 0) as port:
        with pytest.raises(UsageError, match=f"--port {port}: cannot be used .*already in use"):
            with answering(web.Application(), "127.0.0.1", port):
                pass


def test_nothing_is_answered_before_the_sut_is_ready(tmp_path):
    words = ("--sut", "mock", "--scenario", "Offline", "--model", "mistral", "--cache", str(CACHE))
    served = preparation.plan(options.parse(words), None, None, 0)
    body = json.dumps({"model": "mistral-tiny", "prompt": "a"})
    with answering(application(served, tmp_path / "none"), "127.0.0.1", 0) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for method, path, text in (("GET", "/health", None), ("POST", "/v1/completions", body)):
            connection.request(method, path, text)
            response = connection.getresponse()
            document = json.loads(response.read())
            assert (response.status, document["error"]["code"]) == (503, "unavailable"), document
        connection.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "mine has no chat template (a chat_template.jinja in the folder"),
        ("{% broken", "the chat template cannot render it (TemplateSyntaxError: "),
        ("{{ raise_exception('no') }}", "the chat template cannot render it (TemplateError: no)"),
    ],
)
def test_a_template_that_fails_is_found_before_requests_come(tmp_path, text, why):
    if text:
        (tmp_path / "chat_template.jinja").write_text(text)
    request = SimpleNamespace(weights=SimpleNamespace(path=tmp_path))
    template, reason = preparation._template(request, SimpleNamespace(encode_marked=len), "mine")
    assert (template, why in reason) == (None, True), reason
