"""`./run.sh test`: both groups of tests decide its exit code."""

import pytest

from harness.commands import test as command


@pytest.fixture
def pytest_that(tmp_path, monkeypatch):
    """(words, code): a stand-in for pytest that ends with `code` where its arguments hold the
    words.
    """
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.environments, "make", lambda *_: None)
    python = tmp_path / ".cache/environments/dev/bin/python"
    python.parent.mkdir(parents=True)

    def fails(words, code):
        python.write_text(f'#!/bin/sh\ncase "$*" in *{words}*) exit {code};; esac\n')
        python.chmod(0o755)

    return fails


@pytest.mark.parametrize(
    ("words", "code"), [("--ignore", 1), ("pytest tests/broken", 2), ("no such words", 0)]
)
def test_either_group_that_fails_fails_the_command(pytest_that, words, code):
    pytest_that(f'"{words}"', code)
    assert command.main([]) == code


@pytest.mark.parametrize("group", ["--ignore", "tests/broken"])
def test_each_group_gets_all_and_durations(pytest_that, group):
    pytest_that(f'"pytest --all --durations=10 {group}"', 1)
    assert command.main(["--all", "--durations=10"]) == 1


def test_arguments_are_those_of_pytest(pytest_that):
    pytest_that('"-k hang"', 5)
    assert command.main(["-k", "hang"]) == 5
