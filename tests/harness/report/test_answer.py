"""The first line of reports on scripted sweeps, word by word, and that nothing contradicts it."""

import re

import numpy as np
import pytest

from harness import cli
from harness.report import answer, exports, sections
from sut.registry import SUTS as REGISTERED
from tests.support.reports import gathered
from tests.support.synthetic_runs import NOISE, cell, write

ROUNDS = ([1, 1.01, 0.98], [1.01, 1, 0.99], [0.99, 1.02, 0.98], [1, 1.02, 0.97])
"""The noise of the runs of each SUT."""
TIMES = {"seconds": {"total": 40.0}}
WRONG = {
    "status": "invalid",
    "cause": "accuracy",
    "reason": "the largest difference of a logit is 4.1, and the limit is 0.1",
    "ranked": False,
}
OWN = {"environment": {"name": "native-jax-cpu (--python)", "python": "/opt/vendor/bin/python"}}


def sweep(root, speeds, scenario="Offline", **changes):
    """Measure SUTs in turns. `changes`: SUT → changes of its runs."""
    for n, (sut, speed) in enumerate(speeds.items()):
        figures = [speed * noise for noise in ROUNDS[n % len(ROUNDS)]]
        of_sut = TIMES | changes.get(sut.replace("-", "_"), {})
        write(root, cell(sut, scenario=scenario), figures, sweep="s-1", first_minute=n, **of_sut)


def first_line(root, capsys):
    """The first line in the terminal, which is that of the page, too."""
    assert cli.main(["report", str(root), "--html", str(root / "report.html")]) == 0
    line = capsys.readouterr().out.split("\n")[0]
    html = re.sub(r"</?span[^>]*>", "", (root / "report.html").read_text())
    assert f'<div class="answer"><p>{line}</p>' in html
    return line


LEADER = {"native-jax": 124, "keras3-tensorflow": 100, "keras3-jax": 95, "native-torch-eager": 60}
TIE = {"native-jax": 101, "keras3-tensorflow": 100.5, "keras3-jax": 100, "native-torch-eager": 85}
TWO = {"native-jax": 124, "keras3-jax": 100}
SIX = {
    "a leader": (
        LEADER,
        {},
        "bert mid predict, Offline, batch 32: native-jax is fastest: 1.24 × keras3-tensorflow (1.20–1.27),"
        " the next, and 2.07 × native-torch-eager (2.00–2.13), the slowest",
    ),
    "a tie": (
        TIE,
        {},
        "bert mid predict, Offline, batch 32: native-jax, keras3-tensorflow and keras3-jax are equal here"
        " within 5 %; native-torch-eager is 1.19 × slower (1.15–1.23)",
    ),
    "one SUT": (
        {"native-jax": 101},
        {},
        "bert mid predict, Offline, batch 32: native-jax computes 100.7 samples/s (96.89–104.6), and no"
        " other SUT was measured",
    ),
    "an invalid SUT": (
        TWO | {"keras3-torch": 200},
        {"keras3_torch": WRONG},
        "bert mid predict, Offline, batch 32: native-jax is fastest: 1.24 × keras3-jax (1.20–1.27); without"
        " keras3-torch (wrong answers)",
    ),
    "disturbed runs": (
        TWO,
        {"native_jax": {"disturbance": NOISE}, "keras3_jax": {"disturbance": NOISE}},
        "bert mid predict, Offline, batch 32: nothing is decided, because 6 of 6 runs were disturbed (other"
        " programs used 150% of a processor while it was measured); measure again (--again) with"
        " nothing else running: 3 runs of each (about 4 min)",
    ),
    "--python": (
        TWO,
        {"native_jax": {"record": OWN}},
        "bert mid predict, Offline, batch 32: native-jax is fastest: 1.24 × keras3-jax (1.20–1.27);"
        " native-jax ran in your own /opt/vendor/bin/python",
    ),
}


@pytest.mark.parametrize("name", SIX)
def test_the_first_line_is_a_sentence_that_a_colleague_would_say(tmp_path, capsys, name):
    speeds, changes, sentence = SIX[name]
    sweep(tmp_path, speeds, **changes)
    assert first_line(tmp_path, capsys) == sentence


def test_a_control_run_that_differs_from_its_cell_leaves_all_open(tmp_path, capsys):
    sweep(tmp_path, TWO)
    write(tmp_path, cell("native-jax"), [150, 151, 149], sweep="s-1", control=True)
    assert first_line(tmp_path, capsys) == (
        "bert mid predict, Offline, batch 32: nothing is decided, because native-jax, measured twice a"
        " round, was 1.21 × as fast as itself (1.19–1.23); measure again (--again) with nothing"
        " else running: 3 runs of each (about 4 min)"
    )


def test_too_wide_intervals_say_how_many_runs_would_decide(tmp_path, capsys):
    write(tmp_path, cell("native-jax"), [100, 110, 95], sweep="s-1", **TIMES)
    write(tmp_path, cell("keras3-jax"), [100, 96, 104], sweep="s-1", **TIMES)
    assert first_line(tmp_path, capsys) == (
        "bert mid predict, Offline, batch 32: native-jax and keras3-jax lead, and no difference between them"
        " is shown (at most 35 %); about 35 more runs of each (about 47 min) would decide"
    )


