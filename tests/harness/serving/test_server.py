"""The port of a server, and its answers before the SUT is ready."""

from __future__ import annotations

import http.client
import json
import tempfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.inputs import tokenizer
from harness.serving import server
from harness.serving.handlers import Settings
from harness.serving.protocol import Limits

_LIMITS = Limits(
    model="any", vocabulary=300, prompt_tokens=8, new_tokens=8, ends=False, scores=False
)


def test_a_port_is_taken_at_once():
    with server.bind("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}: cannot be used .*already in use"):
            server.bind("127.0.0.1", port)


def test_nothing_is_answered_before_the_sut_is_ready():
    settings = Settings(
        limits=_LIMITS,
        tokenizer=tokenizer.of_bytes(closing=False),
        template=None,
        no_template="",
        timeout_s=9.0,
        max_request_bytes=999,
        worker={},
        sut="mock",
    )
    bound = server.bind("127.0.0.1", 0)
    port = bound.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        service = server.Service(settings, bound, Path(folder) / "socket", lambda ready: None)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"model": "any", "prompt": "a"})
        for method, path, text in (("GET", "/health", None), ("POST", "/v1/completions", body)):
            connection.request(method, path, text)
            response = connection.getresponse()
            document = json.loads(response.read())
            assert (response.status, document["error"]["code"]) == (503, "loading")
        connection.close()
        service.end("the test is over")
        service.check()
    assert (service.serving, dict(service.counts.requests)) == (False, {503: 1})
