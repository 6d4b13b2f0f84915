"""This benchmark damages files of a run directory, and checks that an audit of it keeps its promises.

    PYTHONPATH=. .cache/environments/core/bin/python -P benchmarks/audit_fuzz.py RUN... --seconds N [--seed S] [--keep DIR] [--only N]

The first `./run.sh list` makes that environment. The audit must not break off, warn, hang, take much memory, find something else in the
same files, or print unclean text. RUN is a small run directory, as `./run.sh --sut mock …` and `./run.sh compliance RUN` make it, or a
submission. One file of a copy is damaged at a time, of those the audit opens. Mostly values, keys and lines are damaged, because changed
bytes alone seldom get past a parser. Each input follows from the seed and its own number, so --only repeats one. A file that breaks a
promise of the audit is left in --keep.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import numpy as np

from compliance import audit, rules
from compliance.findings import page
from compliance.findings.verdict import Audit
from compliance.logs import strict_json

_DETAIL = "mlperf_log_detail.txt"
_MOST_S, _MOST_MB, _LONGEST_LINE = 10, 200, 12_000
_NUMBERS = "0 1 -1 0.5 -0.0 1e-320 1e19 1e308 1e999 NaN 2147483648 4294967295 9223372036854775808 -9223372036854775809"
_VALUES = 'true null [] {} [null] [-1] [0.5] [9223372036854775808] [[[0]]] {"a":1,"a":2} {"":null} "\\ud800" "\\u001b[2J" "a\\nb"'
_JSON = (*_NUMBERS.split(), *_VALUES.split(), "9" * 39, "1" + "0" * 400, "[" * 99 + "]" * 99)
_WORDS = (
    "x # ٣ %s{0} '\"& <script>alert(1)</script> \0 \x9b2J \x1b[2J \u202e \ud800 0x10 1_0 1e999 nan -1 hash= VALID v5.1 ../../../etc/passwd"
)
_NAMES = "Offline SingleStream MultiStream Server 9999-12-31T23:59:59Z 0001-01-01T00:00:00+23:59"
_LONGER = ("", "\r", "\u2028", "x" * 100_000, "9" * 400, "TEST PASS", "01-01-0001 00:00:00.000", "*.*.min_duration = 1e999")
_TEXT = (*_WORDS.split(" "), *_NAMES.split(), *_LONGER)
_VALUE, _LOGGED, _REST = (re.compile(pattern) for pattern in (r"[:=\[,(]\s*", r'"value": ', r"[^\s,\]})]*"))
_KEY, _WORD, _DIGITS = (re.compile(pattern) for pattern in (r'"[^"\n]{0,60}"\s*: ?', r"[^\s:=]+", r"-?\d+(\.\d+)?"))
_DTYPES = (np.float16, np.float32, np.int8, np.int32, np.uint64, np.complex64, "S3", "U2", "M8[s]")
Way = Callable[[Random, str], str]


# Ways to damage a text; its characters are bytes (latin-1).


def _piece(r: Random, text: str) -> str:
    """A text to put in a value's place: from another place, a small number, or hostile."""
    if r.random() < 0.2 and (match := _VALUE.search(text, r.randrange(len(text) + 1))):
        return text[match.end() : _end(text, match.end())]
    hostile = r.choice(_TEXT)
    value = r.choice((str(r.randrange(-2, 300)), r.choice(_JSON), hostile, json.dumps(hostile, ensure_ascii=r.random() < 0.5)))
    return value.encode("utf-8", "surrogatepass").decode("latin-1")


def _end(text: str, start: int) -> int:
    """The place where the JSON value that begins there ends, else the end of the word."""
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        match = _REST.match(text, start)
        return match.end() if match else start


def _value(r: Random, text: str) -> str:
    """The text with another value of some key or list; in a detail log mostly of an entry."""
    start = r.randrange(len(text) + 1)
    match = (r.random() < 0.7 and _LOGGED.search(text, start)) or _VALUE.search(text, start)
    return text[: match.end()] + _piece(r, text) + text[_end(text, match.end()) :] if match else text


