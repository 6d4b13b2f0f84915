"""The benchmark of trainings runs and prints a row of figures; how large they are is for a quiet
machine to say.
"""

import argparse
import re

from studies import fit_overhead
from tests.conftest import CACHE


def test_both_loops_of_a_sut_are_timed_in_turns(tmp_path, interpreter):
    interpreter("native-torch")
    flags = argparse.Namespace(size="tiny", batch_size=2, seq_len=8, steps=2, rounds=3, cache=CACHE)
    row = fit_overhead.row("native-torch-eager", flags, tmp_path)
    assert row.startswith("| native-torch-eager, tiny, batch 2, 8 tokens | ")
    assert len(re.findall(r"[\d.]+ ms/step", row)) == 2 and re.search(
        r"\| \d+\.\d{4} \(\d+\.\d{4}–\d+\.\d{4}\) \|", row
    ), row
    assert re.search(r"\| [\d.]+ µs a step, [\d.e-]+ of it \|", row), row
