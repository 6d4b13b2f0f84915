"""The flags of a cell. Each field of `Options` is the flag, its help, its default and the value
that the plan reads.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from compliance import rules
from formats.cell import (
    END_TOKENS,
    MODES,
    PRECISIONS,
    STANDARD_INPUTS,
    TASKS,
    SweepMark,
    fields_with,
)
from harness.errors import UsageError
from harness.execution.environments import ROOT
from harness.inputs import keras_file
from harness.request import pins
from harness.request.flags import (
    Parser,
    add_output,
    did_you_mean,
    known_name,
    model_names,
    size_name,
    sut_name,
)
from scenarios.table import SCENARIOS
from sut import tuning
from sut.devices import DEVICES, accelerators
from sut.registry import SUTS

OFF = "off"
EACH = "each"
"""Values of `--tuned`. `each` is for a sweep."""
_OF_GAINS = ("on", "both")
"""Values of `--tuned` in earlier releases, which came with gains of one machine."""
AUTO = "auto"
_KEYS = {"packages": "with"}
"""Fields with another name than their flag, because that is a word of Python."""
_GONE = {
    "--whole": "a row of a .jsonl file may have several lines",
    "--lora": "Fit trains the parameters that the framework's own LoRA adapts",
}
"""See `Parser`."""


def _name(value: str) -> str:
    if not value or not all(c.isalnum() or c in "-_" for c in value):
        raise UsageError(
            f"--submitter {value!r}: use only letters, digits, - and _, because it is the name of a"
            " folder"
        )
    return value


def _interpreter(value: str) -> str:
    """A path is made absolute. A bare name stays: it is looked up on PATH later, and an error says
    if it is missing.
    """
    return str(Path(value).absolute()) if "/" in value else value


def _dataset(value: str) -> str | Path:
    """The name of a standard data set, or a path. `./uneven` is a path."""
    return value if value in STANDARD_INPUTS else Path(value)


def _model(value: str) -> str:
    """The name of a model, or the absolute path of a user's own file."""
    if value.lower() in model_names():
        return value.lower()
    if keras_file.is_path(value):
        return str(Path(value).absolute())
    raise UsageError(
        f"--model {value}: unknown{did_you_mean(value, model_names())}; there are"
        f" {', '.join(model_names())}. Any other model: --weights DIR, a Hugging Face folder,"
        " without --model; or --model FILE.keras"
    )


def _tuned(value: str) -> str:
    """`off`, or the names of switches joined by `+`."""
    if value.lower() == OFF:
        return OFF
    if value.lower() in _OF_GAINS:
        raise UsageError(
            f"--tuned {value}: gains of one machine say nothing of another: measure each switch"
            " here by ./run.sh sweep --tuned each, and then name those that help: --tuned A+B"
        )
    if value.lower() == EACH:
        raise UsageError(f"--tuned {value}: gives several cells: use it with ./run.sh sweep")
    names = [known_name(name, tuning.switches(), "--tuned") for name in value.split("+")]
    return "+".join(sorted(set(names)))


def _replicas(value: str) -> str:
    """The number of replicas, or `1/N`: one of N."""
    count = value.removeprefix("1/")
    if not count.isdecimal() or int(count) < 2:
        raise UsageError(
            f"--replicas {value}: give 2 or more; a sweep also measures one of them by itself"
        )
    return f"1/{int(count)}" if value.startswith("1/") else str(int(count))


def _threads(value: str) -> str:
    """`auto`, or the number of threads."""
    if value.lower() == AUTO:
        return AUTO
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"--threads {value}: give a number from 1 on, or {AUTO}")
    return str(int(value))


def _benchmarks() -> list[str]:
    """The official benchmarks that can be run with the user's files."""
    return [name for name, row in rules.load().benchmarks.items() if row.workload]


def _one_of(names: Callable[[], Iterable[str]], flag: str) -> Callable[[str], str]:
    return lambda value: known_name(value, names(), flag)