def _number(r: Random, text: str) -> str:
    """Another sign, size or kind."""

    def other(old: str) -> str:
        near = str(int(old.split(".")[0]) + r.choice((-1, 1)))
        return r.choice((near, f"-{old}", f"{old}0", old[:-1], f"{old}e300", f"{old}.5", old * 30, f'"{old}"'))

    match = _DIGITS.search(text, r.randrange(len(text) + 1))
    return text[: match.start()] + other(match[0][:30]) + text[match.end() :] if match else text


def _key(r: Random, text: str) -> str:
    """A key stands twice, or is another."""
    if not (match := _KEY.search(text, r.randrange(len(text) + 1))):
        return text
    entry = text[match.start() : _end(text, match.end())]
    return text[: match.start()] + r.choice((f"{entry}, {match[0]}{_piece(r, text)}", '"x":0')) + text[match.start() + len(entry) :]


def _word(r: Random, text: str) -> str:
    match = _WORD.search(text, r.randrange(len(text) + 1))
    return text[: match.start()] + _piece(r, text) + text[match.end() :] if match else text


def _lines(r: Random, text: str) -> str:
    """A line, or some, gone, moved or twice."""
    lines = text.split("\n")
    start = r.randrange(len(lines))
    block = lines[start : start + r.choice((1, 1, 3, len(lines)))]
    if r.random() < 0.6:
        del lines[start : start + len(block)]
    if r.random() < 0.6:
        at = r.randrange(len(lines) + 1)
        lines[at:at] = block
    return "\n".join(lines)


def _bytes(r: Random, text: str) -> str:
    at, length = r.randrange(len(text) + 1), r.choice((0, 1, 1, 4, 100, len(text)))
    return text[:at] + r.choice(("", chr(r.randrange(256)), _piece(r, text), text[at : at + length] * 2)) + text[at + length :]


_WAYS: tuple[Way, ...] = (_value, _value, _value, _number, _key, _word, _lines, _bytes)


def _arrays(r: Random, content: bytes) -> bytes:
    """An .npz or .npy with one array of another type, shape or content, or without it. Raises what numpy does where that cannot be."""
    loaded = np.load(io.BytesIO(content), allow_pickle=False)
    arrays = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else {"": loaded}
    name, out = r.choice(sorted(arrays)), io.BytesIO()
    array = np.array(arrays.pop(name))
    array = array.astype(r.choice((array.dtype, *_DTYPES)))
    array = r.choice((array, array, array[:0], array[:-1], array.T, array.ravel(), array[None], array.reshape(-1)[:1].reshape(()))).copy()
    if array.size and array.dtype.kind in "fiu":
        value = r.choice((0, 1, np.inf, -np.inf, np.nan) if array.dtype.kind == "f" else (0, 127))
        array.flat[r.randrange(array.size) :: r.choice((1, 10**9))] = value
    if name:
        np.savez(out, **arrays, **({name: array} if r.random() < 0.8 else {}))  # type: ignore[arg-type]
    else:
        np.save(out, array)
    return out.getvalue()


def damaged(r: Random, content: bytes, name: str) -> bytes:
    """The content of a file of that name, damaged in one to eight ways; what is packed is mostly damaged inside."""
    if name.endswith(".gz") and r.random() < 0.9:
        return gzip.compress(damaged(r, gzip.decompress(content), name[:-3]), 1)
    if name.endswith((".npz", ".npy")) and r.random() < 0.7:
        with suppress(Exception):
            return _arrays(r, content)
    text = content.decode("latin-1")
    for _ in range(r.choice((1, 2, 4, 8))):
        text = r.choice(_WAYS)(r, text)
    return text.encode("latin-1")


# What is promised.


class Slow(BaseException):
    """No Exception: the audit must not take it for damage."""


def _too_slow(*_: object) -> None:
    raise Slow(f"more than {_MOST_S} s of CPU")


