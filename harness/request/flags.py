"""Shared by the command lines of all commands: flags, known names, and one sentence for each
mistake.
"""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from formats.cell import SIZES
from harness.errors import UsageError
from harness.execution.environments import ROOT
from sut.registry import ALIASES, GONE, SUTS, TRIED_FIRST

_SYNONYMS = {
    **TRIED_FIRST,
    "fp32": "float32",
    "float": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "latency": "SingleStream",
    "throughput": "Offline",
    "training": "Fit",
    "--framework": "--sut",
    "--backend": "--sut",
    "--batch": "--batch-size",
    "--dtype": "--precision",
    "--data": "--dataset",
    "--prompts": "--dataset",
    "--max-batch": "--batch-size",
    "--load-seconds": "--duration",
    "--max-new-tokens": "--new-tokens",
    "--max-tokens": "--new-tokens",
    "--checkpoint": "--weights",
    "--gpu": "--device",
    "--output": "--out",
}


def without(command: str, *flags: str) -> str:
    """The command without these flags and their values."""
    kept = []
    before = ""
    for word in shlex.split(command):
        is_value = before in flags
        before = word
        if not is_value and word.partition("=")[0] not in flags:
            kept.append(word)
    return shlex.join(kept)


class _Once(argparse.Action):
    """Refuse a flag that is given twice, because the second value would silently win."""

    given = False

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: Any,
        option: str | None = None,
    ) -> None:
        if self.given and option:
            raise UsageError(f"{option} {value}: given twice; give it once")
        self.given = True
        setattr(namespace, self.dest, value)


class Parser(argparse.ArgumentParser):
    """An argument parser of a command that raises UsageError for a mistake, with the command that
    shows the help.

    `gone`: a flag of earlier releases → what does it now.
    """

    def __init__(
        self, command: str = "", *, gone: Mapping[str, str] | None = None, **settings: Any
    ):
        super().__init__(prog=f"./run.sh {command}".strip(), allow_abbrev=False, **settings)
        self.gone = dict(gone or {})
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with argparse's message, and with the flag that was meant, if one is
        similar.
        """
        unknown = message.removeprefix("unrecognized arguments: ").split(" ")[0]
        name = unknown.partition("=")[0]
        if name in self.gone:
            message += f"; {name} is gone: {self.gone[name]}"
        elif unknown != message.split(" ")[0] and unknown.startswith("--"):
            message += did_you_mean(name, self._option_string_actions)
        raise UsageError(
            f"{message} (see ./run.sh {self.prog.removeprefix('./run.sh').strip()} --help)".replace(
                "  ", " "
            )
        )


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the flags that commands share: the form of the output, and `--cache`, the folder of
    environments, weights, inputs and references. run.sh reads `--cache` too, because the harness'
    environment is there.
    """
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / ".cache",
        metavar="DIR",
        help="environments, weights, inputs, references (default: .cache/)",
    )
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the form of the output."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on standard output, nothing else"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress; of an audit, only what fails"
    )


def model_names() -> list[str]:
    """The names of all models."""
    from harness.inputs import models

    return models.names()


def known_name(value: str, names: Iterable[str], flag: str) -> str:
    """Return the known name in our spelling, for a value in any case. Raises UsageError that lists
    the known names.
    """
    names = list(names)
    spelt = {n.lower(): n for n in names}
    if value.lower() in spelt:
        return spelt[value.lower()]
    raise UsageError(
        f"{flag} {value}: unknown{did_you_mean(value, names)}; there are {', '.join(names)}"
    )


def size_name(value: str, names: Iterable[str] = SIZES) -> str:
    """The size's name in our spelling. Raises UsageError for others, with the reason for `base`."""
    if value.lower() == "base":
        raise UsageError(
            "--size base: `base` means BERT base, 12 layers of 768, to most readers, and the middle"
            " size of bert has 6 of 384 here; give --size mid, or --size full for the published"
            " model"
        )
    return known_name(value, names, "--size")


def sut_name(value: str, flag: str = "--sut") -> str:
    """The SUT's name as the registry spells it. An alias becomes its SUT's name. Raises UsageError
    for other names.
    """
    if value.lower() in GONE:
        raise UsageError(f"{flag} {value}: it is gone: {GONE[value.lower()]}")
    return ALIASES.get(value.lower()) or known_name(value, SUTS, flag)


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """` (did you mean …?)` if a known name is similar, else an empty text."""
    names = list(names)
    if _SYNONYMS.get(value.lower()) in names:
        return f" (did you mean {_SYNONYMS[value.lower()]}?)"
    near = difflib.get_close_matches(value.lower(), [n.lower() for n in names], 1)
    return f" (did you mean {next(n for n in names if n.lower() == near[0])}?)" if near else ""
