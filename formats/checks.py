"""The documents that `audit --json` and the other commands with checks print, and their parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from formats.cell import MODES
from formats.fields import choices, least, matching


class Verdict(StrEnum):
    """How a check ends."""

    PASS = "PASS"
    FAIL = "FAIL"
    MANUAL = "MANUAL"
    """A person has to judge. It never fails a level."""
    NA = "N/A"
    """The check does not apply to this directory; its detail says why."""


class RequiredBy(StrEnum):
    """Who requires a check."""

    CHECKER = "checker"
    """MLCommons' submission checker of the round refuses what fails it."""
    RULES = "rules"
    """The rules' text requires it, and the checker does not look."""
    LOGS = "logs"
    """The logs: they are not those of one unchanged run of the test, or they contradict what the
    tree claims.
    """
    AUDIT = "audit"
    """The audit itself requires it, because it could not judge otherwise."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        text: the whole sentence.
        expected, found: the two values, if the sentence compares two; else empty.
        file: the file that is wrong, relative to the audited directory; empty: the check's file.
        line: the number of the line in the file, from 1.
        stricter: whether only the rules' text refuses this one, although others of the same check
            are also refused by MLCommons' checker, or shown by the logs.
    """

    text: str = field(metadata=matching(r"\S"))
    expected: str = ""
    found: str = ""
    file: str = ""
    line: int | None = field(default=None, metadata=least(1))
    stricter: bool = False

    def __str__(self) -> str:
        return self.text


Faults = Iterator[Fault | str]
"""Faults, or sentences that name no values."""


@dataclass(frozen=True)
class Check:
    """One rule applied to one directory.

    Attributes:
        id: the stable slug; unique among the checks of one place. Those of an audit are listed in
            compliance/findings/checks.toml.
        name: the subject of the check, in a few words for a reader.
        verdict: how it ended.
        detail: one sentence with the observation and, for a failure, the requirement of the rule.
        level: the lowest level that requires it: `quick`, `valid` or `submission`.
        rule_ids: the rules it applies, as ids of compliance/rules/sources.toml.
        rule: the requirements of these rules, in sentences. Empty if the check applies a
            convention of this project.
        source: the documents and sections where the rules are written.
        file: the file it is about, relative to the audited directory.
        fix: how to correct a failure.
        faults: each thing that is wrong, or that a person has to judge; the first hundred.
        faults_left_out: how many more there are.
        place: the scenario's or submitter's folder, if several are audited together; else empty.
        required_by: who requires it in the round of the audit.
    """

    id: str = field(metadata=matching("^[a-z0-9]+(-[a-z0-9]+)*$"))
    name: str = field(metadata=matching(r"\S"))
    verdict: Verdict
    detail: str
    level: str = field(default="quick", metadata=choices(MODES))
    rule_ids: tuple[str, ...] = ()
    rule: str = ""
    source: str = ""
    file: str = ""
    fix: str = ""
    faults: tuple[Fault, ...] = ()
    faults_left_out: int = field(default=0, metadata=least(0))
    place: str = ""
    required_by: RequiredBy = RequiredBy.AUDIT

    @property
    def key(self) -> str:
        """The place and the id, which are unique in the report of one audit."""
        return f"{self.place}/{self.id}" if self.place else self.id

    @property
    def title(self) -> str:
        """The place and the name, as a reader sees them."""
        return f"{self.place}: {self.name}" if self.place else self.name

    def line(self) -> str:
        """The check as a terminal shows it, in one line."""
        return escape(f"[{self.verdict}] {self.title}: {self.detail}")


Checks = list[Check]


@dataclass(frozen=True, kw_only=True)
class ResultLine:
    """One result that was judged: a scenario's folder, or a training. A field is empty if the log
    does not give the value.

    Attributes:
        place: the folder, relative to the audited directory.
        official: the official benchmark it is, or is mapped to.
        figure: the one number that MLCommons publishes of such a result, with its unit; for a
            training its ms/step.
        words: what the figure counts, or which latency it is.
        recomputed: the figure as other figures give it, or its limits; or why none do.
        verdict: LoadGen's own verdict, VALID or INVALID; for a training a text that says there is
            none.
        tested, began: when the test ran, by LoadGen's test_datetime and power_begin.
        logged: the scenario the log names.
        explained: sentences that explain LoadGen's verdict, for a folder of logs without a
            submission around it.
    """

    place: str
    division: str
    submitter: str
    system: str
    benchmark: str
    scenario: str
    official: str = ""
    figure: str = ""
    words: str = ""
    recomputed: str = ""
    verdict: str = ""
    tested: str = ""
    began: str = ""
    logged: str = ""
    explained: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The submitter, the benchmark, the scenario and the system, as far as they are known."""
        if not self.submitter:
            where = "" if self.place == "." else f"{self.place}: "
            return f"{where}{self.scenario}"
        benchmark = self.benchmark
        if self.official not in ("", benchmark):
            benchmark += f" ({self.official})"
        submitter = f"{self.submitter} ({self.division})"
        return f"{submitter}: {benchmark} {self.scenario} on {self.system}"

    @property
    def sentence(self) -> str:
        """A sentence with the title, the figure, the verdict and the date."""
        if not self.figure:
            return f"{self.title}: no figure"
        words = f" ({self.words})" if self.words else ""
        tested = f", tested {self.tested}" if self.tested else ""
        return f"{self.title}: {self.figure}{words}, {self.verdict}{tested}"


@dataclass(frozen=True, kw_only=True)
class Audited:
    """The document that `audit` prints with `--json`.

    Attributes:
        round: the round it was judged by, or several, separated by commas; empty if none could be
            chosen.
        round_chosen_by: how the round was chosen.
        level: the requested level.
        strict: whether every failure counts. If not, a failure of a check that only the rules' text
            requires does not.
        holds: whether the directory reaches the level.
        levels: the levels that it reaches, the lowest first.
        results: a line for each scenario's folder.
        checks: the checks of the requested level.
    """

    directory: str
    round: str
    round_chosen_by: str
    level: str = field(metadata=choices(MODES))
    strict: bool
    holds: bool
    levels: tuple[str, ...]
    results: tuple[ResultLine, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The document that `compliance`, `doctor` and `pack` print with `--json`."""

    checks: tuple[Check, ...]


def escape(text: str) -> str:
    """The text with every unprintable character written as an escape.

    Anybody can write names and logs. A character in them might move a terminal's cursor, end a line
    or reverse the direction of writing.
    """
    if text.isprintable():
        return text
    escaped = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
    return "".join(escaped)