def _flag(
    help: str | Callable[[], str],
    *,
    read: Callable[[Any], Any] | None = None,
    default: Any = None,
    alias: tuple[str, ...] = (),
    in_sweep: bool = True,
    **arguments: Any,
) -> Any:
    """Return a field that is a flag.

    Args:
        help: a text, or a function that is called when the parser is created, if the text lists
            entries of a table.
        read: the given value → the value used. Raises UsageError for a value that is not allowed.
        alias: its further names in a single run, which mean something else in a sweep.
        in_sweep: whether a sweep has it.
        arguments: those of argparse, such as `metavar` and `type`; `choices` is a function that is
            called when the parser is created. The type is that of the field.
    """
    metadata: dict[str, Any] = {
        "help": help,
        "read": read,
        "arguments": arguments,
        "alias": alias,
        "in_sweep": in_sweep,
    }
    return field(metadata=metadata, default=default)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `./run.sh run`, in the order of its --help. If a value is None, the plan chooses
    it and gives the reason.
    """

    sut: str = _flag(
        "framework + backend + execution, such as keras3-jax (see list)",
        read=sut_name,
        default=MISSING,
    )
    scenario: str = _flag(
        lambda: " or ".join(f"{s.name} ({s.measures})" for s in SCENARIOS.values()),
        read=_one_of(lambda: SCENARIOS, "--scenario"),
        default=MISSING,
    )
    model: str | None = _flag(
        lambda: (
            f"{', '.join(model_names())} (see list), or your own .keras file; default: with"
            " --weights what its config.json says"
        ),
        read=_model,
    )
    task: str | None = _flag(
        "predict or generate; default: the first task of the model; most have only one (see list)",
        read=_one_of(lambda: TASKS, "--task"),
    )
    benchmark: str | None = _flag(
        lambda: (
            f"an official benchmark with your files: {', '.join(_benchmarks())}; it needs --weights"
            " and --dataset"
        ),
        read=_one_of(_benchmarks, "--benchmark"),
    )
    mode: str = _flag(
        "quick (default): some seconds; valid: the official settings of the round, 10 minutes and"
        " more; submission: as valid, with compliance tests and all files that pack needs",
        read=_one_of(lambda: MODES, "--mode"),
        default="quick",
    )
    size: str | None = _flag(
        "tiny, mid or full, without --weights; default: full if it fits into an accelerator,"
        " otherwise tiny",
        read=size_name,
    )
    precision: str | None = _flag(
        "float32, tf32, bfloat16 or float16; default: that of the size, with --weights that of the"
        " folder, but float32 instead of float16",
        read=_one_of(lambda: PRECISIONS, "--precision"),
    )
    batch_size: int | None = _flag(
        lambda: (
            "samples a step in"
            f" {' or '.join(s.name for s in SCENARIOS.values() if not s.one_sample_a_query)};"
            " default: that of the size, with --weights that of full, and on a CPU at most the"
            " inputs of --dataset. In Server the largest batch"
        ),
        metavar="N",
    )
    seq_len: int | None = _flag(
        "for models that predict: tokens to which inputs are padded; default: that of the size, or"
        " with --dataset that of the longest prompt",
        metavar="N",
    )
    prompt_tokens: int | None = _flag(
        "for models that generate: tokens of each synthetic prompt; default: that of the size",
        metavar="N",
    )
    new_tokens: int | None = _flag(
        "for models that generate: tokens of each answer, unless --dataset gives others; default:"
        " that of the size, or 128 with --dataset and --weights; 1 measures the time to the first"
        " token",
        metavar="N",
    )
    steps: int | None = _flag(
        "for models that make images: denoising steps; default: that of the size, 50 with"
        " --weights",
        metavar="N",
    )
    stream: str | None = _flag(
        "on: the SUT hands over each token at once, and LoadGen measures token latencies; it needs"
        " a SUT that streams (see list); default: off, unless a limit of tokens needs it",
        read=_one_of(lambda: ("off", "on"), "--stream"),
        nargs="?",
        const="on",
    )
    max_wait_ms: float | None = _flag(
        "in Server: how long a request waits for others of its batch (default 0: a batch begins as"
        " soon as the SUT is free)",
        metavar="MS",
    )
    max_latency_ms: float | None = _flag(
        "in Server: the limit of a request's latency; default: that of the round",
        metavar="MS",
    )
    max_ttft_ms: float | None = _flag(
        "in Server: the limit of the time to the first token; implies --stream; default: that of"
        " the round",
        metavar="MS",
    )
    max_tpot_ms: float | None = _flag(
        "in Server: the limit of the time per output token after the first; implies --stream;"
        " default: that of the round",
        metavar="MS",
    )
    rate: float | None = _flag(
        "in Server: requests a second; default: the highest rate within the limits is found",
        metavar="R",
    )
    eos: str | None = _flag(
        "stop: an answer ends at its end token; ignore: it gets all its tokens; default: stop with"
        " --dataset and --weights",
        read=_one_of(lambda: END_TOKENS, "--eos"),
    )
    dataset: Path | None = _flag(
        "your prompts: text, one a paragraph or a line; or .jsonl, .csv or .tsv with `prompt` and"
        " perhaps `max_new_tokens`, or `label` to train on; for a model of pictures a folder of"
        " JPEG and PNG files; for a .keras file its inputs as .npz or .npy, or such a folder;"
        " or uneven:"
        " random inputs of seeded lengths, from a tenth of the full length on (default of bert);"
        " synthetic: random inputs of full length (default of the other models)",
        type=_dataset,
        metavar="FILE",
    )
    field: str | None = _flag(
        "the field or column of --dataset with the prompts, such as question; default: the first of"
        " prompt, text, question, instruction, input and messages that is there",
        metavar="NAME",
    )
    chat: str | None = _flag(
        "apply the chat template of --weights to each prompt; NAME: which one of several",
        nargs="?",
        const="default",
        metavar="NAME",
    )
    chat_option: tuple[str, ...] = _flag(
        "a variable of the chat template, such as enable_thinking=false; may be repeated",
        read=tuple,
        default=(),
        action="append",
        metavar="NAME=VALUE",
    )
    weights: Path | None = _flag(
        "your own weights of the model: a Hugging Face folder with config.json, safetensors and"
        " perhaps a tokenizer; for sam Meta's tensors; default: seeded random ones",
        metavar="DIR",
    )
    custom: Path | None = _flag(
        "a Python file with the registered layers of your .keras file",
        metavar="FILE",
    )
    device: str | None = _flag(
        lambda: f"default: {' or '.join(accelerators())} if there is an accelerator",
        choices=lambda: tuple(DEVICES),
    )
    duration: float | None = _flag(
        "requested seconds of a quick performance test (default 10)",
        metavar="S",
    )
    sut_option: tuple[str, ...] = _flag(
        "an option of the SUT (see list), such as in_flight=2; may be repeated",
        read=tuple,
        default=(),
        action="append",
        metavar="NAME=VALUE",
    )
    tuned: str = _flag(
        "A+B: apply these switches of sut/tuning.toml together; off (default): the SUT as it comes."
        " In a sweep also each: off, and one cell for each switch of the SUT",
        read=_tuned,
        metavar="SET",
        default=OFF,
    )
    replicas: str | None = _flag(
        "in Offline and Server: run the SUT N times, each on its own accelerator or cores of this"
        " machine, behind one LoadGen (docs/use/scale.md). In a sweep also one of N by itself, in"
        " turns, which gives the efficiency",
        read=_replicas,
        metavar="N",
    )
    replicas_on: str | None = _flag(
        "with --replicas: run them on the nodes of a cluster: slurm (a step), ray (the cluster of"
        " this machine) or ray://HOST:PORT",
        metavar="CLUSTER",
        alias=("--on",),
    )
    slurm: tuple[str, ...] = _flag(
        "with --on slurm: options of srun, such as partition=gpu,nodes=2; may be repeated",
        read=tuple,
        default=(),
        action="append",
        metavar="NAME=VALUE,…",
        in_sweep=False,
    )
    interface: str | None = _flag(
        "with --on: the address of this machine on which replicas connect, which their nodes reach"
        " (default: 127.0.0.1, which only this machine reaches)",
        metavar="ADDRESS",
    )
    threads: str = _flag(
        "threads of the SUT, or of each replica, which is pinned to as many cores; auto (default):"
        " all processors that this process may use, at most the quota of a container, rounded up",
        read=_threads,
        metavar="N",
        default=AUTO,
    )
    packages: tuple[str, ...] = _flag(
        "another release of a package of the SUT's environment, such as jax==0.10.1, or a build of"
        " yours: FILE.whl, or PACKAGE@PATH of a wheel or a source folder; may be repeated",
        read=pins.spelt_all,
        default=(),
        action="append",
        metavar="PACKAGE==VERSION",
    )
    out: Path = _flag(
        "folder for run directories (default: runs/ next to run.sh)",
        metavar="DIR",
        default=ROOT / "runs",
    )
    python: str | None = _flag(
        "use this interpreter for the SUT, such as a vendor's GPU image: a path, or a name on PATH;"
        " nothing is installed",
        read=_interpreter,
        metavar="PATH",
    )
    submitter: str = _flag(
        "name of the submitter's folder in a submission (default: unofficial)",
        read=_name,
        metavar="NAME",
        default="unofficial",
    )
    system: Path | None = _flag(
        "a JSON file with fields of the system description that no program knows, such as cooling",
        metavar="FILE",
    )
    cache: Path = _flag(
        "folder for environments, weights, inputs and references (default: .cache/)",
        metavar="DIR",
        default=ROOT / ".cache",
    )
    standard: str | None = None
    """`synthetic` or `uneven`, if --dataset names one of them instead of a file. Not a flag."""
    command: str = ""
    """The command line as it was typed. Not a flag."""
    sweep: SweepMark | None = None
    """The measurement's place in a sweep. Not a flag."""

    @property
    def trains(self) -> bool:
        """Whether training steps are timed, without LoadGen."""
        return not SCENARIOS[self.scenario].loadgen

    @property
    def thread_count(self) -> int | None:
        """See `Cell.threads`."""
        return None if self.threads == AUTO else int(self.threads)

    @property
    def sut_options(self) -> dict[str, Any]:
        """`--sut-option` as name → value. Raises UsageError for an option or value that the SUT
        does not take.
        """
        return read_sut_options(self.sut, self.sut_option)


