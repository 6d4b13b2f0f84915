"""The overhead benchmark runs and prints rows of figures; how large they are is for a quiet machine
to say.
"""

import argparse
import re

import pytest

from benchmarks import overhead

MOCK = overhead._TURNS[0][1].split()
FIGURE = r"-?[\d,]+\.\d+(?: µs|/s)? \[-?[\d,]+\.\d+, -?[\d,]+\.\d+\]"


@pytest.mark.parametrize(("scenario", "batch"), [("SingleStream", 1), ("Offline", 32)])
def test_the_cost_over_loadgen_alone_is_a_row_of_figures(tmp_path, monkeypatch, scenario, batch):
    monkeypatch.setitem(overhead._QUERIES, scenario, 2000)
    row = overhead._cost_row(tmp_path / "row", scenario, batch, rounds=2)
    assert len(re.findall(FIGURE, row)) == 3, row


@pytest.mark.long
def test_the_ratio_to_a_bare_loop_is_near_one_where_the_work_is_long(tmp_path):
    name, words, goal = overhead._TURNS[0]
    row = overhead._ratio_row(
        tmp_path / "row", words.split(), name, goal, argparse.Namespace(rounds=1, seconds=0.5)
    )
    assert len(re.findall(FIGURE, row)) == 4, row


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (("--sut", "nothing"), "not measured: error"),
        ((*MOCK, "--sut-option", "wrong=zero-position"), "not measured: invalid"),
    ],
)
def test_a_cell_that_does_not_run_is_said_in_its_row(tmp_path, cell, words):
    assert words in overhead._ratio_row(
        tmp_path / "row", cell, "a name", 0.99, argparse.Namespace(rounds=1, seconds=0.5)
    )
