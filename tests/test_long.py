"""Tests that are marked `long` run if they are requested; processes share tests."""

import pytest

from harness.execution.environments import ROOT

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester, monkeypatch):
    """Arguments → (names of the tests that ran, the last lines)."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (pytester.path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    pytester.makefile(".ini", pytest="[pytest]\nmarkers = long")
    pytester.makepyfile(
        test_some="""
        import pytest
        def test_short(): pass
        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.long
        def test_long(n): pass
        """
    )

    def names(*arguments):
        result = pytester.runpytest_subprocess("-v", *arguments)
        lines = [line.partition("::")[2] for line in result.outlines if " PASSED" in line]
        return [line.split()[0] for line in lines], result.outlines

    return names


SHORT, FIRST, SECOND = "test_short", "test_long[1]", "test_long[2]"


def test_the_parts_together_have_all(run):
    first, second = (run(f"--part={number}/2")[0] for number in (3, 4))
    assert sorted([*first, *second]) == sorted([SHORT, SHORT, FIRST, SECOND])


def test_without_a_request_they_are_left_out_and_counted(run):
    names, lines = run()
    assert names == [SHORT]
    assert "2 long tests were left out; `./run.sh test --all` runs them" in lines


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all"], [SHORT, FIRST, SECOND]),
        (["--all", "-k", "long"], [FIRST, SECOND]),
        (["-m", "long"], [FIRST, SECOND]),
        (["test_some.py::test_long"], [FIRST, SECOND]),
        (["test_some.py::test_long[2]"], [SECOND]),
        (["test_some.py", "-k", "long"], []),
    ],
)
def test_they_run_if_all_or_their_mark_or_their_id_is_requested(run, arguments, expected):
    assert run(*arguments)[0] == expected


def test_processes_share_the_files_and_the_first_begins_at_the_end(run, pytester):
    pytester.makepyfile(test_more="def test_more(): pass")
    share = f"--share={pytester.mkdir('share')}"
    assert run(share)[0] == [SHORT, "test_more"]
    assert run(share)[0] == []