def read_sut_options(sut: str, texts: Iterable[str]) -> dict[str, Any]:
    """`--sut-option name=value` as name → value, checked against the SUT's options in the
    registry.
    """
    kinds = SUTS[sut_name(sut)].options
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name in kinds and not equals:
            raise UsageError(f"--sut-option {text}: needs a value, {name}=…")
        if name not in kinds:
            there = f"it takes {', '.join(kinds)}" if kinds else "it takes none"
            raise UsageError(
                f"--sut-option {text}: {sut} has no such option{did_you_mean(name, kinds)}; {there}"
            )
        if name in values:
            raise UsageError(f"--sut-option {name}: is given twice; give it once")
        kind = kinds[name][0]
        if isinstance(kind, tuple):
            values[name] = known_name(value, kind, f"--sut-option {name}=")
            continue
        try:
            values[name] = kind(value)
        except ValueError as e:
            rule = str(e)
            if kind in (int, float):
                rule = "the value is a number" if kind is float else "the value is a whole number"
            raise UsageError(f"--sut-option {text}: {rule}") from None
    return values


def _single(name: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return the reader of a flag's value in a single run, which takes no list."""

    def checked(text: str) -> Any:
        if ("," in text or text == "all") and not Path(text).exists():
            raise UsageError(
                f"{flag(name)} {text}: this command takes one value; ./run.sh sweep takes lists"
            )
        return read(text)

    return checked


_TYPES = {"int": int, "float": float, "Path": Path}
"""Type of a field → what argparse converts its value to. Other values stay as they are."""
FLAGS = {each.name: each for each in fields(Options) if each.metadata}
"""The fields that are flags, by name."""
OF_SWEEP = tuple(name for name, each in FLAGS.items() if each.metadata["in_sweep"])
"""The fields that are flags of a sweep."""
LISTS = tuple(name for name in FLAGS if name in fields_with("sweeps"))
"""The flags that may take several values in a sweep. Each value gives further cells."""


def add_flags(parser: Parser, only: Iterable[str] = tuple(FLAGS)) -> None:
    """Add one argument for each field in `only`."""
    parser.gone |= _GONE
    for name, each in FLAGS.items():
        if name not in only:
            continue
        metadata = each.metadata
        arguments: dict[str, Any] = {
            "required": each.default is MISSING,
            "type": _TYPES.get(str(each.type).partition(" |")[0], str),
            **metadata["arguments"],
        }
        if name in LISTS:
            arguments["type"] = _single(name, arguments["type"])
        if "choices" in arguments:
            arguments["choices"] = arguments["choices"]()
        parser.add_argument(
            flag(name),
            *metadata["alias"],
            dest=name,
            help=_told(metadata["help"]),
            **arguments,
        )


def add_list_flags(parser: Parser) -> None:
    """Add the same flags for many cells. Values stay as they are typed. The flags in LISTS may take
    several, separated by commas.
    """
    parser.gone |= _GONE
    for name in OF_SWEEP:
        each = FLAGS[name]
        arguments = each.metadata["arguments"]
        metavar = "A,B" if name in LISTS else arguments.get("metavar")
        optional = {key: arguments[key] for key in ("nargs", "const") if key in arguments}
        action = "append" if each.default == () else "store"
        parser.add_argument(
            flag(name),
            dest=name,
            action=action,
            metavar=metavar,
            help=_told(each.metadata["help"]),
            **optional,
        )


def flag(name: str) -> str:
    """The flag of a field, such as `--batch-size`."""
    return f"--{_KEYS.get(name) or name.replace('_', '-')}"


def name_of(flag: str) -> str:
    """The inverse of `flag`. The dashes in front may be missing."""
    key = flag.removeprefix("--")
    return next((name for name, of in _KEYS.items() if of == key), key.replace("-", "_"))


def spelt(name: str, value: str) -> str:
    """A value of a flag in LISTS, in our spelling. Raises UsageError for an unknown name."""
    reader = FLAGS[name].metadata["read"]
    return str(reader(value)) if reader else value


def given(namespace: argparse.Namespace) -> dict[str, list[str]]:
    """Name of a flag → its values as they were typed, for each flag of `add_list_flags` that was
    given.
    """
    values = {}
    for name in OF_SWEEP:
        value = getattr(namespace, name)
        if value is not None:
            values[name] = value if isinstance(value, list) else [value]
    return values


def parse(words: Sequence[str]) -> Options:
    """The flags of one cell. Raises UsageError."""
    parser = Parser()
    add_flags(parser)
    add_output(parser)
    return read(parser.parse_args(words), shlex.join(["./run.sh", *words]))


def _told(help: str | Callable[[], str]) -> str:
    return help() if callable(help) else help


def read(namespace: argparse.Namespace, command: str) -> Options:
    """The flags with names in our spelling, paths absolute and defaults filled in. Raises
    UsageError.
    """
    values: dict[str, Any] = {"command": command}
    for name, each in FLAGS.items():
        value = getattr(namespace, name, None)
        if name == "dataset" and isinstance(value, str):
            values["standard"] = value
        elif value is not None:
            value = value.absolute() if isinstance(value, Path) else value
            values[name] = each.metadata["read"](value) if each.metadata["read"] else value
    return Options(**values)
