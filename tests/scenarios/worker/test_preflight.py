"""What the worker refuses before it measures."""

import numpy as np
import pytest

from scenarios.worker import preflight
from tests.support import mock_job


@pytest.mark.parametrize(
    ("counts", "stream", "refused"),
    [([5, 1, 1], True, True), ([5, 2], True, False), ([5, 1], False, False)],
)
def test_a_streamed_answer_of_one_token_is_refused(tmp_path, counts, stream, refused):
    file = tmp_path / "reference.npz"
    np.savez(file, n_tokens=np.array(counts, np.int32))
    job = mock_job.changed(mock_job.make(tmp_path), stream=stream, reference=file)
    if not refused:
        preflight.check_answers(job)
        return
    with pytest.raises(
        preflight.Refused, match="2 of 3 answers .* that of input 2, .* --stream off"
    ):
        preflight.check_answers(job)
