"""What the worker saw of the performance test: forged, damaged, missing, impossible."""

import numpy as np
import pytest

from compliance import logs
from formats.checks import Verdict
from tests.support import mutations as m
from tests.support import tree
from tests.support.audits import checks

ANSWERS, FRESH, SPEED = "answers-while-measuring", "fresh-inputs", "plausible-speed"


def verdicts(run):
    found = checks(run, "quick")
    return {name: found[name] for name in (ANSWERS, FRESH, SPEED)}


def rewritten(run, **arrays):
    """answers.npz with other arrays, under its new digest."""
    path = run / "raw" / "performance" / "answers.npz"
    with np.load(path) as f:
        np.savez(path, **{**f, **arrays})
    m.outcome("performance", kept_sha256=tree.sha256(path))(run)


def test_an_honest_run_passes_all_and_a_mock_has_no_operations(run):
    assert {name: check.verdict for name, check in verdicts(run).items()} == {
        ANSWERS: Verdict.PASS,
        FRESH: Verdict.PASS,
        SPEED: Verdict.NA,
    }


@pytest.mark.parametrize(("key", "check"), [("kept_sha256", ANSWERS), ("fresh", FRESH)])
def test_a_run_without_what_the_worker_kept_fails(run, key, check):
    m.outcome("performance", **{key: m.GONE})(run)
    assert [name for name, c in verdicts(run).items() if c.verdict is Verdict.FAIL] == [check]


def test_kept_answers_are_those_whose_digest_the_worker_wrote(run):
    path = run / "raw" / "performance" / "answers.npz"
    path.write_bytes(path.read_bytes() + b"\0")
    assert verdicts(run)[ANSWERS].verdict is Verdict.FAIL
    path.unlink()
    assert "answers.npz is missing" in verdicts(run)[ANSWERS].detail


@pytest.mark.parametrize(
    "arrays",
    [
        {"content": np.zeros(4, np.uint8)},
        {"starts": np.zeros(3, np.int64)},
        {"indices": np.zeros(0, np.int64)},
        {"visits": np.zeros(256, np.int64)},
        {"visits": np.full(9999, 1 << 40)},
        {"indices": np.array([-1])},
    ],
    ids=["cut", "other starts", "no answers", "never visited", "far too many", "no such sample"],
)
def test_damaged_answers_fail_and_break_nothing(run, arrays):
    rewritten(run, **arrays)
    assert verdicts(run)[ANSWERS].verdict is Verdict.FAIL


def timed(fresh):
    """With times that give `slower`."""
    return {**fresh, "fresh_ns": fresh["slower"] * 1e6, "again_ns": 1e6, "met_ns": 2e6}


@pytest.mark.parametrize(("ratio", "verdict"), [(2.9, Verdict.PASS), (3.1, Verdict.FAIL)])
def test_fresh_inputs_may_take_three_times_as_long(run, ratio, verdict):
    seen = {"slower": ratio, "rounds": 2, "thirds": [], "other_processors": 0.0}
    m.outcome("performance", fresh=timed(seen))(run)
    assert verdicts(run)[FRESH].verdict is verdict


QUIET = {"rounds": 12, "slower": 1.5, "thirds": [1.4, 1.5, 1.6], "other_processors": 0.02}


@pytest.mark.parametrize(
    ("fresh", "verdict"),
    [
        (QUIET, Verdict.FAIL),
        (QUIET | {"slower": 1.2}, Verdict.PASS),
        (QUIET | {"thirds": [1.4, 1.2, 1.6]}, Verdict.PASS),
        (QUIET | {"rounds": 11}, Verdict.PASS),
        (QUIET | {"thirds": []}, Verdict.PASS),
        (QUIET | {"other_processors": 0.3}, Verdict.PASS),
        (QUIET | {"slower": 4.6}, Verdict.FAIL),
        (QUIET | {"slower": 4.6, "other_processors": 0.3}, Verdict.PASS),
        (QUIET | {"slower": 12.0, "other_processors": 0.3}, Verdict.FAIL),
        (QUIET | {"other_processors": None}, Verdict.FAIL),
    ],
)
def test_a_part_of_the_answers_is_kept_if_each_third_of_undisturbed_rounds_shows_it(
    run, fresh, verdict
):
    m.outcome("performance", fresh=timed(fresh))(run)
    assert verdicts(run)[FRESH].verdict is verdict


@pytest.mark.parametrize(
    ("quantized", "share", "verdict"),
    [
        (None, 1.9, Verdict.PASS),
        (None, 2.1, Verdict.FAIL),
        ("int8-weights", 2.1, Verdict.FAIL),
        ("int8", 31, Verdict.PASS),
        ("int8", 33, Verdict.FAIL),
    ],
)
def test_no_model_is_much_faster_than_the_products_it_is_made_of(run, quantized, share, verdict):
    rate = logs.read_detail(run / "raw" / "performance" / m.DETAIL).get("result_samples_per_second")
    m.record(least_flops=1e6)(run)
    m.record("cell", quantized=quantized)(run)
    flops = 1e6 * rate / share
    m.document("raw/performance/outcome.json", "evidence_after", matrix_flops=flops)(run)
    assert verdicts(run)[SPEED].verdict is verdict
