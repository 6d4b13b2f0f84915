"""The most memory of a process, with a watched call in it that takes far more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.worker.system import host_memory

MB = 10**6
ROOT = Path(__file__).parents[3]
HELD = """
import json, sys
from pathlib import Path
from scenarios.worker.system import host_memory

def hold(megabytes):
    return len(bytearray(b"1") * (megabytes * 10**6))

if sys.argv[1] == "no reset":
    host_memory._CLEAR_REFS = Path("/nowhere/clear_refs")
first = host_memory.peak_bytes()
hold(100)
with host_memory.watching():
    hold(400)
watched = host_memory.peak_bytes()
held = bytearray(b"1") * (200 * 10**6)
print(json.dumps([first, watched, host_memory.peak_bytes()]))
"""


def peaks(how):
    command = [sys.executable, "-c", HELD, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    first, watched, last = json.loads(done.stdout)
    return (watched - first) / MB, (last - first) / MB


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this system cannot begin anew"
)
def test_what_a_watched_call_takes_is_not_counted_and_what_follows_is():
    assert peaks("reset") == (pytest.approx(100, abs=20), pytest.approx(200, abs=20))


def test_where_the_system_cannot_begin_anew_it_is_the_most_until_the_watched_call_or_what_is_held():
    assert peaks("no reset") == (pytest.approx(100, abs=20), pytest.approx(200, abs=20))


def test_libraries_that_the_parent_of_a_fork_had_read_count(monkeypatch):
    before = host_memory.peak_bytes()
    of_files = host_memory.file_bytes()
    monkeypatch.setattr(host_memory._Peak, "inherited", of_files + (1 << 30))
    assert host_memory.peak_bytes() - before == pytest.approx(1 << 30, rel=0.05)
    monkeypatch.setattr(host_memory._Peak, "inherited", of_files // 2)
    assert host_memory.peak_bytes() == pytest.approx(before, rel=0.05)
