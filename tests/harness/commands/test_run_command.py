"""What a run proposes next, for each way in which it can end."""

from dataclasses import replace

import pytest

from formats.outcome import CUT_SHORT
from formats.result import Metric, Status
from harness.commands import run as command
from harness.measurement import run
from tests.support.cells import request

COMMAND = "./run.sh --sut mock --scenario SingleStream --model bert --duration 3 --quiet"


def proposed(tmp_path, status, *, loadgen="VALID", metric=None, **asked):
    wanted = request(tmp_path, **({"command": COMMAND} | asked))
    ended = replace(
        run.not_measured(wanted, status, "why"),
        directory="runs/it",
        loadgen=loadgen,
        metric=metric,
        metrics={"ms_per_step": 500},
    )
    return command._next(ended, wanted)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.SKIPPED, "the same command, changed as the status line says"),
        (Status.OOM, "a smaller --size"),
        (
            Status.ERROR,
            (
                f"the same command continues from here: {COMMAND}; the output of the worker:"
                " runs/it/raw/*/worker.log"
            ),
        ),
        (
            Status.UNSUPPORTED,
            "./run.sh list  (shows what there is), or another --precision or --device",
        ),
        (Status.INVALID, "./run.sh audit runs/it --mode quick"),
    ],
)
def test_what_ends_badly_is_followed_by_what_helps(tmp_path, status, words):
    assert proposed(tmp_path, status) == words


def test_an_engine_that_cuts_answers_short_is_followed_by_a_command_that_allows_it(tmp_path):
    (tmp_path / "prompts.txt").write_text("a prompt")
    flags = {"command": f"{COMMAND} --eos ignore"}
    wanted = request(tmp_path, **flags)
    ended = replace(run.not_measured(wanted, Status.ERROR, "why"), refused={CUT_SHORT: 5})
    assert command._next(ended, wanted) == "the same command, changed as the status line says"
    options = replace(wanted.options, dataset=tmp_path / "prompts.txt")
    found = command._next(ended, replace(wanted, options=options))
    assert found.startswith(f"{COMMAND} --eos stop  (")


def test_a_good_first_look_is_followed_by_all_suts_at_a_size_that_counts(tmp_path):
    assert proposed(tmp_path, Status.OK).startswith(
        "./run.sh sweep --sut all --scenario SingleStream --model bert --size mid  (all SUTs in"
        " turns; or "
    )


@pytest.mark.parametrize(("limit_ms", "is_proposed"), [(12.5, False), (12.0, True)])
def test_mode_valid_is_proposed_only_for_limits_that_it_takes(tmp_path, limit_ms, is_proposed):
    found = proposed(tmp_path, Status.OK, scenario="Server", max_latency_ms=limit_ms)
    assert ("--mode valid" in found) == is_proposed


def test_too_few_queries_are_followed_by_a_duration_that_has_enough(tmp_path):
    few = Metric("latency_p90", 600.0, "ms", higher_is_better=False, estimate="percentile")
    found = proposed(tmp_path, Status.OK, loadgen="INVALID: whatever", metric=few)
    assert (
        found
        == "./run.sh --sut mock --scenario SingleStream --model bert --quiet --duration 4  (LoadGen"
        " had too few queries to call it VALID)"
    )


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("valid", "./run.sh audit runs/it --mode valid"),
        ("submission", "./run.sh pack runs/it --out submission  ("),
    ],
)
def test_a_longer_run_is_followed_by_its_audit_or_its_tree(tmp_path, mode, words):
    assert proposed(tmp_path, Status.OK, mode=mode, duration=None).startswith(words)


def test_a_training_is_followed_by_one_of_100_steps(tmp_path):
    words = "./run.sh --sut mock --scenario Fit --model bert"
    found = proposed(
        tmp_path, Status.OK, scenario="Fit", command=f"{words} --duration 3", duration=None
    )
    assert found == f"{words} --mode valid  (100 steps)"
