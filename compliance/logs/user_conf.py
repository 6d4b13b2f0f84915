"""Reads user.conf as LoadGen does: its settings, and the lines that LoadGen would refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_WHOLE = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_MOST = (1 << 64) - 1
# A sentence quotes at most so many characters of a word, because a forged word may have megabytes.
_LONGEST_WORD = 200


@dataclass(frozen=True)
class Refusal:
    """A line that LoadGen refuses.

    Attributes:
        text: the whole sentence.
        expected: the correct form.
        found: the content of the line.
        line: the line's number, from 1.
    """

    text: str
    expected: str
    found: str
    line: int


@dataclass(frozen=True)
class Conf:
    """The content of user.conf.

    Attributes:
        values: the whole key, model.scenario.key → the text of its number; the last line of a key
            counts.
        lines: the whole key → the number of that line.
        refused: the lines that LoadGen would refuse.
    """

    values: dict[str, str]
    lines: dict[str, int]
    refused: tuple[Refusal, ...]

    def look_up(
        self, model: str, scenario: str, key: str, whole: bool = False
    ) -> tuple[str, float] | None:
        """(the whole key, the value that LoadGen reads) of the line that LoadGen uses; None if
        there is none. A line with the scenario comes before one with *, then a line with the model
        before one with *.

        `whole`: LoadGen reads the key as an integer.
        """
        for full in (
            f"{model}.{scenario}.{key}",
            f"*.{scenario}.{key}",
            f"{model}.*.{key}",
            f"*.*.{key}",
        ):
            if full in self.values:
                word = self.values[full]
                return full, as_whole(word) if whole else as_double(word)
        return None

    def models(self) -> set[str]:
        """The models in the lines, without *."""
        return {full.rsplit(".", 2)[0] for full in self.values} - {"*"}


def parse(text: str) -> Conf:
    """Reads the lines `key = number`. As in LoadGen, words are split at blanks, and a single `#`
    begins a comment, but not after a number.

    Source: test_settings_internal.cc.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    refused = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "#" in words[:2]:
            words = words[: words.index("#")]
        if not words:
            continue
        if len(words) != 3 or words[1] != "=" or not _is_number(words[2]):
            quoted = repr(line.strip()[:60])
            sentence = f"line {number} is not `model.scenario.key = number`: {quoted}"
            refused.append(Refusal(sentence, "model.scenario.key = number", quoted, number))
        elif words[0].count(".") < 2:  # more are allowed: a model's name may contain dots
            key = words[0]
            if len(key) > _LONGEST_WORD:
                key = f"{key[:_LONGEST_WORD]}…"
            form = "model.scenario.key"
            sentence = f"line {number}: {key!r} is not {form}"
            refused.append(Refusal(sentence, form, repr(key), number))
        else:
            values[words[0]] = words[2]
            lines[words[0]] = number
    return Conf(values, lines, tuple(refused))


def as_whole(word: str) -> int:
    """The number that C++ reads from a word by `strtoull` with base 0. It ends at the first
    character that does not fit: `1e2` is 1 and `200.5` is 200. A leading 0 means octal.
    """
    match = _WHOLE.match(word)
    if match is None:
        return 0
    sign, digits = match.groups()
    octal = digits[0] == "0" and digits.isdecimal()
    number = min(int(digits, 8 if octal else 0), _MOST)
    return -number & _MOST if sign == "-" else number


def as_double(word: str) -> float:
    """The number that C++ reads from a word by `strtod`."""
    return float(int(word, 16)) if "x" in word.lower() else float(word)


def _is_number(word: str) -> bool:
    """Return whether C++ reads a word as a finite number. Python would also take 1_000 and the
    digits of other scripts.
    """
    return bool(_NUMBER.fullmatch(word)) and abs(as_double(word)) < float("inf")
