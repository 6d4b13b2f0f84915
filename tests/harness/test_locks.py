"""The locks: of one machine, for every user, and for what somebody put in their place."""

import os
import stat

import pytest

from harness import locks


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / "keras-mlperf-harness.lock"


def test_the_machines_lock_may_be_taken_by_every_user_whatever_the_first_ones_umask(path):
    before = os.umask(0o077)
    try:
        with locks.machine(lambda text: pytest.fail(text)):
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
    with locks.machine(said.append):
        assert len(said) == 1 and said[0].startswith(
            "this command does not wait for cells of other commands, because the lock "
        )
    assert not path.with_name("elsewhere").exists()


def test_a_lock_that_is_held_is_refused_or_waited_for(tmp_path):
    with locks.held(tmp_path / "lock"), pytest.raises(locks.Taken), locks.held(tmp_path / "lock"):
        pytest.fail("two hold it")
