"""A running `./run.sh serve`, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from harness.execution.environments import ROOT
from tests.conftest import CACHE

_WAIT_S = 120


class Server:
    """The process of a server that answers requests.

    Attributes:
        model: the name of the model.
        text: the lines that it printed when it was ready.
    """

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process
        self._connections: list[http.client.HTTPConnection] = []
        assert process.stdout
        self.text = ""
        while "Ctrl-C" not in self.text:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(self.text + process.communicate()[1])
            self.text += line
        self.port = int(re.search(r"http://127.0.0.1:(\d+)/v1", self.text)[1])
        self.model = self.text.partition(" on ")[0]

    def connection(self) -> http.client.HTTPConnection:
        """A connection that `close` closes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT_S)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def begin(self, path: str, body: Any) -> http.client.HTTPConnection:
        """Send a request, and do not wait for its answer."""
        connection = self.connection()
        if not isinstance(body, bytes):
            body = json.dumps({"model": self.model, **body}).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        return connection

    def post(self, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """→ the status and the document."""
        response = self.begin(path, body).getresponse()
        return response.status, json.loads(response.read())

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """→ the status and the document."""
        connection = self.connection()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def complete(self, prompt: Any, **body: Any) -> dict[str, Any]:
        """→ the document of a completion, which must succeed."""
        status, document = self.post("/v1/completions", {"prompt": prompt, **body})
        assert status == 200, document
        return document

    def worker(self) -> psutil.Process:
        """The process of the SUT."""
        (worker,) = psutil.Process(self.process.pid).children()
        return worker

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal. → the exit code, further standard output, and standard error."""
        self.process.send_signal(number)
        out, error = self.process.communicate(timeout=_WAIT_S)
        return self.process.returncode, out, error


def events(response: http.client.HTTPResponse) -> list[dict[str, Any]]:
    """The documents of a stream, which must be complete."""
    lines = [line for line in response.read().decode().split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def command(*flags: object) -> list[str]:
    """The command of a server at any free port."""
    words = ["serve", "--port", "0", "--cache", CACHE, *flags]
    return [sys.executable, "-P", "-m", "harness", *map(str, words)]


@contextmanager
def running(folder: Path, *flags: object) -> Iterator[Server]:
    """A server whose temporary files are in `folder`. It is ended if it still runs."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    with subprocess.Popen(
        command(*flags), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        server = None
        try:
            server = Server(process)
            yield server
        finally:
            if server:
                server.close()
            process.terminate()
            process.communicate(timeout=_WAIT_S)
