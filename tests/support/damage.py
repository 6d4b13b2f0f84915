"""The files of a run directory, and what may happen to one of them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

FILES = {
    "the performance detail log": "open/*/results/*/*/*/performance/run_1/mlperf_log_detail.txt",
    "the performance summary": "open/*/results/*/*/*/performance/run_1/mlperf_log_summary.txt",
    "the accuracy detail log": "open/*/results/*/*/*/accuracy/mlperf_log_detail.txt",
    "the truncated accuracy log": "open/*/results/*/*/*/accuracy/mlperf_log_accuracy.json",
    "accuracy.txt": "open/*/results/*/*/*/accuracy/accuracy.txt",
    "the whole accuracy log": "raw/accuracy/mlperf_log_accuracy.json",
    "the teacher-forced logits": "raw/accuracy/logits.npy",
    "the SUT's own logits": "raw/accuracy/own_logits.npy",
    "the kept answers": "raw/performance/answers.npz",
    "user.conf": "raw/performance/user.conf",
    "job.json": "raw/accuracy/job.json",
    "outcome.json": "raw/performance/outcome.json",
    "reference.npz": "reference.npz",
    "record.json": "record.json",
    "the system description": "open/*/systems/*.json",
    "model_mapping.json": "open/*/model_mapping.json",
    "measurements.json": "open/*/results/*/*/*/measurements.json",
}


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut, overwrite, insert, or replace the whole."""
    where = draw(st.floats(0, 1))
    junk = draw(st.binary(max_size=40) | st.sampled_from([b"null", b"[]", b"{}", b"1e999", b"NaN", b"-1", b'"x"', b"\n"]))
    kind = draw(st.sampled_from(["cut", "overwrite", "insert", "replace", "number"]))

    def apply(content: bytes) -> bytes:
        at = int(where * len(content))
        if kind == "number":  # a digit somewhere becomes something else that JSON may hold
            at = next((i for i in range(at, len(content)) if content[i : i + 1].isdigit()), at)
            return content[:at] + junk + content[at + 1 :]
        rest = {"cut": b"", "overwrite": junk + content[at + len(junk) :], "insert": junk + content[at:]}
        return content[:at] + rest[kind] if kind in rest else junk

    return apply
