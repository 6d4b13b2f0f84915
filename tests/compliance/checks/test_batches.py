"""A figure rests on whole batches: an audit says on how many, and names a count that is none."""

import pytest

from compliance import audit, logs
from formats.checks import Verdict
from tests.support.tree import edit_json


def found(run, **cell_or_mode):
    mode = cell_or_mode.pop("mode", "quick")
    edit_json(
        run / "record.json", lambda d: {**d, "mode": mode, "cell": {**d["cell"], **cell_or_mode}}
    )
    return next(c for c in audit.audit(run).checks if c.id == "whole-batches")


@pytest.mark.parametrize("batch", [1, 3, 4, 7, 8, 32])
def test_a_count_that_is_no_whole_number_of_batches_is_named(run, batch):
    samples = int(
        logs.read_detail(run / "raw/performance/mlperf_log_detail.txt").number(
            "generated_samples_per_query"
        )
    )
    check = found(run, batch_size=batch)
    rest = -samples % batch
    if rest:
        assert check.verdict is Verdict.FAIL
        assert (
            f"{rest} of {samples + rest} rows in {-(-samples // batch)} batches are padding"
            in check.detail
        )
    else:
        assert (check.verdict, check.detail) == (
            Verdict.PASS,
            f"{samples} samples in {samples // batch} batches, no padding",
        )


def test_a_quick_figure_of_two_batches_is_none(run):
    samples = int(
        logs.read_detail(run / "raw/performance/mlperf_log_detail.txt").number(
            "generated_samples_per_query"
        )
    )
    check = found(run, batch_size=samples // 2)
    assert check.verdict is Verdict.FAIL
    assert "a quick run requires at least 3" in check.detail


def test_where_a_round_fixes_the_count_the_padding_is_told(run):
    samples = int(
        logs.read_detail(run / "raw/performance/mlperf_log_detail.txt").number(
            "generated_samples_per_query"
        )
    )
    check = found(run, batch_size=samples - 1, mode="valid")
    assert check.verdict is Verdict.PASS
    assert (
        f"{samples} samples in 2 batches, {(samples - 2) / (2 * samples - 2):.2%} of their rows"
        " are padding" == check.detail
    )


@pytest.mark.parametrize("run", ["SingleStream"], indirect=True)
def test_single_stream_has_no_batches(run):
    assert found(run).verdict is Verdict.NA
