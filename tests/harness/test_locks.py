"""The locks: of one machine, for every user, and for what somebody put in their place."""

import os
import re
import stat
import threading

import pytest

from harness import locks
from tests.support.commands import until


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / "keras-mlperf-harness.lock"


def test_the_machines_lock_may_be_taken_by_every_user_whatever_the_first_ones_umask(path):
    before = os.umask(0o077)
    try:
        with locks.machine(lambda text: pytest.fail(text), "./run.sh"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)


def _link(path):
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    "put", [_link, os.mkfifo, lambda path: path.mkdir()], ids=["a link", "a pipe", "a folder"]
)
def test_what_is_no_lock_is_told_and_nothing_waits_for_it(path, put):
    put(path)
    said = []
    with locks.machine(said.append, "./run.sh"):
        assert len(said) == 1 and said[0].startswith(
            "this command does not wait for cells of other commands, because the lock "
        )
    assert not path.with_name("elsewhere").exists()


def test_a_lock_that_is_held_is_refused_or_waited_for(tmp_path):
    with locks.held(tmp_path / "lock"), pytest.raises(locks.Taken), locks.held(tmp_path / "lock"):
        pytest.fail("two hold it")


def _second(said, done):
    with locks.machine(said.append, "./run.sh second"):
        done.append("second")


def _waited_for(first, done, change=lambda: None, **told):
    """What a second command says while this first one holds the lock; and its thread."""
    said = []
    with locks.machine(pytest.fail, first, **told):
        change()
        waiting = threading.Thread(target=_second, args=(said, done))
        waiting.start()
        until(lambda: said)
    return said, waiting


def test_who_waits_is_told_the_command_since_when_and_how_long(path):
    done = []
    said, waiting = _waited_for("./run.sh first", done, seconds=600)
    waiting.join(10)
    assert done == ["second"]
    assert re.search(r"each other: ./run.sh first, since [\d:]+; about 10 min more$", said[0])


def test_a_sweep_lets_another_command_go_first_between_its_cells(path):
    done = []
    _, waiting = _waited_for("./run.sh sweep", done)
    with locks.machine(lambda text: None, "./run.sh sweep"):
        done.append("sweep")
    waiting.join(10)
    assert done == ["second", "sweep"]


@pytest.mark.parametrize("text", ["", "{", '{"command": 1, "since": 1e400, "seconds": 0}', "\0\0"])
def test_a_lock_with_other_content_is_waited_for_all_the_same(path, text):
    done = []
    said, waiting = _waited_for("./run.sh first", done, lambda: path.write_text(text))
    waiting.join(10)
    assert done == ["second"] and said[0].startswith("waiting: another cell")
