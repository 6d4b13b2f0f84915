"""Reads user.conf exactly as LoadGen does: the line that it uses for a setting, and the number that
it takes from the line.

LoadGen splits a line at blanks. The first word is the key, the second must be `=`, and all others
must be numbers, of which the last one counts. A `#` with blanks around it begins a comment if no
`=` is before it. A line that ends before its number has no effect. If one line is wrong, LoadGen
refuses the whole file (return code -22) and uses no line of it.

Source: loadgen/test_settings_internal.cc, FromConfig. tests/compliance/logs/test_user_conf.py
compares this module with the installed wheel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import filterfalse

from compliance.logs.digits import close, signed
from formats.checks import Fault

_WORD = re.compile(r"[^ \t\v\f\r]+")
_COMMENT = "#"
_BYTE_ORDER_MARK = "\ufeff"
_DOUBLE = re.compile(
    r"[+-]?(0x([0-9a-f]+(\.[0-9a-f]*)?|\.[0-9a-f]+)(p[+-]?[0-9]+)?"
    r"|([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?"
    r"|inf(inity)?|nan(\([0-9a-z_]*\))?)",
    re.IGNORECASE | re.ASCII,
)
_WHOLE = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_BASES = {2: 16, 3: 8, 4: 10}
"""Group of `_WHOLE` → the base of its digits."""
_MODULUS = 1 << 64
_INT_MODULUS = 1 << 32
# More digits than 64 bits have in any base.
_MOST_DIGITS = 64
_LONGEST_QUOTE = 60
# A float64 has 53 bits, and an integer may have 64.
_ROUNDING = 1e-15


class _Kind(Enum):
    """The ways in which LoadGen takes a number from a word."""

    WHOLE = auto()
    """An unsigned integer of 64 bits."""
    INT = auto()
    """An integer that is cut to a signed one of 32 bits and then extended to 64 bits."""
    DOUBLE = auto()
    ONLY_ONE = auto()
    """A switch that is on only for 1."""
    NOT_ZERO = auto()
    """A switch that is off only for 0."""


_MS = 1e6
"""Nanoseconds of a millisecond: times are in milliseconds, and LoadGen's log has nanoseconds."""
_READINGS = {
    "target_qps": (_Kind.DOUBLE, 1),
    "target_latency_percentile": (_Kind.DOUBLE, 0.01),
    "SingleStream.target_latency": (_Kind.DOUBLE, _MS),
    "MultiStream.target_latency": (_Kind.DOUBLE, _MS),
    "target_latency": (_Kind.WHOLE, _MS),
    "ttft_latency": (_Kind.WHOLE, _MS),
    "tpot_latency": (_Kind.WHOLE, _MS),
    "max_async_queries": (_Kind.INT, 1),
    "use_token_latencies": (_Kind.ONLY_ONE, 1),
    "infer_token_latencies": (_Kind.ONLY_ONE, 1),
    "sample_concatenate_permutation": (_Kind.ONLY_ONE, 1),
    "coalesce_queries": (_Kind.NOT_ZERO, 1),
    "performance_issue_same": (_Kind.NOT_ZERO, 1),
    "performance_issue_unique": (_Kind.NOT_ZERO, 1),
    "print_timestamps": (_Kind.NOT_ZERO, 1),
}
"""Key, or scenario.key → how LoadGen reads it, and the factor from the file's unit to the log's.
All other keys are `WHOLE` without a factor.
"""
_SIGNED = ("target_latency", "min_duration", "max_duration")
"""Keys whose numbers LoadGen stores as signed integers of 64 bits, in effect."""


@dataclass(frozen=True)
class Conf:
    """The content of user.conf.

    Attributes:
        values: the whole key, model.scenario.key → the text of its number; the last line of a key
            counts.
        lines: the whole key → the number of that line.
        refused: the lines for which LoadGen refuses the file.
        ignored: the lines that look like a setting and have no effect.
    """

    values: dict[str, str]
    lines: dict[str, int]
    refused: tuple[Fault, ...]
    ignored: tuple[Fault, ...]

    def look_up(self, model: str, scenario: str, key: str) -> tuple[str, str] | None:
        """(the whole key, the text of its number) of the line that LoadGen uses; None if there is
        none, or if LoadGen refuses the file. A line with the scenario comes before one with *, then
        a line with the model before one with *.
        """
        if self.refused:
            return None
        for full in (
            f"{model}.{scenario}.{key}",
            f"*.{scenario}.{key}",
            f"{model}.*.{key}",
            f"*.*.{key}",
        ):
            if full in self.values:
                return full, self.values[full]
        return None

    def models(self) -> set[str]:
        """The models in the lines, without names that have a `*`."""
        whole = [full for full in self.values if full.count(".") > 1]
        return {name for full in whole if "*" not in (name := full.rsplit(".", 2)[0])}


