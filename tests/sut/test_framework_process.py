"""Tasks share a process that has imported the framework, and nothing else."""

import sys
from pathlib import Path

import pytest

from tests.support.files import read_json
from tests.support.frameworks import run_module

SUT = "mock"


@pytest.fixture
def run(tmp_path):
    """Action → what the task reports, from the process of the mock SUT."""

    def task(action="report"):
        file = tmp_path / "spec.json"
        run_module(Path(sys.executable), "tests.sut.task", SUT, file, action)
        return read_json(file)

    return task


def test_tasks_run_in_forks_of_one_process_and_see_nothing_of_each_other(run):
    one, other = run(), run()
    assert one["parent"] == other["parent"]
    assert one["process"] != other["process"]
    assert not other["mark"]


@pytest.mark.parametrize(("action", "words"), [("raise", "words of the error"), ("end", "code -6")])
def test_a_task_that_fails_does_so_with_its_words_and_the_next_one_runs(run, action, words):
    parent = run()["parent"]
    with pytest.raises(AssertionError, match=words):
        run(action)
    assert run()["parent"] == parent


def test_a_process_that_has_ended_is_started_again(run):
    parent = run()["parent"]
    with pytest.raises(AssertionError, match="has ended"):
        run("end the parent")
    assert run()["parent"] != parent
