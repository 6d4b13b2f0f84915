"""The order in which replicas get batches is that of a search through all of them."""

import random
from types import SimpleNamespace

import pytest

from scenarios.worker.replicas.turns import Turns


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_next_replica_is_the_first_of_all_by_batches_and_by_waiting(at_once):
    rng = random.Random(at_once)
    replicas = [SimpleNamespace(number=n, requests={}, since_ns=0) for n in range(7)]
    turns = Turns(replicas)
    turns.begin(at_once)

    def key(replica):
        count = len(replica.requests)
        return count // at_once, count % at_once == 0, replica.since_ns, replica.number

    for step in range(2000):
        assert turns.next() == min(replicas, key=key).number
        replica = rng.choice(replicas)
        if replica.requests and rng.random() < 0.5:
            replica.requests.popitem()
            replica.since_ns = step
        else:
            replica.requests[step] = None
        turns.note(replica)
    assert len(turns._heap) <= 8 * len(replicas)