def test_single_runs_are_ordered_without_a_claim(tmp_path, capsys):
    write(tmp_path, cell("keras3-jax"), [200], **TIMES)
    write(tmp_path, cell("keras3-torch"), [100], **TIMES)
    write(tmp_path, cell("native-jax"), [90], **TIMES)
    assert first_line(tmp_path, capsys) == (
        "bert mid predict, Offline, batch 32: keras3-jax had the best figure, 2 × keras3-torch, but"
        " 1 run cannot show whether that is chance; about 2 more runs of each (about 4 min) would"
        " decide"
    )


@pytest.mark.parametrize(
    ("latencies", "sentence"),
    [
        (
            {"native-jax": 8, "keras3-jax": 10},
            "bert mid predict, batch 32: native-jax is fastest in Offline and SingleStream: 1.24 ×"
            " keras3-jax (1.20–1.27) and 1.25 × keras3-jax (1.22–1.29)",
        ),
        (
            {"native-jax": 10, "keras3-jax": 8},
            "bert mid predict, batch 32: native-jax is fastest in Offline, keras3-jax is fastest in"
            " SingleStream",
        ),
    ],
)
def test_two_scenarios_are_joined_in_the_first_line(tmp_path, capsys, latencies, sentence):
    sweep(tmp_path, TWO)
    sweep(tmp_path, latencies, scenario="SingleStream")
    assert first_line(tmp_path, capsys) == sentence
    of_each = sections.sentences(sections.of(gathered(tmp_path)))[:2]
    assert [text.partition(":")[0] for text in of_each] == [
        "bert mid predict, Offline, batch 32, 128 tokens",
        "bert mid predict, SingleStream, batch 32, 128 tokens",
    ]


def test_ties_of_two_scenarios_are_joined(tmp_path, capsys):
    pair = {"native-jax": 101, "keras3-jax": 100}
    sweep(tmp_path, pair)
    sweep(tmp_path, pair, scenario="SingleStream")
    assert first_line(tmp_path, capsys) == (
        "bert mid predict, batch 32: native-jax and keras3-jax are equal within 4 % in Offline and"
        " SingleStream"
    )


def test_many_comparisons_are_counted(tmp_path):
    for batch in (1, 2, 4, 8):
        pair = (100, 80) if batch < 8 else (80, 100)
        for sut, speed in zip(TWO, pair, strict=True):
            write(tmp_path, cell(sut, batch_size=batch), [speed, 1.01 * speed, speed], sweep="s-1")
    assert gathered(tmp_path).headline == (
        "bert mid predict, Offline: native-jax is among the fastest in 3 of 4 comparisons,"
        " keras3-jax in 1"
    )


def test_digests_and_variables_are_in_no_title_and_not_on_the_first_screen(tmp_path, capsys):
    own = {"dataset": "930a6f75892f", "variables": {"OMP_NUM_THREADS": "1"}}
    for sut in TWO:
        write(tmp_path, cell(sut, **own), [100, 101, 99], sweep="s-1")
    assert cli.main(["report", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "930a6f75892f" not in printed and "OMP_NUM_THREADS" not in printed
    report = gathered(tmp_path)
    document = exports.document(report, sections.of(report))
    assert "inputs 930a6f75892f" in document["comparisons"][0]["work"]
    assert "OMP_NUM_THREADS=1" in document["preface"]


def test_two_sets_of_inputs_are_numbered(tmp_path):
    for digest in ("930a6f75892f", "f02d5ac20539"):
        write(tmp_path, cell(dataset=digest), [100, 101, 99])
    names = [comparison.apart for comparison in gathered(tmp_path).comparisons]
    assert sorted(names) == ["inputs 1", "inputs 2"]


@pytest.mark.parametrize("seed", range(12))
def test_figures_intervals_and_stars_never_contradict_each_other(tmp_path, seed):
    generator = np.random.default_rng(seed)
    scenario = ("Offline", "SingleStream")[seed % 2]
    count = int(generator.integers(2, 7))
    suts = [sut for sut in REGISTERED if sut != "mock"][:count]
    for sut in suts:
        deviation = generator.choice([0.01, 0.05, 0.2])
        logs = generator.normal(generator.normal(0, 0.05), deviation, generator.integers(3, 8))
        write(tmp_path, cell(sut, scenario=scenario), 100 * np.exp(logs), sweep="s-1")
    (comparison,) = gathered(tmp_path).comparisons
    entries = [comparison.entries[group.sut] for group in comparison.ordered]
    figures = [entry.figure for entry in entries]
    assert figures == sorted(figures, reverse=scenario == "Offline")
    if comparison.inconclusive:
        assert not any(entry.best or entry.low for entry in entries)
        return
    leader, *others = entries
    for entry in others:
        within = entry.low <= leader.figure <= entry.high
        assert within == (not entry.relative.different)
        assert entry.low <= entry.figure <= entry.high
        assert entry.best == (within and not entry.behind)
    said = answer.claim(comparison)
    if f"{leader.group.sut} is fastest" in said:
        assert [entry.best for entry in entries] == [True] + [False] * len(others)
