"""LoadGen's selection of the samples whose answers a compliance test logs."""

import pytest

from compliance.loadgen import sampling


def test_a_share_of_one_logs_every_sample_and_of_none_hardly_any():
    assert sampling.selected_samples(1000, 1.0, 720381539243781796).tolist() == list(range(1000))
    assert len(sampling.selected_samples(100_000, 0.01, 720381539243781796)) == pytest.approx(
        1000, rel=0.15
    )
    assert sampling.selected_samples(0, 1.0, 1).tolist() == []
