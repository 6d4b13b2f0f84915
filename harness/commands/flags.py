"""What may stand on the command line, and one sentence for what may not."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import UsageError
from harness.execution.environments import ROOT
from sut.registry import ALIASES, SUTS

_SYNONYMS = {"fp32": "float32", "bf16": "bfloat16", "float": "float32"}
_EPILOG = """\
commands (bare flags mean `run`):
  run      measure one cell: ./run.sh --sut keras3-jax --scenario Offline --model mistral
  list     the SUTs, models, sizes and scenarios there are
  audit    judge a run or submission directory from its files alone
  comply   MLPerf's compliance tests on a finished run directory: ./run.sh comply runs/…/valid-1
  pack     the trees of --mode submission runs as one: ./run.sh pack runs --out submission
  doctor   is this machine fit to measure on?
  test     the harness' own tests (arguments go to pytest)

exit codes: 0 good, 1 a cell or an audit failed, 2 usage, 3 environment, 4 internal, 130 interrupted"""


class _Once(argparse.Action):
    """A flag that names the cell: given twice, the second would silently win."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        if getattr(namespace, self.dest) is not None:
            raise UsageError(f"{option} {value}: given twice, and one command measures one cell; give it once")
        setattr(namespace, self.dest, value)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see ./run.sh {self.prog.removeprefix('./run.sh').strip()} --help)".replace("  ", " "))


def run_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh",
        usage="./run.sh [run] --sut SUT --scenario SCENARIO --model MODEL [flags]",
        allow_abbrev=False,
        description="Measure ML frameworks with the official MLPerf LoadGen: speed, accuracy and evidence of what ran.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--sut", required=True, action=_Once, help="framework + backend + execution, such as keras3-jax (see list)")
    add("--scenario", required=True, action=_Once, help="Offline (throughput) or SingleStream (latency)")
    add("--model", required=True, action=_Once, help="bert, gemma, mistral (see list)")
    add(
        "--mode",
        default="quick",
        help="quick (default): seconds; valid: the round's official settings, 10 minutes and more; submission: the same, to be packed",
    )
    add("--size", help="tiny, base or full; default: full on an accelerator that holds it, else tiny")
    add("--precision", help="float32, tf32 or bfloat16; default: the size's")
    add("--batch-size", type=int, metavar="N", help="samples a step in Offline; default: the size's")
    add(
        "--seq-len",
        type=int,
        metavar="N",
        help="length a model that predicts pads its inputs to; default: the size's, or with --dataset that of the longest prompt",
    )
    add("--eos", help="stop: an answer ends at its end token; ignore: it gets all its tokens; default: stop with --dataset and --weights")
    add(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="your prompts: text, one a paragraph; or .jsonl with `prompt` and optional `max_new_tokens`",
    )
    add(
        "--weights",
        type=Path,
        metavar="DIR",
        help="your own weights of the model: a Hugging Face folder with config.json, safetensors and perhaps a tokenizer",
    )
    add("--device", choices=("cpu", "cuda"), help="default: cuda where there is an accelerator")
    add("--load-seconds", type=float, metavar="S", help="how long a quick performance test is to last (default 10)")
    add("--sut-option", action="append", default=[], metavar="NAME=VALUE", help="an option of the SUT (see list); may be repeated")
    add("--out", type=Path, default=ROOT / "runs", metavar="DIR", help="where run directories go (default: runs/ beside run.sh)")
    add("--python", type=Path, metavar="PATH", help="use this interpreter for the SUT, such as a vendor's GPU image; nothing is installed")
    add("--submitter", default="unofficial", metavar="NAME", help="the submitter's folder in the tree (default: unofficial)")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add_common(parser)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache", type=Path, default=ROOT / ".cache", metavar="DIR", help="environments, weights, inputs, references (default: .cache/)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output, nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress; of an audit, only what fails")


def model_names() -> list[str]:
    from harness.inputs import models

    return models.names()


def known_name(value: str, names: Iterable[str], flag: str) -> str:
    """The name as we spell it, whatever its case. Raises UsageError with the names there are."""
    names = list(names)
    spelt = {n.lower(): n for n in names}
    if value.lower() in spelt:
        return spelt[value.lower()]
    raise UsageError(f"{flag} {value}: unknown{did_you_mean(value, names)}; there are {', '.join(names)}")


def sut_name(value: str) -> str:
    return ALIASES.get(value.lower()) or known_name(value, SUTS, "--sut")


def did_you_mean(value: str, names: Iterable[str]) -> str:
    if value.lower() in _SYNONYMS:
        return f" (did you mean {_SYNONYMS[value.lower()]}?)"
    near = difflib.get_close_matches(value.lower(), [n.lower() for n in names], 1)
    return f" (did you mean {next(n for n in names if n.lower() == near[0])}?)" if near else ""


def submitter_name(name: str) -> str:
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise UsageError(f"--submitter {name!r}: letters, digits, - and _ only, since it names a folder")
    return name


def sut_options(sut: str, given: list[str]) -> dict[str, Any]:
    """`--sut-option name=value`, checked against what the registry says the SUT takes."""
    known = SUTS[sut_name(sut)].options
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if name in known and not equals:
            raise UsageError(f"--sut-option {text}: a value is needed, {name}=…")
        if name not in known:
            there = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"--sut-option {text}: {sut} has no such option{did_you_mean(name, known)}; {there}")
        kind = known[name][0]
        if isinstance(kind, tuple):
            found[name] = known_name(value, kind, f"--sut-option {name}=")
            continue
        try:
            found[name] = kind(value)
        except ValueError:
            raise UsageError(f"--sut-option {text}: the value is {'a number' if kind is float else 'a whole number'}") from None
    return found
