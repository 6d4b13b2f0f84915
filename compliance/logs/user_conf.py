"""Reads user.conf as LoadGen does: its settings, and the lines that LoadGen would refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
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

    def look_up(self, model: str, scenario: str, key: str) -> tuple[str, float] | None:
        """(the whole key, its value) of the line that LoadGen uses; None if there is none. A line
        with the scenario comes before one with *, then a line with the model before one with *.
        """
        for full in (
            f"{model}.{scenario}.{key}",
            f"*.{scenario}.{key}",
            f"{model}.*.{key}",
            f"*.*.{key}",
        ):
            if full in self.values:
                return full, float(self.values[full])
        return None

    def models(self) -> set[str]:
        """The models in the lines, without *."""
        return {full.rsplit(".", 2)[0] for full in self.values} - {"*"}


def parse(text: str) -> Conf:
    """Reads the lines `key = number`. As in LoadGen, words are split at blanks, and a single `#` as
    a word begins a comment.

    Source: test_settings_internal.cc.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    refused = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if "#" in words:
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


def _is_number(word: str) -> bool:
    """Return whether C++ reads a word as a finite number. Python would also take 1_000 and the
    digits of other scripts.
    """
    return bool(_NUMBER.fullmatch(word)) and abs(float(word)) < float("inf")
