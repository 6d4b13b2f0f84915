"""The answers a compliance test logs: LoadGen's own choice of samples re-derived, and the answers compared byte by byte. Pure.

Source of the choice: loadgen/loadgen.cc (IssueQueries, SampleComplete), loadgen/issue_query_controller.h (SequenceGen) and libstdc++'s
generate_canonical: a number between 0 and 1 belongs to each sample, drawn by std::mt19937 of its default seed; moved by an offset, drawn
from accuracy_log_rng_seed, it is logged where it is at most sampling_target / expected samples.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from compliance.loadgen import counts
from compliance.logs import Detail

_ROW = re.compile(rb'\{ "seq_id" : (\d{1,18}), "qsl_idx" : (\d{1,18}), "data" : "((?:[0-9A-Fa-f]{2})*)"[^{}]*\},?')
_DEFAULT_SEED = 5489
_BLOCK = 1 << 20
_LONGEST_LINE, _MOST_PROBLEMS = 64 << 20, 20
MOST_SAMPLES = 20_000_000
"""Of so many the choice and the order are re-derived one by one; of more they would take gigabytes."""


@dataclass(frozen=True)
class Row:
    """One answer. `seq_id`: the sample's number in the test; `index`: in the query sample library."""

    seq_id: int
    index: int
    data: bytes


@dataclass(frozen=True)
class Sampled:
    """mlperf_log_accuracy.json of a performance run: a sample that was issued again may stand there again."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """Answers of a test beside the accuracy run's.

    Attributes:
        equal: how many are the same, all bytes.
        different: those that are not.
        unknown: samples the accuracy run has no answer of.
    """

    equal: int
    different: tuple[Row, ...]
    unknown: tuple[int, ...]

    @property
    def exact(self) -> bool:
        return bool(self.equal) and not self.different and not self.unknown


def read(path: Path) -> Sampled:
    """logs.read_accuracy keeps one answer of each sample; here every one counts. Raises OSError if the file cannot be read."""
    rows: list[Row] = []
    problems: list[str] = []
    last = b""
    with path.open("rb") as f:
        for number, line in enumerate(iter(partial(f.readline, _LONGEST_LINE), b""), 1):
            last = line.strip()
            if found := _ROW.fullmatch(last):
                rows.append(Row(int(found[1]), int(found[2]), binascii.unhexlify(found[3])))
            elif last != (b"[" if number == 1 else b"]") and len(problems) < _MOST_PROBLEMS:
                problems.append(f"line {number} is no row of seq_id, qsl_idx and data in hexadecimal: {last[:40]!r}")
    if last != b"]":
        problems.append("the array is not closed: the file is cut")
    return Sampled(tuple(rows), tuple(problems))


def compare(rows: tuple[Row, ...], answers: Mapping[int, bytes]) -> Compared:
    known = [row for row in rows if row.index in answers]
    different = tuple(row for row in known if answers[row.index] != row.data)
    return Compared(len(known) - len(different), different, tuple(row.index for row in rows if row.index not in answers))


def expected(d: Detail, scenario: str) -> tuple[int, float] | None:
    """(samples issued, the share of them that is logged); None: a setting is missing."""
    count = counts.samples(d, scenario)
    keys = ("effective_accuracy_log_sampling_target", "effective_min_duration_ms", "effective_min_sample_count")
    target, duration_ms, least = (d.number(key) for key in keys)
    # Rate and expected latency are logged with six digits.
    name = {"SingleStream": "single_stream", "MultiStream": "multi_stream"}.get(scenario)
    latency_ns = d.number(f"requested_{name}_expected_latency_ns")
    rate = d.number("effective_target_qps") if name is None else 1e9 / latency_ns if latency_ns else None
    if count is None or target is None or duration_ms is None or least is None or rate is None or not 0 < count < 1 << 40:
        return None
    if not abs(rate * duration_ms) < 1e300:
        return None
    samples = max(int(rate * duration_ms / 1000) * counts.each(d, scenario), least)
    return int(count), (target / samples if samples > 0 else 0.0)


def chosen(count: int, share: float, seed: int) -> np.ndarray:
    """The numbers of the samples LoadGen logs, of the first `count`, int64, ascending."""
    draws = np.random.MT19937()
    draws._legacy_seeding(_DEFAULT_SEED)  # std::mt19937's own way, see compliance.order
    offsets = np.random.MT19937()
    offsets._legacy_seeding(seed % (1 << 32))
    offset = float(canonical(offsets, 1)[0])
    found = []
    for start in range(0, count, _BLOCK):
        moved = canonical(draws, min(_BLOCK, count - start)) + offset
        found.append(start + np.flatnonzero(np.where(moved < 1.0, moved, moved - 1.0) <= share))
    return np.concatenate([np.empty(0, np.int64), *found])


def canonical(engine: np.random.MT19937, count: int) -> np.ndarray:
    """std::uniform_real_distribution<double>{0, 1}: two draws of 32 bits, the first one the lower."""
    raw = engine.random_raw(2 * count).astype(np.float64)
    return (raw[::2] + raw[1::2] * 2.0**32) / 2.0**64


def mean_length(rows: tuple[Row, ...], answers: Mapping[int, bytes]) -> tuple[float, float] | None:
    """Mean bytes of the answers in a test and of the accuracy run's to the same samples; None: there is none to compare."""
    pairs = [(len(row.data), len(answers[row.index])) for row in rows if row.index in answers]
    return (sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs)) if pairs else None


def end_tokens(row: Row, ends: frozenset[int]) -> int:
    """How many end tokens an int32 answer ends with."""
    tokens = np.frombuffer(row.data[: len(row.data) // 4 * 4], np.int32)[::-1].tolist()
    return next((n for n, token in enumerate(tokens) if token not in ends), len(tokens))


def variants(rows: tuple[Row, ...]) -> Iterator[dict[int, bytes]]:
    """Every different answer once, no more than one of a sample at a time."""
    left: dict[int, list[bytes]] = {}
    for row in rows:
        if row.data not in left.setdefault(row.index, []):
            left[row.index].append(row.data)
    for turn in range(max(map(len, left.values()), default=0)):
        yield {index: of_sample[turn] for index, of_sample in left.items() if turn < len(of_sample)}
