"""Peers take turns: a peer whose turn it is not stands still, and one that has ended says so."""

import signal
import sys
import time
from pathlib import Path

import pytest

from studies.turns import Peer


def processor_s(peer):
    """Seconds of processor time of the peer's process so far, of all its threads."""
    threads = Path(f"/proc/{peer.process.pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


@pytest.fixture
def peer(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    one = Peer(tmp_path / "spec.json", Path(sys.executable), {}, "tests.support.restless_peer")
    yield one
    one.close()


def test_a_peer_uses_no_processor_time_before_and_after_its_turn(peer):
    for seconds in (0.25, 0.5):
        before = processor_s(peer)
        time.sleep(0.3)
        assert processor_s(peer) == before
        assert peer.turn(seconds) == seconds


def test_a_peer_waits_as_the_framework_does_by_default(peer):
    assert peer.turn(0.125) == 0.125  # the answer is OMP_WAIT_POLICY where that is set


def test_a_stopped_peer_ends_when_it_is_closed(peer):
    peer.close()
    assert peer.process.returncode == 0


@pytest.mark.parametrize("closed", [True, False])
def test_a_peer_that_was_killed_between_its_turns_is_reported(peer, closed):
    peer.process.send_signal(signal.SIGKILL)
    if closed:
        peer.process.wait()
    with pytest.raises(RuntimeError, match="ended with -9"):
        peer.turn(0.1)


def test_a_peer_that_ends_within_its_turn_is_reported(peer):
    with pytest.raises(RuntimeError, match="ended with 3"):
        peer.layers(0.1)
