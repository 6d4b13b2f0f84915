"""`choose` on the mock: which cells it measures, when it ends and what it says."""

import re

import pytest

from formats.result import Status
from harness import cli
from harness.commands import choose as choose_command
from harness.measurement import run
from harness.sweep import cells, loop, room
from harness.sweep.deadline import Deadline
from harness.sweep.schedule import RepeatPlan
from harness.terminal import Terminal
from results import disturbance
from scenarios.worker.system import disturbance as worker
from tests.support.cells import cells_of
from tests.support.reports import gathered
from tests.support.synthetic_runs import NOISE, cell, write
from tests.support.weights_folders import made

__all__ = ["made"]

MOCK = ("--sut", "mock", "--size", "tiny", "--batch-size", "1")


@pytest.fixture
def choose(tmp_path, capsys, monkeypatch):
    """Arguments → (exit code, what was printed, what was said)."""
    monkeypatch.setattr(loop, "AGAIN_A_REPEAT", 0)

    def run(*arguments):
        code = cli.main(["choose", *arguments, "--out", str(tmp_path / "runs")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.out = tmp_path / "runs"
    return run


def test_it_measures_writes_a_page_and_names_the_next_command(choose):
    words = ("bert", *MOCK, "--scenario", "Offline", "--duration", "0.5", "--within", "2m")
    code, printed, said = choose(*words)
    assert code == 0
    assert "bert tiny predict, Offline" in printed
    (page,) = choose.out.glob("sweeps/choose-*/report.html")
    assert str(page) in printed and "fastest for bert tiny (2 layers" in page.read_text()
    assert "next  ./run.sh --sut mock" in printed
    assert "repeat 1" in said

    _, _, said = choose(*words)
    assert "repeat 1" not in said  # nothing is left


def test_a_test_that_is_longer_than_planned_gets_its_time_at_once(choose):
    words = ("bert", *MOCK, "--scenario", "Offline", "--sut-option", "latency-ms=40")
    code, printed, said = choose(*words, "--duration", "0.01", "--within", "2m")
    assert code == 0 and "skipped" not in said
    assert "samples/s" in printed


@pytest.mark.parametrize(("more", "shortened"), [((), True), (("--new-tokens", "12"), False)])
def test_answers_to_prompts_are_short_on_a_cpu_unless_their_tokens_are_given(
    choose, made, monkeypatch, more, shortened
):
    seen = []
    original = cells.make

    def make(grids, *arguments, **keywords):
        seen.append([grid.get("new_tokens") for grid in grids])
        return original(grids, *arguments, **keywords)

    monkeypatch.setattr(cells, "make", make)
    folder = made("llama")
    prompts = folder.parent / "prompts.txt"
    prompts.write_text("one\ntwo\n")
    words = (str(folder), str(prompts), "--sut", "native-torch-eager", "--device", "cpu")
    code, printed, said = choose(*words, *more, "--dry-run")
    assert code == 0, said
    assert ("an answer has at most 16 tokens" in " ".join(printed.split())) == shortened
    assert seen == ([[None], [["16"]]] if shortened else [[["12"]]])


def test_a_sut_that_the_time_has_no_room_for_is_named_with_the_time_that_has(choose):
    words = ("bert", *MOCK, "--scenario", "Offline,SingleStream", "--duration", "30")
    code, printed, said = choose(*words, "--again", "--within=12s")
    assert code == 1
    for scenario in ("Offline", "SingleStream"):
        reason = r"because the time was too short for a run of mock \(more than \d s\)"
        assert re.search(f"! no figure in {scenario}, {reason}", printed)
    assert "--duration 30" in printed.partition("next  ")[2]
    assert "--within 1m  (continues, with twice the time)" in printed
    assert "--again" not in printed
    assert "it ends after 12 s" in said


def test_a_sut_whose_turn_did_not_come_is_named(tmp_path):
    series = cells_of(scenario="Offline,SingleStream", out=tmp_path)
    repeats = RepeatPlan(least=1, most=1)
    sweep = loop.Sweep.of(tmp_path / "sweeps" / "choose-1", series, repeats, Deadline(60, 0))
    measured = run.not_measured(series[0].request, Status.OK, "")
    assert list(room.sentences(room.missing(sweep, {(0, 1): measured}))) == [
        "no figure in SingleStream, because the time was up before the turn of mock"
    ]


def test_a_sut_that_is_far_slower_in_its_calibration_is_measured_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "AGAIN_A_REPEAT", 0)
    grids = ({"duration": "0.3", "sut_option": f"latency-ms={n}"} for n in (1, 10))
    series = cells_of(*grids, out=tmp_path)
    repeats = RepeatPlan(least=2, most=2, as_listed=True, decisive=True)
    sweep = loop.Sweep.of(tmp_path / "sweeps" / "choose-1", series, repeats, None)
    sweep.folder.mkdir(parents=True)
    measured = []
    original = run.run

    def one(*arguments):
        measured.append(original(*arguments))
        return measured[-1]

    monkeypatch.setattr(loop.run, "run", one)
    results = loop.measure(sweep, Terminal(quiet=True), fail_fast=False)
    statuses = [Status.OK, Status.SKIPPED, Status.OK, Status.OK, Status.OK]
    assert [r.status for r in measured] == statuses
    assert set(results) == {(0, 1), (0, 2), (1, 1), (1, 2)}
    assert measured[1].reason.startswith("put off: ")
    (sentence,) = room.sentences(room.missing(sweep, {(0, 1): measured[0], (1, 1): measured[1]}))
    assert re.fullmatch(
        "no figure in Offline, because calibrations were less than two thirds as fast as the fastest"
        r" SUT: mock \(\S+ samples/s\)",
        sentence,
    )
    assert not room.missing(sweep, results)


def test_after_disturbed_runs_the_next_command_measures_all_again(tmp_path):
    for sut in ("keras3-jax", "native-jax"):
        write(tmp_path, cell(sut), [10] * 3, sweep="s-1", disturbance=NOISE)
    report = gathered(tmp_path)
    repeats = RepeatPlan(least=1, most=1)
    sweep = loop.Sweep(folder=tmp_path, series=(), repeats=repeats, costs={})
    hint = choose_command._next(sweep, {}, report, "./run.sh choose m")
    assert hint == "./run.sh choose m --again  (measures all again: end other programs first)"


def test_a_busy_machine_is_told_before_anything_is_measured(choose, monkeypatch):
    words = ("bert", *MOCK, "--scenario", "Offline", "--duration", "0.3", "--within", "1m")
    monkeypatch.setattr(disturbance, "now", lambda seconds: 1.37)
    _, _, said = choose(*words, "--quiet")
    assert (
        "other programs take 137% of a processor now: runs that they disturb show nothing" in said
    )
    monkeypatch.setattr(disturbance, "now", lambda seconds: 0.0)
    _, _, said = choose(*words)
    assert "other programs take" not in said


def test_processors_that_other_programs_use_are_seen(monkeypatch):
    readings = [worker.ProcessorTimes(0, 10.0, 0.0, 1.0)]
    readings.append(worker.ProcessorTimes(10**9, 11.5, 0.0, 1.1))
    monkeypatch.setattr(worker, "read", lambda: readings.pop(0))
    monkeypatch.setattr(disturbance.os, "sched_getaffinity", lambda process: {0, 1})
    assert disturbance.now(0.0) == pytest.approx(1.4)
    readings += [worker.ProcessorTimes(0, 10.0, 0.0, 1.0), None]
    assert disturbance.now(0.0) == 0.0


def test_the_model_and_the_data_are_named_once(choose):
    code, _, said = choose("bert", "--model", "bert")
    assert code == 2 and "choose bert: leave out --model, which also names it" in said
    code, _, said = choose("bert", "prompts.txt", "--dataset", "other.txt")
    assert code == 2 and "choose prompts.txt: leave out --dataset" in said
    code, _, said = choose("bert", "--within", "soon")
    assert code == 2 and "--within soon: a time such as 90s, 30min or 2h" in said
