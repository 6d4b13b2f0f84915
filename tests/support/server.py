"""A running `./run.sh serve`, and requests to it."""

import http.client
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

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

    def __init__(self, process):
        self.process = process
        self._connections = []
        assert process.stdout
        self.text = ""
        while "Ctrl-C" not in self.text:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(self.text + process.communicate()[1])
            self.text += line
        self.port = int(re.search(r"http://127.0.0.1:(\d+)/v1", self.text)[1])
        self.model = self.text.partition(" on ")[0]

    def connection(self):
        """A connection that `close` closes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_WAIT_S)
        self._connections.append(connection)
        return connection

    def close(self):
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def begin(self, path, body):
        """Send a request, and do not wait for its answer."""
        connection = self.connection()
        if not isinstance(body, bytes):
            body = json.dumps({"model": self.model, **body}).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        return connection

    def post(self, path, body):
        """→ the status and the document."""
        response = self.begin(path, body).getresponse()
        return response.status, json.loads(response.read())

    def get(self, path):
        """→ the status and the document."""
        connection = self.connection()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def complete(self, prompt, **body):
        """→ the document of a completion, which must succeed."""
        status, document = self.post("/v1/completions", {"prompt": prompt, **body})
        assert status == 200, document
        return document

    def worker(self):
        """The process of the SUT."""
        (worker,) = psutil.Process(self.process.pid).children()
        return worker

    def end(self, number):
        """Send a signal. → the exit code, further standard output, and standard error."""
        self.process.send_signal(number)
        out, error = self.process.communicate(timeout=_WAIT_S)
        return self.process.returncode, out, error


def events(response):
    """The documents of a stream, which must be complete."""
    lines = [line for line in response.read().decode().split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def command(*flags):
    """The command of a server at any free port."""
    words = ["serve", "--port", "0", "--cache", CACHE, *flags]
    return [sys.executable, "-P", "-m", "harness", *map(str, words)]


@contextmanager
def running(folder, *flags):
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
