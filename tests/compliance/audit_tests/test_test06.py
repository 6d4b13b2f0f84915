"""TEST06's verify_accuracy.txt: what it says of first tokens, end tokens and token counts."""

import numpy as np
import pytest

from compliance import logs
from compliance.audit_tests import test06

ENDS = frozenset({2})


def log(folder, *rows):
    path = folder / "mlperf_log_accuracy.json"
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    return logs.read_logged(path)


def row(*tokens, first=None, count=None, dtype="<i4"):
    """A row as LoadGen writes it with token latencies; Offline has no first token."""

    def text(values):
        return np.array(values, dtype).tobytes().hex().upper()

    words = f'{{ "seq_id" : 0, "qsl_idx" : 7, "data" : "{text(tokens)}"'
    words += f', "token_data" : "{text(first)}"' if first is not None else ""
    words += f', "token_count" : {count}' if count is not None else ""
    return words + " }"


@pytest.mark.parametrize(
    ("rows", "first", "length", "end", "verdict"),
    [
        ([row(5, 6, 2, first=5, count=3)], "True", "True", "True", "complete"),
        # TensorRT-LLM reports two tokens first, which the official script compares one by one.
        ([row(5, 6, 2, first=(5, 6), count=3)], "True", "True", "True", "complete"),
        ([row(5, 6, 2, first=(5, 7), count=3)], "False", "True", "True", "failed"),
        ([row(5, 6, 2, first=(), count=3)], "False", "True", "True", "failed"),
        ([row(5, 6, 2, count=3)], "Skipped", "True", "True", "complete"),
        ([row(5, 6, 2)], "Skipped", "Skipped", "True", "complete"),
        ([row(5, 6, 2, first=6, count=3)], "False", "True", "True", "failed"),
        ([row(5, 6, 2, first=5, count=2)], "True", "False", "True", "failed"),
        ([row(5, 2, 2, first=5, count=3)], "True", "True", "False", "failed"),
        # Some rows without what the others have.
        ([row(5, 2, first=5, count=2), row(5, 2)], "False", "False", "True", "failed"),
        ([], "Skipped", "Skipped", "True", "failed"),
    ],
)
def test_each_line_is_that_of_the_log(tmp_path, rows, first, length, end, verdict):
    nothing = test06.Required(first_token=False, token_count=False)
    lines = test06.verify_text(log(tmp_path, *rows), ENDS, nothing).splitlines()
    assert lines[:4] == [
        f"First token check pass: {first}",
        f"EOS check pass: {end}",
        f"Sample length check pass: {length}",
        f"TEST06 verification {verdict}",
    ]


def test_what_a_streaming_system_does_not_report_is_no_skipped_check(tmp_path):
    logged = log(tmp_path, row(5, 6, 2), row(5, 2))
    streamed = test06.Required(first_token=True, token_count=True)
    assert test06.verify_text(logged, ENDS, streamed).splitlines() == [
        "First token check pass: False",
        "EOS check pass: True",
        "Sample length check pass: False",
        "TEST06 verification failed",
    ]


def test_what_was_not_reported_is_in_the_row_neither(tmp_path):
    read = log(tmp_path, row(5, first=5, count=1), row(5))
    assert [(each.first_token, each.token_count) for each in read.rows] == [
        (np.int32(5).tobytes(), 1),
        (None, None),
    ]
    assert read.problems == ()


@pytest.mark.parametrize(
    ("dtype", "counts", "token_bytes"),
    [
        ("<i8", (3, 3), 8),
        ("<i2", (3, 3), 2),
        ("<i4", (3, 3), 4),
        ("<i8", (3, 2), 4),
        ("<i8", (None, None), 4),
    ],
)
def test_the_counts_show_the_type_of_tokens(tmp_path, dtype, counts, token_bytes):
    """run_verification.py gets it by --dtype; OpenVINO's answers have 8 bytes a token."""
    logged = log(tmp_path, *(row(5, 6, 2, count=count, dtype=dtype) for count in counts))
    assert test06._token_bytes(logged) == token_bytes
    required = test06.Required(first_token=False, token_count=False, token_bytes=token_bytes)
    assert bool(test06._wrong_counts(logged, required)) is (counts == (3, 2))
