"""An engine behind the OpenAI protocol, which answers as it is told: well, or wrongly."""

import json
import threading
import time
import zlib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_S = 0.02
SHORT = 5
SLOTS = 2
ENDLESS_S = 0.01
KEY = "sk-secret"


class Engine(ThreadingHTTPServer):
    """`fault`: what happens to a request for an answer; empty: it is answered. It may be set while
    requests come in.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, tokenizer, fault="", takes_ids=True):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokenizer, self.fault, self.takes_ids = tokenizer, fault, takes_ids
        self.words = _words(tokenizer)
        self.requests = []
        self.keys = set()
        self.open = self.most_open = 0
        self.slots = threading.Semaphore(SLOTS)  # other requests wait
        self.lock = threading.Lock()
        self.more_tokens = 0
        self.pages = {}  # path → its text, in addition to the protocol
        self.after = -1  # the requests that are answered before the fault begins

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that ends is no fault of the test."""

    def answer(self, prompt, count):
        """The words of the answer; each is one token."""
        seed = zlib.crc32(json.dumps(prompt).encode())
        return [self.words[(seed + 7 * n) % len(self.words)] for n in range(count)]


def _words(tokenizer):
    """Texts that are one token each, also next to each other."""
    vocabulary = tokenizer.get_vocab()
    found = []
    for token, number in sorted(vocabulary.items()):
        text = tokenizer.decode([number])
        alone = tokenizer.encode(text, add_special_tokens=False).ids == [number]
        if token.startswith("Ġ") and len(token) > 1 and alone:
            found.append(text)
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/v1/models":
            self._json({"object": "list", "data": [{"id": "small"}]})
        elif self.path == "/version":
            self._json({"version": "1.2.3"})
        elif self.path in self.server.pages:
            self._send(self.server.pages[self.path].encode())
        else:
            self._json({"error": "not found"}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        engine = self.server
        with engine.lock:
            engine.requests.append(body)
            engine.keys.add(self.headers.get("Authorization", ""))
            engine.open += 1
            engine.most_open = max(engine.most_open, engine.open)
            fault = engine.fault if engine.after < 0 or len(engine.requests) > engine.after else ""
        try:
            self._answer(body, fault)
        finally:
            with engine.lock:
                engine.open -= 1

    def _answer(self, body, fault):
        engine = self.server
        prompt = body.get("prompt", body.get("messages"))
        if fault == "short":
            body["max_tokens"] = min(body["max_tokens"], SHORT)
        if isinstance(prompt, list) and "prompt" in body and not engine.takes_ids:
            self._json({"detail": "prompt must be a string."}, 400)
        elif fault == "500":
            self._json({"error": f"no memory left, and the key is {KEY}"}, 500)
        elif fault == "silence":
            time.sleep(60)
        elif fault == "garbage":
            self._send(b"<html>hello</html>")
        elif fault == "no choices":
            self._json({"object": "text_completion"})
        elif fault == "half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [{"te')
            self.close_connection = True
        elif fault == "closed":
            self.close_connection = True
        else:
            with engine.slots:
                if body.get("stream"):
                    self._stream(body, prompt, fault)
                else:
                    self._whole(body, prompt)

    def _whole(self, body, prompt):
        time.sleep(ANSWER_S)
        words = self.server.answer(prompt, body["max_tokens"])
        text = "".join(words)
        message = {"role": "assistant", "content": text, "tool_calls": None, "reasoning": None}
        choice = {"text": text, "message": message}
        choice["finish_reason"] = "length"
        usage = self._usage(prompt, len(words))
        self._json({"choices": [choice], "usage": usage, "error": None})

    def _usage(self, prompt, count):
        length = len(prompt)
        if isinstance(prompt, str):
            length = len(self.server.tokenizer.encode(prompt).ids)
        return {"prompt_tokens": length, "completion_tokens": count + self.server.more_tokens}

    def _stream(self, body, prompt, fault):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        words = self.server.answer(prompt, body["max_tokens"])
        self._event({"choices": [{"delta": {"role": "assistant"}, "text": ""}]})
        self._event({"choices": [{"delta": None, "text": None, "finish_reason": None}]})
        if fault == "one part":
            time.sleep(ANSWER_S)
            words = ["".join(words)]
        for number, word in enumerate(words):
            time.sleep(ANSWER_S / len(words))
            key = "content"
            if fault == "reasoning" and number < len(words) - 1:
                key = "reasoning_content"
            self._event({"choices": [{"text": word, "delta": {key: word}}], "error": None})
            if fault == "early end" and number == 0:
                return
        while fault == "endless":
            time.sleep(ENDLESS_S)
            self._event({"choices": [{"text": words[0], "delta": {"content": words[0]}}]})
        self._event({"choices": [{"text": "", "delta": {}, "finish_reason": "length"}]})
        self._event({"choices": None, "usage": self._usage(prompt, body["max_tokens"])})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, document):
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.flush()

    def _json(self, document, status=200):
        self._send(json.dumps(document).encode(), status)

    def _send(self, content, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self):
        return "fake/1"

    def log_message(self, format, *args):
        """Keep the terminal quiet."""


@contextmanager
def running(tokenizer, fault="", **settings):
    """An engine that answers in threads of this process."""
    with Engine(tokenizer, fault, **settings) as engine:
        thread = threading.Thread(target=engine.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield engine
        finally:
            engine.shutdown()
