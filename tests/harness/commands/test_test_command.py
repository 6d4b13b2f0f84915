"""`./run.sh test`: each process of tests decides its exit code."""

import pytest

from harness.commands import test as command
from tests.support.files import program


@pytest.fixture
def pytest_that(tmp_path, monkeypatch):
    """(words, code): a stand-in for pytest that ends with `code` if its folder of temporary files
    and its arguments hold the words.
    """
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command.environments, "make", lambda *_: None)
    monkeypatch.setenv("TMPDIR", "/first")
    python = tmp_path / ".cache/environments/dev/bin/python"

    def fails(words, code):
        program(python, f'case "$TMPDIR $*" in *{words}*) exit {code};; esac')

    return fails


@pytest.mark.parametrize(
    ("words", "code"), [('"/first -P"', 1), ('"/1 -P"', 2), ('"/2 -P"', 3), ('"no such words"', 0)]
)
def test_each_process_that_fails_fails_the_command(pytest_that, words, code):
    pytest_that(words, code)
    assert command.main([]) == code


@pytest.mark.parametrize("process", ["/first", "/1", "/2"])
def test_each_process_gets_all_and_durations(pytest_that, process):
    pytest_that(f'"{process} -P -m pytest --all --durations=10 --share="', 1)
    assert command.main(["--all", "--durations=10"]) == 1


def test_arguments_are_those_of_pytest(pytest_that):
    pytest_that('"pytest -k hang"', 5)
    assert command.main(["-k", "hang"]) == 5
