"""Damage over which the audit once broke off, warned or never ended, as fuzzing and reading
found.
"""

import io
import shutil
import zipfile

import numpy as np
import pytest

from compliance import logs, rules
from compliance.checks.logs import sample_order
from compliance.loadgen import sample_order as order
from compliance.logs import files
from tests.support import tree as runs
from tests.support.audits import failed

HUGE = 1 << 63


def test_a_text_of_more_than_any_is_not_read(tmp_path):
    """To parse 40 MB of user.conf took 12 s and 700 MB."""
    with (tmp_path / "user.conf").open("wb") as f:
        f.truncate((16 << 20) + 1)
    assert files.attempt(files.text, tmp_path / "user.conf") == (
        None,
        "user.conf is damaged (larger than 16 MiB)",
    )


# Archives.


@pytest.mark.parametrize("run", ["Offline", "tokens"], indirect=True)
@pytest.mark.parametrize(
    ("how", "why"),
    [
        (lambda a: a.astype(np.complex64), "no real numbers"),
        (lambda a: a[:0], "no real numbers"),
        (lambda a: np.full(a.shape, np.inf, np.float32), ""),
        (lambda a: np.where(np.arange(a.size).reshape(a.shape) % 7, a, np.nan), ""),
        (lambda a: np.full(a.shape, 3e38, np.float32) * np.sign(a + 0.5), ""),
    ],
)
def test_a_reference_of_odd_numbers_is_a_finding_and_no_warning(run, how, why):
    """A warning is an error to these tests."""
    with np.load(run / "reference.npz") as loaded:
        arrays = dict(loaded)
    np.savez(run / "reference.npz", **{**arrays, "logits": how(arrays["logits"])})
    assert why in failed(run)["accuracy-score"].detail


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_packed_as_numpy_packs_none_is_not_unpacked(tmp_path, method):
    content, buffer = io.BytesIO(), io.BytesIO()
    np.save(content, np.zeros(1000, np.float32))
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("logits.npy", content.getvalue())
    packed = bytearray(buffer.getvalue())
    packed[50:60] = b"\xff" * 10  # lzma's own error is none that numpy or zipfile name
    (tmp_path / "x.npz").write_bytes(packed)
    found, why = files.attempt(files.arrays, tmp_path / "x.npz")
    assert found is None and "compressed by a method" in why


# Figures of the detail log.

LAST_IS_HUGE = {"loaded_qsl_set": lambda indices: [*indices[:-1], HUGE]}
LATENCY = {"requested_single_stream_expected_latency_ns": 1e-320}
TARGET = {"effective_accuracy_log_sampling_target": -5}


@pytest.mark.parametrize(
    ("test", "values"),
    [
        ("performance", {"qsl_reported_total_count": 9 * HUGE, **LAST_IS_HUGE}),
        ("TEST01", LAST_IS_HUGE),
        ("TEST01", {**LATENCY, "effective_min_duration_ms": 0}),
        ("TEST01", LATENCY),
        ("TEST01", {**TARGET, "result_query_count": 30_000_000}),
    ],
)
def test_figures_like_those_are_a_finding(complied, tmp_path, test, values):
    run = shutil.copytree(complied, tmp_path / "quick-1")
    runs.detail(run, test, **values)
    assert failed(run)


def test_a_library_too_large_to_shuffle_is_a_finding(tmp_path, monkeypatch):
    """v5.1 draws the loaded set from the whole library, of which the log says only how large it
    is.
    """

    def shuffled(*_):
        pytest.fail("four thousand million numbers would be shuffled")

    monkeypatch.setattr(order, "loaded_sets", shuffled)
    values = {
        "qsl_reported_total_count": (1 << 32) - 1,
        "effective_performance_sample_count": 2,
        "effective_qsl_rng_seed": 1,
        "loaded_qsl_set": [1, 2],
    }
    lines = {key: (logs.Line(1, key, value, 0.0),) for key, value in values.items()}
    test = runs.performance_run(tmp_path, logs.Detail(values, lines, (), (), ()))
    assert [str(fault) for fault in sample_order._loaded(test, rules.load("v5.1"))] == [
        "the sets, a count or the seed is missing from the log"
    ]


# Logs.


@pytest.mark.parametrize("line", [b"x", b"\xff", b":::MLLOG x"])
def test_a_log_of_nothing_but_other_lines_is_not_read_to_its_end(tmp_path, monkeypatch, line):
    """Twenty million of them took two minutes."""
    monkeypatch.setattr(logs.lines, "_MOST_COUNTED", 30)
    path = tmp_path / "log"
    path.write_bytes(
        b"[\n" + (line + b"\n") * 40 + b'{ "seq_id" : 0, "qsl_idx" : 7, "data" : "00" }\n]\n'
    )
    found = logs.read_accuracy(path)
    assert not found.payloads and len(found.problems) == 20
    path.write_text(
        f"{line.decode(errors='replace')}\n" * 40
        + ':::MLLOG {"key": "a", "value": 1, "time_ms": 0, "metadata": {}}\n'
    )
    assert not logs.read_detail(path).values
