"""A figure rests on whole batches: an audit says on how many, and names a count that is none."""

import pytest

from compliance import logs
from formats.checks import Verdict
from tests.support.audits import checks
from tests.support.mutations import DETAIL, record


@pytest.fixture
def samples(run):
    """The samples of the timed test."""
    detail = logs.read_detail(run / "raw" / "performance" / DETAIL)
    return int(detail.number("generated_samples_per_query"))


def whole_batches(run, batch, mode="quick"):
    record(mode=mode)(run)
    record("cell", batch_size=batch)(run)
    return checks(run)["whole-batches"]


@pytest.mark.parametrize("batch", [1, 3, 4, 7, 8, 32])
def test_a_count_that_is_no_whole_number_of_batches_is_named(run, samples, batch):
    check = whole_batches(run, batch)
    batches, rest = -(-samples // batch), -samples % batch
    if rest:
        words = f"{rest} of {samples + rest} rows in {batches} batches are padding"
        assert check.verdict is Verdict.FAIL
        assert words in check.detail
    else:
        words = f"{samples} samples in {batches} batches, no padding"
        assert (check.verdict, check.detail) == (Verdict.PASS, words)


def test_a_quick_figure_of_two_batches_is_none(run, samples):
    check = whole_batches(run, samples // 2)
    assert check.verdict is Verdict.FAIL
    assert "a quick run requires at least 3" in check.detail


def test_where_a_round_fixes_the_count_the_padding_is_told(run, samples):
    check = whole_batches(run, samples - 1, "valid")
    padding = f"{(samples - 2) / (2 * samples - 2):.2%}"
    assert check.verdict is Verdict.PASS
    assert check.detail == f"{samples} samples in 2 batches, {padding} of their rows are padding"


@pytest.mark.parametrize("run", ["SingleStream"], indirect=True)
def test_single_stream_has_no_batches(run):
    assert whole_batches(run, 1).verdict is Verdict.NA
