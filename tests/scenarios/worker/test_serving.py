"""The worker behind `./run.sh serve`: batches, answers that are not streamed, and those that nobody
waits for.
"""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest

from scenarios.worker import serving
from scenarios.worker.batching import Batcher, Policy
from scenarios.worker.heartbeat import Heartbeat
from sut.mock import Mock
from tests.support import mock_job

_SETTINGS = {"max_wait_ms": 50.0, "max_queue": 8, "shapes": [[2, 6]], "scores": []}


class Whole:
    """The mock without `stream`, which keeps the batches that it got."""

    in_flight = 1

    def __init__(self, workload):
        self.mock = Mock(workload)
        self.batches = []

    def prepare(self, inputs):
        return inputs

    def predict(self, batch):
        self.batches.append(batch)
        return self.mock.predict(batch)

    def to_host(self, outputs):
        return self.mock.to_host(outputs)

    def synchronise(self):
        pass


class Peer:
    """The parent's side of the socket. The procedure runs in a thread."""

    def __init__(self, sut, job):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(serving.SOCKET)
            listener.listen()
            self.error = None
            self.thread = threading.Thread(target=self._serve, args=(sut, job))
            self.thread.start()
            self.connection, _ = listener.accept()
        self.lines = self.connection.makefile("r")
        self.send(**_SETTINGS)

    def _serve(self, sut, job):
        try:
            serving.serve(job, sut, Heartbeat(job.log_dir / "heartbeat"), 0)
        except Exception as e:  # noqa: BLE001
            self.error = e

    def send(self, **document):
        self.connection.sendall(json.dumps(document).encode() + b"\n")

    def receive(self):
        return json.loads(self.lines.readline())

    def end(self):
        """Close the socket. → the error of the procedure."""
        self.connection.shutdown(socket.SHUT_WR)
        self.thread.join(30)
        self.lines.close()
        self.connection.close()
        return self.error


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return replace(mock_job.make(tmp_path / "job", task="generate"), batch_sizes=(1, 2, 4))


def test_whole_answers_come_in_batches_of_the_policy(job):
    sut = Whole(job.workload)
    peer = Peer(sut, job)
    assert peer.receive() == {"ready": {"streams": False}}
    prompts = ([5, 6], [7, 8, 9], [4])
    for number, ids in enumerate(prompts):
        peer.send(id=number, ids=ids, new=number + 1)
    rows = peer.receive()["rows"]
    assert peer.end() is None
    _, batch = sut.batches
    assert batch["input_ids"].tolist()[:3] == [
        [5, 6, 0, 0, 0, 0],
        [7, 8, 9, 0, 0, 0],
        [4, 0, 0, 0, 0, 0],
    ]
    assert len(batch["input_ids"]) == 4
    for number, (ids, row) in enumerate(zip(prompts, rows, strict=True)):
        alone = {
            "input_ids": np.array([ids], np.int32),
            "prompt_length": np.array([len(ids)], np.int32),
            "max_new_tokens": np.array([number + 1], np.int32),
        }
        expected = sut.mock.to_host(sut.mock.predict(alone))["tokens"][0, : number + 1]
        assert row == [number, expected.tolist(), "length"]


def test_an_end_token_ends_an_answer(job):
    sut = Mock(job.workload)
    prompt = {"input_ids": np.array([[5]], np.int32), "prompt_length": np.array([1], np.int32)}
    answer = sut.to_host(sut.predict(prompt | {"max_new_tokens": np.array([4], np.int32)}))
    tokens = answer["tokens"][0].tolist()
    job.workload.config["end_tokens"] = [tokens[1]]
    peer = Peer(Mock(job.workload), job)
    peer.receive()
    peer.send(id=1, ids=[5], new=4)
    received = [peer.receive()["rows"], peer.receive()["rows"]]
    assert received == [[[1, tokens[:1], None]], [[1, tokens[1:2], "stop"]]]
    assert peer.end() is None


def test_an_error_of_the_sut_ends_the_procedure(job):
    job.workload.options["raise-at"] = 1
    peer = Peer(Mock(job.workload), job)
    peer.receive()
    peer.send(id=1, ids=[5], new=4)
    assert peer.lines.readline() == ""
    assert str(peer.end()) == "told to raise at batch 1"


def test_a_request_that_waits_can_be_withdrawn():
    begun, go_on = threading.Event(), threading.Event()
    answered = []

    def answer(batch):
        answered.extend(batch)
        begun.set()
        go_on.wait(30)

    batcher = Batcher(answer, Policy((1,), most_waiting=1))
    work = threading.Thread(target=batcher.work)
    work.start()
    batcher.put("a")
    begun.wait(30)
    batcher.put("b")
    assert batcher.withdraw("b")
    assert not batcher.withdraw("a")
    batcher.put("c")
    go_on.set()
    batcher.drain()
    batcher.close()
    work.join(30)
    assert answered == ["a", "c"]
