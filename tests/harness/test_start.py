"""The time until the first answer, and whether its programs were compiled or found on disk."""

from dataclasses import replace

import pytest

from formats import reading
from formats.evidence import Evidence
from formats.figures import FIGURES
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Result, Status
from results import figures, summary
from tests.support.synthetic_runs import cell, record_json

OUTCOME = WorkerOutcome(
    "ok",
    import_ns=2 * 10**9,
    load_ns=3 * 10**9,
    warmup=[{"first_ns": 7 * 10**9, "second_ns": 10**9}, {"first_ns": 10**9, "second_ns": 10**9}],
)
COMPILED = Evidence(1, None, "float32")


def metrics(**changes):
    record = reading.convert(record_json(cell()), Record)
    outcome = replace(OUTCOME, **changes)
    return dict(figures.of_loadgen({}, record, outcome, FIGURES["Offline"], 1).metrics)


def test_the_first_answer_includes_import_and_loading():
    found = metrics(evidence_after=COMPILED)
    assert found == {"compile_seconds": 6, "first_answer_seconds": 12}


def test_a_shape_that_ran_once_is_compared_with_a_calibrated_batch():
    warmup = [{"size": 4, "first_ns": 7 * 10**9}, {"size": 4, "first_ns": 10**9}]
    calibration = {"median_sample_ns": 5 * 10**8}
    found = metrics(evidence_after=COMPILED, warmup=warmup, calibration=calibration)
    assert found == {"compile_seconds": 5, "first_answer_seconds": 12}


def test_programs_from_the_cache_have_a_name_of_their_own():
    found = metrics(evidence_after=COMPILED, cache_hits=1)
    assert found == {"cached_compile_seconds": 6, "cached_first_answer_seconds": 12}


def test_a_start_with_some_programs_from_the_cache_is_neither_cold_nor_warm():
    found = metrics(evidence_after=COMPILED, cache_hits=1, cache_misses=2)
    assert found["partly_cached_first_answer_seconds"] == 12
    assert not {"first_answer_seconds", "cached_first_answer_seconds"} & found.keys()


def test_a_worker_without_a_warm_up_has_no_first_answer():
    assert "first_answer_seconds" not in metrics(warmup=[])


@pytest.mark.parametrize(
    ("sut", "found", "words"),
    [
        ("native-torch-eager", metrics(), "nothing is compiled"),
        ("keras3-jax", metrics(evidence_after=COMPILED), "compiled; cache cold"),
        (
            "keras3-jax",
            metrics(evidence_after=COMPILED, cache_hits=2),
            "compiled programs from the cache; cache warm",
        ),
        (
            "keras3-jax",
            metrics(evidence_after=COMPILED, cache_hits=2, cache_misses=1),
            "some programs compiled, some from the cache; cache partly warm",
        ),
        (
            "keras3-tensorflow",
            metrics(evidence_after=COMPILED),
            "compiled; no programs are kept on disk",
        ),
    ],
)
def test_a_result_says_which_start_it_was(sut, found, words):
    result = Result(
        cell=cell(sut), mode="quick", round="v6.1", directory="", status=Status.OK, metrics=found
    )
    assert dict(summary.rows(result))["start"] == f"first answer after 12 s ({words})"
