"""LoadGen's trace, mlperf_log_trace.json: when each sample was issued and how long it took, in
whole nanoseconds.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from array import array
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

# The file is in Chrome's trace format, with one entry a line. It is no JSON, because LoadGen quotes
# some keys twice.
_SAMPLE = re.compile(
    rb'"name":"Sample","cat":"default","ph":"b","pid":\d+,"id":\d+,"ts":(\d{1,15})\.(\d{3}),'
    rb'"args":\{"sample_seq":(\d{1,18}),"query_seq":(\d{1,18}),"sample_idx":(\d{1,18}),'
    rb'"issue_start_ns":(\d{1,18}),"complete_ns":(\d{1,18})\}'
)
# The two entries of a sample without their digits. Most of a trace of Offline is such pairs.
_BEGIN = (
    b'{"name":"Sample","cat":"default","ph":"b","pid":,"id":,"ts":.,"args":{"sample_seq":,'
    b'"query_seq":,"sample_idx":,"issue_start_ns":,"complete_ns":}},\n'
)
_END = b'{"name":"Sample","cat":"default","ph":"e", "pid":,"id":,"ts":.},\n'
_BEGINS = _BEGIN.partition(b',"pid"')[0]
_ENDS = _END.partition(b', "pid"')[0]
_PAIR = _BEGIN + _END
_DIGITS = b"0123456789"
# The places of the numbers in a pair, those of `_SAMPLE` among them, and the most digits of these.
_PLACES = np.array([m.end() for m in re.finditer(rb":(?=[,.}])|(?<=:)\.", _PAIR)], np.int64)
_KEPT = np.arange(2, 9)
_MOST_DIGITS = np.array([15, 3, 18, 18, 18, 18, 18])
# The entry of a first token has two forms: Server's and that of the other scenarios.
_TOKEN = re.compile(
    rb'"name":"Token","cat":"default","ph":"b",[^{}]{1,99}\{[^{}]{1,199}'
    rb'"issue_start_ns":(\d{1,18}),"complete_ns":(\d{1,18})\}'
    rb'|"name":"Token_Latency","ph": "C",[^{}]{1,99}\{'
    rb' "issue_delay":(\d{1,18}),"issue_to_done":(\d{1,18})\}'
)
_GENERATED = re.compile(
    rb'"name":"GenerateQueries","ph":"X","pid":\d+,"tid":\d+,'
    rb'"ts":(\d{1,15})\.(\d{3}),"dur":(\d{1,15})\.(\d{3}),'
)
# start_ns, sequence, query, index, delay_ns and latency_ns.
_TYPES = "qiiiqq"
_BLOCK = 1 << 20
_LONGEST_LINE = 8 << 20
_MOST_SAMPLES = 20_000_000
# A sample takes 300 bytes in Offline and 1.2 KB in SingleStream. A file with more unpacked bytes a
# sample is no trace of LoadGen.
_SAMPLE_BYTES = 4096
_FIXED_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The samples of one test in the order of their numbers. Arrays are int64 [n]; numbers of
    samples and queries are int32 if they fit.

    Attributes:
        sha256: the digest of the unpacked file.
        sequence, query, index: the sample's number, its query's number, and its index in the query
            sample library.
        start_ns: when its query was due (SingleStream and MultiStream: issued), from the beginning
            of the log.
        latency_ns: the time from start to completion.
        delay_ns: the time from start to the issue of its query.
        first_token_ns: the time from start to each first token that was reported to LoadGen, in no
            order, int64 [tokens].
        ready_ns: when all queries were generated, which is before the test starts; None: the trace
            does not show it.
        problems: why it is not a whole trace, one sentence each.
    """

    sha256: str
    sequence: np.ndarray
    query: np.ndarray
    index: np.ndarray
    start_ns: np.ndarray
    latency_ns: np.ndarray
    delay_ns: np.ndarray
    first_token_ns: np.ndarray
    ready_ns: int | None
    problems: tuple[str, ...]


