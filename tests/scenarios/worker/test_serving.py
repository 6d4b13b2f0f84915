"""The worker behind `./run.sh serve`: batches, answers that are not streamed, and how it ends."""

import json
import socket
import threading
import time

import numpy as np
import pytest

from formats.job import Serving
from scenarios.worker import serving
from scenarios.worker.heartbeat import Heartbeat
from sut.mock import Mock
from tests.support import mock_job

_PROMPTS = ([5, 6], [7, 8, 9], [4])


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


class Ended(Exception):
    """The SUT's error that ends the procedure."""


class Peer:
    """The parent's side of the socket. The procedure runs in a thread."""

    def __init__(self, sut, job):
        self.sut = sut
        self.error = None
        self.clients = []
        self.thread = threading.Thread(target=self._serve, args=(job,))
        self.thread.start()

    def _serve(self, job):
        try:
            serving.serve(job, self.sut, Heartbeat(job.log_dir / "heartbeat"), 0)
        except Exception as e:  # noqa: BLE001
            self.error = e

    def ask(self, prompts, **document):
        """Send a request. → the lines of its answer."""
        client = socket.socket(socket.AF_UNIX)
        self.clients.append(client)
        for _ in range(300):
            try:
                client.connect(serving.SOCKET)
                break
            except OSError:
                time.sleep(0.1)
        client.sendall(json.dumps({"prompts": prompts, **document}).encode() + b"\n")
        return map(json.loads, client.makefile("r"))

    def end(self):
        """Let the SUT fail. → the error of the procedure."""

        def prepare(inputs):
            raise Ended

        self.sut.prepare = prepare
        self.ask([[5]], new=1)
        self.thread.join(30)
        for client in self.clients:
            client.close()
        return self.error


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = Serving(max_wait_ms=0, percentile=100)
    made = mock_job.make(tmp_path / "job", task="generate")
    return mock_job.changed(made, policy, batch_sizes=(1, 2, 4))


def own_answer(job, ids, new):
    """The tokens that the mock generates."""
    mock = Mock(job.workload)
    batch = {
        "input_ids": np.array([ids], np.int32),
        "prompt_length": np.array([len(ids)], np.int32),
        "max_new_tokens": np.array([new], np.int32),
    }
    return mock.to_host(mock.predict(batch))["tokens"][0, :new].tolist()


def test_whole_answers_come_in_batches_of_the_policy(job):
    waiting = mock_job.changed(job, Serving(max_wait_ms=1000, percentile=100))
    peer = Peer(Whole(job.workload), waiting)
    replies = peer.ask(_PROMPTS, new=3)
    rows = [next(replies) for _ in _PROMPTS]
    assert rows == [[n, own_answer(job, ids, 3), "length"] for n, ids in enumerate(_PROMPTS)]
    warm_up, batch = peer.sut.batches
    assert len(warm_up["input_ids"]) == 4
    assert batch["input_ids"].tolist()[:3] == [
        [5, 6, 0, 0, 0, 0],
        [7, 8, 9, 0, 0, 0],
        [4, 0, 0, 0, 0, 0],
    ]
    assert len(batch["input_ids"]) == 4
    assert isinstance(peer.end(), Ended)


@pytest.mark.parametrize("kind", [Mock, Whole])
def test_an_end_token_ends_an_answer_of_a_request_that_names_it(job, kind):
    peer = Peer(kind(job.workload), job)
    first, second, *_ = tokens = own_answer(job, [5], 4)
    for ends, answer, end in (([second], [first, second], "stop"), ([], tokens, "length")):
        rows = []
        for row in peer.ask([[5]], new=4, ends=ends):
            rows.append(row)
            if row[2]:
                break
        assert sum((row[1] for row in rows), []) == answer
        assert rows[-1][2] == end
        assert len(rows) == (1 if kind is Whole else len(answer))
    assert isinstance(peer.end(), Ended)


def test_an_error_of_the_sut_ends_the_procedure(job):
    job.workload.options["raise-at"] = 1
    peer = Peer(Mock(job.workload), job)
    replies = peer.ask([[5]], new=4)
    peer.thread.join(30)
    assert str(peer.error) == "told to raise at batch 1"
    peer.clients[0].shutdown(socket.SHUT_RDWR)
    assert list(replies) == []
    peer.clients[0].close()
