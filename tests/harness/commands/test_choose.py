"""`choose` on the mock: which cells it measures, when it ends and what it says."""

import pytest

from harness import cli
from harness.sweep import loop

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
    assert str(page) in printed and "Which SUT is fastest for bert tiny?" in page.read_text()
    assert "next  ./run.sh --sut mock" in printed
    assert "repeat 1" in said

    _, _, said = choose(*words)
    assert "repeat 1" not in said  # nothing is left


def test_a_test_that_is_longer_than_planned_gets_its_time(choose):
    words = ("bert", *MOCK, "--scenario", "Offline", "--sut-option", "latency-ms=40")
    code, printed, said = choose(*words, "--duration", "0.01", "--within", "2m")
    assert code == 0 and "its test needs more time than planned" in said
    assert "samples/s" in printed


def test_the_model_and_the_data_are_named_once(choose, capsys):
    code, _, said = choose("bert", "--model", "bert")
    assert code == 2 and "choose bert: leave out --model, which also names it" in said
    code, _, said = choose("bert", "prompts.txt", "--dataset", "other.txt")
    assert code == 2 and "choose prompts.txt: leave out --dataset" in said
    code, _, said = choose("bert", "--within", "soon")
    assert code == 2 and "--within soon: a time such as 90s, 30min or 2h" in said