def read(path: Path) -> Trace:
    """Reads a trace, plain or gzipped, in blocks. Raises OSError, EOFError or zlib.error if it
    cannot be read.
    """
    digest = hashlib.sha256()
    # One buffer a column: thousands of small arrays would leave the memory in pieces.
    columns = [array(typecode) for typecode in _TYPES]
    tokens = [np.empty(0, np.int64)]
    problems = []
    count = size = 0
    tail = last = b""
    ready_ns: int | None = None
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as f:
        while block := f.read(_BLOCK):
            digest.update(block)
            size += len(block)
            whole, _, tail = (tail + block).rpartition(b"\n")
            last = whole[-8:] or last
            numbers = _pairs(whole)
            if numbers is None:
                if ready_ns is None:
                    ready_ns = _generated_ns(whole)
                tokens.append(_first_tokens(whole))
                numbers = _numbers(_SAMPLE.findall(whole))
            if numbers.size:
                us, ns, *others = numbers
                pairs = zip(columns, (us * 1000 + ns, *others), strict=True)
                columns = [_extended(column, values) for column, values in pairs]
                count += len(us)
            too_large = count > _MOST_SAMPLES or size > _FIXED_BYTES + _SAMPLE_BYTES * count
            if too_large or len(tail) > _LONGEST_LINE:
                problems.append(
                    f"after {size} bytes with {count} samples it is longer than a trace can be, and"
                    " was not read further"
                )
                break
        else:
            if tail.strip() or not last.endswith(b"}"):
                problems.append("it is cut: it does not end as a trace does")
    start_ns, sequence, query, index, delay_ns, latency_ns = _in_order(columns)
    return Trace(
        sha256=digest.hexdigest(),
        sequence=sequence,
        query=query,
        index=index,
        start_ns=start_ns,
        latency_ns=latency_ns,
        delay_ns=delay_ns,
        first_token_ns=np.concatenate(tokens),
        ready_ns=ready_ns,
        problems=tuple(problems),
    )


def _extended(column: array[int], values: np.ndarray) -> array[int]:
    """The column with more values. One of 4 bytes gets 8 if a value needs them."""
    if column.itemsize == 4 and values.max() >= 1 << 31:
        column = array("q", column)
    column.frombytes(values.astype(f"i{column.itemsize}").tobytes())
    return column


def _in_order(columns: list[array[int]]) -> list[np.ndarray]:
    """The columns in the order of the samples' numbers."""
    ordered = [np.frombuffer(column, f"i{column.itemsize}") for column in columns]
    if (ordered[1][1:] < ordered[1][:-1]).any():
        order = np.argsort(ordered[1], kind="stable")
        ordered = [column[order] for column in ordered]
    return ordered


def _numbers(samples: list[tuple[bytes, ...]]) -> np.ndarray:
    """The numbers of the matches of `_SAMPLE`, int64 [7, n]."""
    text = b" ".join(chain.from_iterable(samples))
    return np.fromstring(text, np.int64, sep=" ").reshape(-1, 7).T


def _pairs(lines: bytes) -> np.ndarray | None:
    """The numbers of `_SAMPLE` in lines that are only pairs of a sample's two entries, int64
    [7, n]; the first line may be the end of a pair, and the last one the beginning of one. None:
    there are other lines.
    """
    if lines.startswith(_ENDS):
        lines = lines.partition(b"\n")[2]
    last = lines[lines.rfind(b"\n") + 1 :]
    if last.startswith(_BEGINS):
        lines = lines[: max(len(lines) - len(last) - 1, 0)]
    rest = lines.translate(None, _DIGITS) + b"\n"
    count = len(rest) // len(_PAIR)
    if not count or rest != _PAIR * count:
        return None
    text = np.frombuffer(lines, np.uint8)
    edges = np.flatnonzero(np.diff(text - ord("0") < 10)) + 1
    if len(edges) != 2 * count * len(_PLACES):
        return None
    starts = edges[::2]
    sizes = edges[1::2] - edges[::2]
    # A number is in its place if as many other characters are before it as in the pair.
    others = (starts - np.cumsum(sizes) + sizes).reshape(count, -1)
    places = _PLACES + len(_PAIR) * np.arange(count)[:, None]
    starts, sizes = (each.reshape(count, -1)[:, _KEPT].T for each in (starts, sizes))
    wrong = sizes.max(1) > _MOST_DIGITS
    if (others != places).any() or wrong.any() or (sizes[1] != _MOST_DIGITS[1]).any():
        return None
    numbers = np.zeros(starts.shape, np.int64)
    for place in range(int(sizes.max())):
        digits = text[np.minimum(starts + place, len(text) - 1)] - ord("0")
        numbers = np.where(place < sizes, numbers * 10 + digits, numbers)
    ends = _SAMPLE.findall(last) if last.startswith(_BEGINS) else []
    return np.concatenate([numbers, _numbers(ends)], axis=1)


def _generated_ns(block: bytes) -> int | None:
    """When all queries were generated; None if these lines do not show it."""
    match = _GENERATED.search(block)
    if match is None:
        return None
    start_us, start_ns, us, ns = map(int, match.groups())
    return (start_us + us) * 1000 + start_ns + ns


def _first_tokens(block: bytes) -> np.ndarray:
    """The nanoseconds from start to each first token in these lines, int64 [tokens]."""
    times = []
    for _, done, delay, then in _TOKEN.findall(block):
        times.append(int(done) if done else int(delay) + int(then))
    return np.array(times, np.int64)
