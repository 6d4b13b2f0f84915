"""user.conf as LoadGen reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# As a sentence holds one: a forger's may be megabytes.
_LONGEST_WORD = 200


@dataclass(frozen=True)
class Refusal:
    """A line that LoadGen refuses: the whole sentence, what belongs there, what stands there, the line's number."""

    text: str
    expected: str
    found: str
    line: int


@dataclass(frozen=True)
class Conf:
    """user.conf. `values`: the whole key → its text, the last one counts; `lines`: where that is; `refused`: what LoadGen would refuse."""

    values: dict[str, str]
    lines: dict[str, int]
    refused: tuple[Refusal, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(refusal.text for refusal in self.refused)

    def look_up(self, model: str, scenario: str, key: str) -> tuple[str, float] | None:
        """(the line's key, its value) in LoadGen's order."""
        for full in (f"{model}.{scenario}.{key}", f"*.{scenario}.{key}", f"{model}.*.{key}", f"*.*.{key}"):
            if full in self.values:
                return full, float(self.values[full])
        return None

    def models(self) -> set[str]:
        return {full.rsplit(".", 2)[0] for full in self.values} - {"*"}


def parse(text: str) -> Conf:
    """As test_settings_internal.cc does it: words; `#` ends a line; key = value, the value a number."""
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
            found = repr(line.strip()[:60])
            text = f"line {number} is not `model.scenario.key = number`: {found}"
            refused.append(Refusal(text, "model.scenario.key = number", found, number))
        elif words[0].count(".") < 2:
            found = repr(words[0] if len(words[0]) <= _LONGEST_WORD else f"{words[0][:_LONGEST_WORD]}…")
            refused.append(Refusal(f"line {number}: {found} is not model.scenario.key", "model.scenario.key", found, number))
        else:
            values[words[0]], lines[words[0]] = words[2], number
    return Conf(values, lines, tuple(refused))


def _is_number(word: str) -> bool:
    """As C++ reads one: Python would take 1_000 and other scripts' digits too."""
    return bool(_NUMBER.fullmatch(word)) and abs(float(word)) < float("inf")