def parse(text: str) -> Conf:
    """Reads the lines of user.conf. A line ends only with a line feed."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    refused = []
    ignored = []
    for number, line in enumerate(text.split("\n"), 1):
        key, *rest = _WORD.findall(line) or [_COMMENT]
        if key == _COMMENT or rest[:1] == [_COMMENT]:
            continue
        if why := _refusal(key, rest):
            effect = "so LoadGen refuses the whole file (return code -22) and uses no line of it"
            refused.append(_fault(number, line, f"{why}, {effect}"))
        elif key.startswith(_COMMENT):
            continue
        elif key.startswith(_BYTE_ORDER_MARK):
            ignored.append(_fault(number, line, f"{_MARKED}, so LoadGen ignores the line"))
        elif rest[1:]:
            values[key] = rest[-1]
            lines[key] = number
        elif "=" in line:
            why = "LoadGen ignores the line, because it needs blanks around `=` and a number"
            ignored.append(_fault(number, line, why))
    return Conf(values, lines, tuple(refused), tuple(ignored))


_MARKED = "the file begins with a byte order mark, which belongs to the first word"


def _fault(number: int, line: str, why: str) -> Fault:
    quoted = repr(line.strip()[:_LONGEST_QUOTE])
    text = f"line {number}, {quoted}: {why}"
    return Fault(text, "model.scenario.key = number", quoted, line=number)


def _refusal(key: str, rest: Sequence[str]) -> str:
    """Why LoadGen refuses a line; empty if it accepts the line."""
    if rest and rest[0] != "=":
        if key.startswith(_COMMENT):
            return "no blank follows the `#` of the comment"
        if key.startswith(_BYTE_ORDER_MARK):
            return _MARKED
        return "the second word is not `=`"
    bad = next(filterfalse(_DOUBLE.fullmatch, rest[1:]), "")
    if bad.startswith(_COMMENT):
        return "a comment follows the `=`"
    return f"{bad[:_LONGEST_QUOTE]!r} is no number" if bad else ""


def read(scenario: str, key: str, word: str) -> float:
    """The number that LoadGen takes from a word, in the unit of its detail log. A switch is 0 or 1.

    Args:
        scenario: the scenario whose setting it is; `*` for a setting of all scenarios.
    """
    kind, factor = _reading(scenario, key)
    if kind is _Kind.DOUBLE:
        return as_double(word) * factor
    number = as_whole(word)
    if kind is _Kind.ONLY_ONE:
        return int(number == 1)
    if kind is _Kind.NOT_ZERO:
        return int(number != 0)
    if kind is _Kind.INT:
        half = _INT_MODULUS // 2
        number = (number + half) % _INT_MODULUS - half
    return number * int(factor) % _MODULUS


def _reading(scenario: str, key: str) -> tuple[_Kind, float]:
    every = _READINGS.get(key, (_Kind.WHOLE, 1))
    return _READINGS.get(f"{scenario}.{key}", every)


def trap(scenario: str, key: str, word: str) -> str:
    """The end of a sentence about a word that LoadGen reads otherwise than people do: the number
    that it reads, and the reason. Empty if it reads the same.
    """
    kind, factor = _reading(scenario, key)
    taken = read(scenario, key, word)
    meant = as_double(word) * factor
    effective = signed(taken) if kind is _Kind.WHOLE and key in _SIGNED else taken
    if kind is _Kind.NOT_ZERO:
        meant = meant != 0
    if math.isfinite(meant) and taken == effective and close(taken, meant, _ROUNDING):
        return ""
    if kind is not _Kind.WHOLE:
        return f"is read as {taken} by LoadGen: {_reason(kind, word)}"
    number = as_whole(word)
    milliseconds = f"{effective / factor:.10g} ms"
    if number * factor == taken == effective:
        return f"is read as {number} by LoadGen: {_reason(kind, word)}"
    if close(number, as_double(word), _ROUNDING):
        bits = 63 if key in _SIGNED else 64
        unit = "" if factor == 1 else "in nanoseconds "
        return f"is read as {milliseconds} by LoadGen: {unit}it does not fit into {bits} bits"
    return f"is read as {number} by LoadGen, and is {milliseconds} in effect: {_reason(kind, word)}"


def _reason(kind: _Kind, word: str) -> str:
    if kind is _Kind.DOUBLE:
        return "the number must be finite"
    if kind is _Kind.ONLY_ONE:
        return "only 1 turns it on"
    if _LEADING_ZERO.match(word):
        return "a leading 0 means octal"
    if not _WHOLE.fullmatch(word):
        return "an integer ends at the first character that is no digit"
    if word.startswith("-"):
        return "a negative number is taken modulo 2^64"
    return f"it does not fit into {32 if kind is _Kind.INT else 64} bits"


def as_whole(word: str) -> int:
    """The number that C++ reads from a word by `strtoull` with base 0. It ends at the first
    character that does not fit: `1e2` is 1 and `200.5` is 200. A leading 0 means octal.
    """
    match = _WHOLE.match(word)
    if match is None:
        return 0
    group = match.lastindex or 4
    digits = match[group].lstrip("0")[:_MOST_DIGITS] or "0"
    number = int(digits, _BASES[group])
    if number >= _MODULUS:
        return _MODULUS - 1
    return -number % _MODULUS if match[1] == "-" else number


def as_double(word: str) -> float:
    """The number that C++ reads by `strtod` from a word that is one number."""
    word = word.partition("(")[0]  # nan(…)
    if "x" not in word.lower():
        return float(word)
    try:
        return float.fromhex(word)
    except OverflowError:
        return -math.inf if word.startswith("-") else math.inf