def _audited(run: Path, round: str | None) -> Audit:
    signal.setitimer(signal.ITIMER_PROF, _MOST_S)
    try:
        return audit.audit(run, round)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def broken(run: Path, round: str | None, again: bool) -> Iterator[str]:
    """The promises an audit of `run` breaks, a sentence each. `again`: whether it is audited twice."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        report = _audited(run, round)
        yield from _unclean(report)
        # A finding may tell the minute, which may just have ended.
        if again and _audited(run, round) != report and _audited(run, round) != _audited(run, round):
            yield "the same files, another finding"
    except (Exception, Slow) as e:  # noqa: BLE001 — whatever it is, it is what was looked for
        yield f"{type(e).__name__}: {e}"
    if (megabytes := (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024) > _MOST_MB:
        yield f"it took {megabytes:.0f} MB"


def _unclean(report: Audit) -> Iterator[str]:
    for check in report.checks:
        line = check.line()
        if check.id.startswith("audit-of-") or "MemoryError" in line or "Unable to allocate" in line:
            yield line
        if not line.isprintable() or len(line) > _LONGEST_LINE:
            yield f"{check.key}: a line of {len(line)} characters, {'' if line.isprintable() else 'not '}printable"
    document = report.as_json("x", "submission")
    try:
        if strict_json.parse(json.dumps(document, ensure_ascii=False)) != document:
            yield "the JSON is another than what was found"
    except ValueError as e:
        yield f"the JSON: {e}"
    html = page.render("x", "submission", report, datetime.now(UTC))
    if "<script" in html.lower() or not html.replace("\n", "").isprintable():
        yield "the page holds what it must escape"


# The campaign.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="that input alone")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    flags = parser.parse_args()
    warnings.simplefilter("error")
    signal.signal(signal.SIGPROF, _too_slow)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        runs = [Path(shutil.copytree(run, scratch / str(n) / "run")) for n, run in enumerate(flags.run)]
        kinds: dict[str, list[Path]] = {}
        for path in (path for run in runs for path in _opened(run)):
            kinds.setdefault("a system's .json" if path.parent.name == "systems" else path.name, []).append(path)
        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (2 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        return _fuzz(scratch, kinds, flags)


def _opened(run: Path) -> list[Path]:
    """The files that an audit of `run` opens, but for those it only compares with the submitted ones."""
    files: set[Path] = set()
    sys.addaudithook(lambda event, args: files.add(Path(args[0])) if event == "open" and isinstance(args[0], str | Path) else None)
    audit.audit(run)
    compared = {path for name in (_DETAIL, "mlperf_log_summary.txt") for path in run.glob(f"raw/*/{name}")}
    return sorted(path for path in files - compared if path.is_relative_to(run) and path.is_file())


def _fuzz(scratch: Path, kinds: dict[str, list[Path]], flags: argparse.Namespace) -> int:
    tried, failures, end = Counter[str](), Counter[str](), time.monotonic() + flags.seconds
    number = flags.only or 0
    while time.monotonic() < end and flags.only in (None, number):
        r = Random(f"{flags.seed} {number}")
        kind = _DETAIL if r.random() < 0.3 else r.choice(list(kinds))  # which most checks are about
        path, round = r.choice(kinds[kind]), r.choice((None, None, None, *rules.rounds()))
        before = path.read_bytes()
        path.write_bytes(damaged(r, before, path.name))
        run = scratch / path.relative_to(scratch).parts[0] / "run"
        for why in broken(run, round, r.random() < 0.2):
            same = re.sub(r"\d+", "0", why)[:160]
            failures[same] += 1
            if failures[same] == 1:
                kept = flags.keep / f"{flags.seed}-{number}" / path.relative_to(scratch)
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, kept)
                print(f"input {number} of seed {flags.seed} (round {round}), kept as {kept}: {why[:600]!r}", flush=True)
        path.write_bytes(before)
        tried[kind] += 1
        number += 1
    print(f"{tried.total()} inputs of seed {flags.seed}: " + ", ".join(f"{kind} {count}" for kind, count in sorted(tried.items())))
    print("\n".join(f"{count} times {why!r}" for why, count in failures.most_common()) or "no promise was broken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
