"""The files of a run directory, and what may happen to one of them."""

import gzip
import io
import json
import re
import warnings

import numpy as np
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
def damage(draw):
    """Cut, overwrite, insert, or replace the whole."""
    where = draw(st.floats(0, 1))
    junk = draw(
        st.binary(max_size=40)
        | st.sampled_from([b"null", b"[]", b"{}", b"1e999", b"NaN", b"-1", b'"x"', b"\n"])
    )
    kind = draw(st.sampled_from(["cut", "overwrite", "insert", "replace", "number"]))

    def apply(content):
        at = int(where * len(content))
        if kind == "number":  # a digit somewhere becomes something else that JSON may hold
            at = next((i for i in range(at, len(content)) if content[i : i + 1].isdigit()), at)
            return content[:at] + junk + content[at + 1 :]
        rest = {
            "cut": b"",
            "overwrite": junk + content[at + len(junk) :],
            "insert": junk + content[at:],
        }
        return content[:at] + rest[kind] if kind in rest else junk

    return apply


_JSON = (
    *["0", "1", "-1", "0.5", "-0.0", "1e-320", "1e19", "1e308", "1e999", "NaN"],
    *["4294967295", "9223372036854775808"],
    *["true", "null", "[]", "{}", "[null]", "[-1]", "[0.5]", "[9223372036854775808]", "[[[0]]]"],
    *('{"a":1,"a":2}', '{"":null}', r'"\ud800"', r'"\u001b[2J"', r'"a\nb"'),
    *("9" * 39, "1" + "0" * 400, "[" * 99 + "]" * 99),
)
_TEXTS = (
    *["x", "#", "٣", "%s{0}", "'\"&", "<script>alert(1)</script>", "\x00", "\r", "\u2028"],
    *["\x9b2J", "\x1b[2J", "\u202e", "0x10", "1_0", "nan", "hash=", "VALID", "v5.1"],
    *["../../../etc/passwd", "Offline", "SingleStream", "Server"],
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "01-01-0001 00:00:00.000"),
    *("", "x" * 100_000, "9" * 400, "TEST PASS", "*.*.min_duration = 1e999"),
)
_DTYPES = (np.float16, np.float32, np.int8, np.int32, np.uint64, np.complex64, "S3", "U2", "M8[s]")
_BEFORE_A_VALUE = re.compile(r"[:=\[,(]\s*")
_WORD = re.compile(r"[^\s,\]})]*")
_KEY = re.compile(r'"[^"\n]{0,60}"\s*: ?')


def damaged(r, content, name):
    """The content of a file of that name, with damage that a parser may let through.

    A value becomes another, a key stands twice, a line is gone, moved or twice, an array has
    another type, shape or content. What is packed by gzip is damaged inside.
    """
    if name.endswith(".gz"):
        return gzip.compress(damaged(r, gzip.decompress(content), name.removesuffix(".gz")), 1)
    if name.endswith((".npz", ".npy")):
        return _other_array(r, content)
    text = content.decode("latin-1")  # a character for each byte
    for _ in range(r.choice((1, 2, 8))):
        change = r.choice((_other_value, _other_value, _key_twice, _other_line))
        text = change(r, text)
    return text.encode("latin-1")


def _other_value(r, text):
    match = _BEFORE_A_VALUE.search(text, r.randrange(len(text) + 1))
    if match is None:
        return text
    return text[: match.end()] + _piece(r, text) + text[_end_of_value(text, match.end()) :]


def _key_twice(r, text):
    match = _KEY.search(text, r.randrange(len(text) + 1))
    if match is None:
        return text
    end = _end_of_value(text, match.end())
    return f"{text[:end]}, {match[0]}{_piece(r, text)}{text[end:]}"


def _other_line(r, text):
    """A line is gone, elsewhere, or twice."""
    lines = text.split("\n")
    place = r.randrange(len(lines))
    line = lines[place]
    if r.choice((True, False)):
        del lines[place]
    if r.choice((True, False)):
        lines.insert(r.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _piece(r, text):
    """A text for a value's place: a hostile one, a small number, or another value of the text."""
    match = _BEFORE_A_VALUE.search(text, r.randrange(len(text) + 1))
    other = text[match.end() : _end_of_value(text, match.end())] if match else ""
    hostile = r.choice(_TEXTS)
    pieces = (r.choice(_JSON), hostile, json.dumps(hostile), str(r.randrange(-2, 300)), other)
    return r.choice(pieces).encode().decode("latin-1")


def _end_of_value(text, start):
    """The place where the JSON value that begins at `start` ends, else the end of the word."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        match = _WORD.match(text, start)
        return match.end() if match else start


def _other_array(r, content):
    """An .npz or .npy in which one array has another type, shape or content, or is not there."""
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    arrays = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else {"": loaded}
    name = r.choice(sorted(arrays))
    array = np.atleast_1d(arrays.pop(name))
    if array.dtype.kind in "biuf":
        with warnings.catch_warnings(action="ignore"):  # a number may not fit
            array = array.astype(r.choice((array.dtype, *_DTYPES)))
    shapes = (array, array[:0], array[:-1], array.T, array.ravel(), array[None])
    array = r.choice(shapes).copy()
    if array.size and array.dtype.kind == "f":
        array.flat[r.randrange(array.size)] = r.choice((0, np.inf, -np.inf, np.nan))
    out = io.BytesIO()
    if not name:
        np.save(out, array)
    elif r.choice((True, False)):
        np.savez(out, **arrays)
    else:
        np.savez(out, **arrays, **{name: array})
    return out.getvalue()
