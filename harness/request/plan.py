"""Flags → Request, with every default filled in and its reason. Nothing is written here. Impossible
requests raise UsageError with one sentence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from compliance import rules
from formats.cell import UNKNOWN
from harness.errors import UsageError
from harness.execution import machine, user_files
from harness.execution.environments import LOCKS
from harness.inputs import (
    architectures,
    dataset,
    keras_file,
    models,
    unlisted,
    used_files,
    user_weights,
)
from harness.inputs.architectures import UserFile
from harness.inputs.architectures import keras_file as keras_models
from harness.inputs.dataset import UserInputs
from harness.inputs.models import Model, Size
from harness.inputs.prompt_files import PromptOptions
from harness.request import engines, pins, replicas, serving, shards, tuning
from harness.request import official as official_runs
from harness.request.official import Chosen
from harness.request.options import Options
from harness.request.request import STEPS, Request
from scenarios.table import SCENARIOS
from scenarios.worker.preflight import available_memory_bytes
from sut import registry, variables
from sut.devices import DEVICES, HOST
from sut.keras import generate as keras_generate
from sut.registry import SUTS, SutSpec, of_keras
from sut.tuning import Place

if TYPE_CHECKING:  # it imports Jinja, which few runs need
    from harness.inputs.chat import Template

_DURATION_S = 10.0
_LONGEST_DURATION_S = 86_400
_LARGEST_BATCH = 1 << 20  # inputs of this batch are gigabytes
# Memory for weights, activations and a framework's buffers, over the bytes of the weights.
_MEMORY_FACTOR = 1.3
_OF_PROMPTS = attrgetter(
    "dataset",
    "field",
    "chat",
    "chat_option",
    "new_tokens",
    "seq_len",
    "weights",
    "trains",
    "benchmark",
)
"""The options that decide how prompts are read."""
_read: dict[tuple[object, ...], UserInputs] = {}
"""What decides prompts → the prompts, so that a sweep reads a file once."""
_TRAINED_COPIES = 4  # weights, gradients, and both moments of AdamW


def resolve(options: Options) -> Request:
    """Return the request with every default filled in. Raises UsageError if it is impossible."""
    used = used_files.stamps(_user_files(options))
    spec = SUTS[options.sut]
    round_ = rules.load(rules.CURRENT)
    benchmark = official_runs.of(options, round_)
    model = benchmark.model_of(_model(options)) if benchmark else _model(options)
    reasons: list[str] = []
    device = _device(options, spec, reasons)
    set_by_user = _variables(spec, device, options.thread_count, reasons)
    weights = _user_weights(options, model)
    size = _size(options, model, weights, device, reasons)
    _check(options, model, size)
    chat = _chat(options, model, weights, reasons)
    reasons += _of_scenario(options, model, size)
    end_tokens, why = _end_tokens(options, model, weights)
    reasons += engines.check(options, weights)
    streams = _streams(options, model, benchmark, reasons)
    serves = serving.of(options, streams, model, round_, reasons)
    given = _prompts(options, model, size, weights, chat, benchmark, used=used, reasons=reasons)
    count = _count(options, model, given)
    pinned = pins.of_cell(options.packages, options.python, options.sut, device)
    precision = _precision(options, spec, model, size, reasons)
    shards.check(options, spec, model, size)
    requested = _batch_size(options, size, device, count, reasons)
    tuned = tuning.of(options, place(options, model, device))
    replicated = replicas.of(options, spec, device, tuned)
    system = official_runs.system(options.system)
    official_run = None
    if benchmark:
        official_run = benchmark.run(weights, count, device, system, tuned.switches)
        reasons += official_run.notes
    batch_size = tuned.batch_size(requested)
    return Request(
        options=options,
        model=model,
        size=size,
        precision=precision,
        batch_size=batch_size,
        requested_batch=requested if batch_size != requested else None,
        device=device,
        duration=_DURATION_S if options.duration is None else options.duration,
        rules=round_,
        serving=serves,
        stream=streams,
        sut_options=engines.with_api(options),
        pins=pinned,
        end_tokens=end_tokens,
        weights=weights,
        used=used,
        chat=chat,
        given=given,
        count=count,
        tuned=tuned,
        variables=set_by_user,
        **replicated._asdict(),
        official_run=official_run,
        system=system,
        reasons=(*reasons, *why),
    )


def _variables(
    spec: SutSpec, device: str, threads: int | None, reasons: list[str]
) -> dict[str, str]:
    """Return the variables of the environment that change this cell. Adds the reason that names
    them. Raises UsageError for one that must not be set.
    """
    refusal = variables.refusal(spec, device, os.environ)
    if refusal:
        raise UsageError(refusal)
    set_by_user = variables.of_cell(spec, device, os.environ)
    if threads:
        check_thread_variables(threads, set_by_user)
    if set_by_user:
        texts = [f"{name}={value}" for name, value in set_by_user.items()]
        reasons.append(
            "these environment variables may change the figures, so they are part of the"
            f" cell: {' '.join(texts)}"
        )
    return set_by_user


def check_thread_variables(threads: int, environment: Mapping[str, str]) -> None:
    """Raises UsageError for a variable that sets threads although `--threads` does."""
    for variable in variables.of_threads(environment):
        raise UsageError(
            f"--threads {threads}: {variable} is set in the environment, and sets threads, too:"
            " unset it, or leave --threads out"
        )


def _streams(options: Options, model: Model, benchmark: Chosen | None, reasons: list[str]) -> bool:
    """Return whether the SUT hands over each token. Adds the reason if the benchmark decides it."""
    generates = architectures.of(model, options.trains).generates_tokens
    counts_tokens = benchmark is not None and benchmark.row.token_latencies
    streams = serving.streams(options, generates, counts_tokens)
    if counts_tokens and streams and options.stream is None:
        reasons.append(
            f"answers are streamed, because {options.benchmark} requires token latencies"
            " (--stream off leaves them out)"
        )
    if streams and not generates:
        raise _no_tokens("--stream", options, model)
    return streams


def place(options: Options, model: Model, device: str) -> Place:
    """Return the facts by which the switches of a cell are chosen."""
    return Place(
        sut=options.sut,
        architecture=model.architecture,
        device=device,
        scenario=options.scenario,
        uneven=is_uneven(options, model),
    )


def _user_files(options: Options) -> list[Path | None]:
    """The files and folders of the user that decide a figure."""
    model = Path(options.model or "")
    own = model if model.is_absolute() else None
    return [own, options.custom, options.weights, options.dataset]


def is_uneven(options: Options, model: Model) -> bool:
    """Return whether the inputs may have different lengths."""
    standard = options.standard or architectures.of(model, options.trains).standard
    return options.dataset is not None or standard == "uneven"


def _model(options: Options) -> Model:
    if options.model is not None and Path(options.model).is_absolute():
        return _model_of_file(options)
    if options.custom is not None:
        raise UsageError(
            f"--custom {options.custom}: is for a model in a .keras file (--model FILE.keras):"
            " leave it out"
        )
    task = options.task
    if options.trains and task is not None:
        raise UsageError(
            f"--task {task}: {options.scenario} trains, and only the other scenarios have"
            " tasks: leave it out"
        )
    if options.model is None:
        if options.weights is None:
            raise UsageError(f"--model is needed, or --weights DIR: {', '.join(models.names())}")
        return unlisted.model_of(options.weights, task)
    model = models.load(options.model)
    reader = architectures.of(model)
    has_config = reader.weights_inputs is not None and reader.weights_config is None
    if options.weights is not None and has_config:
        return unlisted.model_of(options.weights, task, model)
    return unlisted.of_task(model, task)


def _model_of_file(options: Options) -> Model:
    """The model of a user's own file. Raises UsageError for flags that the file decides, and for a
    file of a newer Keras than that of the environments.
    """
    flags = {"--size": options.size, "--weights": options.weights, "--task": options.task}
    for flag, value in flags.items():
        if value is not None:
            raise UsageError(f"{flag} {value}: the file of --model decides it: leave {flag} out")
    assert options.model
    model = keras_models.model(Path(options.model), options.custom, options.trains)
    installed = _installed_keras()
    assert model.file
    has_own = options.python or any(text.startswith("keras=") for text in options.packages)
    if not has_own and keras_file.newer(model.file.version, installed):
        raise UsageError(
            f"--model {options.model}: was saved by Keras {model.file.version}, and the"
            f" environments here have {installed}: save it with Keras {installed}, or give an"
            " interpreter with --python"
        )
    return model


@cache
def _installed_keras() -> str:
    """The version of Keras 3 in the locks. Empty if they have none."""
    text = (LOCKS / f"{SUTS['keras3-jax'].environment}-{HOST}.txt").read_text(encoding="utf-8")
    found = re.search(r"^keras==(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def _device(options: Options, spec: SutSpec, reasons: list[str]) -> str:
    if limits := machine.describe().group_limits:
        reasons.append(f"the control groups (a container's) limit this machine to {limits}")
    gpus = _gpus(spec)
    device = options.device or _default_device(spec, gpus, options.python, reasons)
    if device not in spec.devices:
        raise UsageError(f"--device {device}: {options.sut} runs on {' or '.join(spec.devices)}")
    if DEVICES[device].library and not gpus and machine.gpus_without_nvml():
        reasons.append(
            "NVML does not answer, so the memory, energy and clocks of the GPU are not known;"
            f" --device {device} runs"
        )
    elif DEVICES[device].accelerator and not gpus:
        raise UsageError(
            f"--device {device}: no {DEVICES[device].driver} answers on this machine (see ./run.sh"
            f" doctor): take --device {HOST}"
        )
    return device


def _gpus(spec: SutSpec) -> list[machine.Accelerator]:
    if not any(DEVICES[name].accelerator for name in spec.devices):
        return []
    return machine.accelerators()


def _size(
    options: Options,
    model: Model,
    weights: user_weights.Folder | None,
    device: str,
    reasons: list[str],
) -> Size:
    if model.file:
        reasons += model.file.notes
        return _changed(options, model, *model.sizes.values())
    if weights:
        reasons += weights.notes
        return _changed(options, model, weights.size)
    name = options.size
    if name is None:
        name, why = _default_size(options, model, device, _gpus(SUTS[options.sut]))
        reasons.append(why)
    if name not in model.sizes:
        raise UsageError(f"--size {name}: {model.name} has only {' and '.join(model.sizes)}")
    return _changed(options, model, model.sizes[name])


def _changed(options: Options, model: Model, size: Size) -> Size:
    """Return the size with the requested lengths of inputs and number of steps."""
    architecture = architectures.of(model, options.trains)
    prompt_tokens = options.prompt_tokens
    if prompt_tokens is not None or options.new_tokens is not None:
        flag = "--new-tokens" if prompt_tokens is None else "--prompt-tokens"
        if architecture.with_tokens is None:
            raise _no_tokens(flag, options, model)
        if prompt_tokens is not None and options.dataset is not None:
            raise UsageError(
                f"--prompt-tokens {prompt_tokens}: --dataset decides the lengths of the"
                " prompts: leave it out"
            )
        size = architecture.with_tokens(model, size, prompt_tokens, options.new_tokens)
    flags = (
        (
            f"--seq-len {options.seq_len}",
            options.seq_len,
            architecture.with_sequence_length,
            "models that predict from text",
        ),
        (
            f"--steps {options.steps}",
            options.steps,
            architecture.with_steps,
            "models that make images",
        ),
    )
    for flag, value, change, models_that_take_it in flags:
        if value is None:
            continue
        if change is None:
            raise UsageError(
                f"{flag}: is for {models_that_take_it}, and {model.name} does not: leave it out"
            )
        size = change(model, size, value)
    return size


def _no_tokens(flag: str, options: Options, model: Model) -> UsageError:
    here = f" in {options.scenario}" if options.trains else ""
    return UsageError(
        f"{flag}: is for models that generate tokens, and {model.name} does not{here}: leave it out"
    )


def _precision(
    options: Options, spec: SutSpec, model: Model, size: Size, reasons: list[str]
) -> str:
    if spec.remote:
        if options.precision is not None:
            raise UsageError(
                f"--precision {options.precision}: the engine decides it: leave it out"
            )
        return UNKNOWN
    precision = options.precision or size.precision
    precisions = spec.precisions
    if options.precision is None and precision not in precisions:
        precision = precisions[0]
        reasons.append(
            f"precision {precision}: {options.sut} does not compute in {size.precision}, the"
            " default of this size"
        )
    if precision not in precisions:
        raise UsageError(
            f"--precision {precision}: {options.sut} computes in {' or '.join(precisions)}"
        )
    judged = model.fit.get("tolerance", {}) if options.trains else model.tolerance
    if judged and precision not in judged:
        raise UsageError(
            f"--precision {precision}: {model.name} has limits of accuracy only for"
            f" {' and '.join(judged)}{' in a training' if options.trains else ''}"
        )
    return precision


def _check_quantized(options: Options, model: Model) -> None:
    """Raises UsageError if weights are to be quantised that a training changes, or if nothing
    judges their answers.
    """
    kind = options.sut_options.get(registry.QUANTIZE)
    if kind is None:
        return
    flag = f"--sut-option {registry.QUANTIZE}={kind}"
    if options.trains:
        raise UsageError(f"{flag}: is for answers, and {options.scenario} trains: leave it out")
    if "bfloat16" not in model.tolerance:
        raise UsageError(
            f"{flag}: the limits of bfloat16 judge quantised weights, and {model.name} has none:"
            " leave it out"
        )


def _prompts(
    options: Options,
    model: Model,
    size: Size,
    weights: user_weights.Folder | None,
    chat: Template | None,
    benchmark: Chosen | None,
    used: Mapping[Path, used_files.Stamp],
    reasons: list[str],
) -> UserInputs | None:
    """Read the user's prompts, so that a fault in them is found before anything is made or waited
    for. Raises UsageError.
    """
    path = options.dataset
    if path is None or path.is_dir() or model.file:
        return None
    key = (model.name, model.task, size.name, _OF_PROMPTS(options), *used.items())
    if key not in _read:
        of_benchmark = benchmark.read(size, weights) if benchmark else None
        given = UserFile(
            path=path,
            model=model,
            size=size,
            tokenizer=weights.tokenizer if weights else None,
            seq_len=options.seq_len,
            options=PromptOptions(field=options.field, chat=chat),
        )
        _read[key] = of_benchmark or dataset.read(given, options.trains)
    reasons += _read[key].notes
    return _read[key]


def _count(options: Options, model: Model, given: UserInputs | None) -> int | None:
    """The number of the user's inputs. None without --dataset, and in a training."""
    if options.dataset is None or options.trains:
        return None
    if given:
        return given.count
    count = architectures.of(model).count
    assert count
    return count(options.dataset)


def _batch_size(
    options: Options, size: Size, device: str, count: int | None, reasons: list[str]
) -> int:
    """Return the size of a batch. On the host the default is at most the number of the user's
    inputs, because a larger batch only repeats inputs.
    """
    batch_size = options.batch_size
    scenario = SCENARIOS[options.scenario]
    samples_a_query = scenario.samples_a_query
    if samples_a_query:
        if batch_size not in (None, samples_a_query):
            raise UsageError(
                f"--batch-size {batch_size}: a query of {options.scenario} has"
                f" {samples_a_query} samples, which are one batch: leave it out"
            )
        return samples_a_query
    if SUTS[options.sut].remote:
        return 1
    if batch_size is None:
        usual = size.batch_size.get("Offline" if scenario.serves else options.scenario, 1)
        if count and count < usual and not DEVICES[device].accelerator:
            reasons.append(
                f"batch {count}: as many as there are inputs (--batch-size {usual} repeats them)"
            )
            return count
        return usual
    if scenario.one_sample_a_query and batch_size != 1:
        others = [s.name for s in SCENARIOS.values() if s.loadgen and not s.one_sample_a_query]
        raise UsageError(
            f"--batch-size {batch_size}: {options.scenario} issues one sample a query; leave"
            f" --batch-size out, or use {' or '.join(others)}"
        )
    if not 1 <= batch_size <= _LARGEST_BATCH:
        raise UsageError(f"--batch-size {batch_size}: at least 1, and at most {_LARGEST_BATCH}")
    return batch_size


def _end_tokens(
    options: Options, model: Model, weights: user_weights.Folder | None
) -> tuple[tuple[int, ...], list[str]]:
    """Return (the ids at which an answer ends, notes on them for a reader). Answers of random
    weights or to random prompts have no end token.
    """
    eos = options.eos
    if not architectures.of(model, options.trains).generates_tokens:
        if eos is not None:
            raise _no_tokens(f"--eos {eos}", options, model)
        return (), []
    end_tokens: tuple[int, ...] = ()
    lacking = "--weights with a tokenizer"
    if weights and weights.tokenizer:
        end_tokens = weights.end_tokens
        lacking = "an eos_token_id in config.json or generation_config.json"
        if weights.other_end:
            lacking += f", and there is only the tokenizer's eos_token {weights.other_end}"
    if eos == "stop" and not end_tokens:
        raise UsageError(
            f"--eos stop: no end token is known. It needs {lacking}; --eos ignore gives every"
            " answer all its tokens"
        )
    if eos == "stop" and options.dataset is None:
        raise UsageError(
            "--eos stop: the answers to synthetic prompts have a fixed number of tokens: give your"
            " own prompts (--dataset FILE), or leave --eos out"
        )
    if options.dataset is None:
        return (), []
    if not end_tokens:
        notes = []
        if weights and weights.tokenizer:
            notes.append(f"no answer ends before it has all its tokens: an end needs {lacking}")
        return (), notes
    named = " or ".join(map(str, end_tokens))
    if eos == "ignore":
        return (), [
            (
                f"--eos ignore: an answer continues after its end token ({named}), and all its"
                " tokens count"
            )
        ]
    notes = [
        f"--eos stop: an answer ends at its end token ({named}), and only the tokens that were"
        " produced count"
    ]
    if eos is None:
        notes[0] += " (--eos ignore gives each answer all its tokens)"
    if weights and weights.other_end:
        notes.append(
            f"no answer ends at the tokenizer's eos_token {weights.other_end}, as in Transformers:"
            " it is no eos_token_id of generation_config.json or config.json"
        )
    return end_tokens, notes


def _user_weights(options: Options, model: Model) -> user_weights.Folder | None:
    if options.weights is None:
        return None
    if options.size is not None:
        raise UsageError(
            f"--weights {options.weights}: its config.json decides the size: leave out --size"
            f" {options.size}"
        )
    user_files.cache = options.cache
    user_files.python = options.python
    return user_weights.look(options.weights, model)


def _chat(
    options: Options, model: Model, weights: user_weights.Folder | None, reasons: list[str]
) -> Template | None:
    """The chat template for the prompts. None without --chat."""
    chat_option = options.chat_option
    if options.chat is None:
        if chat_option:
            raise UsageError(
                f"--chat-option {chat_option[0]}: sets a variable of the chat template:"
                " give --chat too"
            )
        reasons += _template_not_applied(options, model, weights)
        return None
    if not architectures.of(model, options.trains).generates_tokens:
        raise _no_tokens("--chat", options, model)
    if options.dataset is None and Path(options.chat).is_file():
        raise UsageError(
            f"--chat {options.chat}: was read as the name of a template, and is a file: give the"
            " file before --chat"
        )
    if weights is None or options.dataset is None:
        raise UsageError(
            "--chat: applies the template of --weights DIR to the prompts of --dataset FILE: give"
            " both"
        )
    if weights.tokenizer is None or weights.tokenizer.encode_marked is None:
        raise UsageError(
            f"--chat: only a tokenizer.json reads the marks of a template, and {weights.path} has"
            " none: write one with"
            ' AutoTokenizer.from_pretrained(DIR).backend_tokenizer.save("tokenizer.json")'
        )
    from harness.inputs import chat

    template = chat.of_folder(weights.path, options.chat, chat_option)
    reasons.append(f"the chat template of {weights.path} is applied to each prompt")
    if chat_option:
        reasons.append(f"variables of the chat template: {' '.join(chat_option)}")
    if template.dated:
        reasons.append(
            "the chat template may write today's date into each prompt, so a run of another"
            " day is another cell"
        )
    return template


def _template_not_applied(
    options: Options, model: Model, weights: user_weights.Folder | None
) -> Iterator[str]:
    """Yield a note if the folder of a chat model is given prompts without --chat. The prompts of a
    benchmark are complete.
    """
    generates = architectures.of(model, options.trains).generates_tokens
    if not generates or weights is None or options.dataset is None or options.benchmark:
        return
    from harness.inputs import chat

    if chat.has_template(weights.path):
        yield f"{weights.path} has a chat template, which is not applied: --chat applies it"


def _check(options: Options, model: Model, size: Size) -> None:
    """Raises UsageError for flags that exclude each other, and for files that cannot be read."""
    if options.duration is not None:
        _check_duration(options.duration, options.mode)
    _check_quantized(options, model)
    _check_files(options, model, size)


def _check_duration(duration: float, mode: str) -> None:
    if mode != "quick":
        raise UsageError(
            f"--duration {duration:g}: is for --mode quick; in mode {mode} the rules of the round"
            " decide the duration"
        )
    if not 0 < duration <= _LONGEST_DURATION_S:
        raise UsageError(f"--duration {duration:g}: more than 0 and at most {_LONGEST_DURATION_S}")
    if round(duration, 3) != duration:
        raise UsageError(
            f"--duration {duration}: LoadGen counts whole milliseconds: give at most three decimals"
        )


def _of_scenario(options: Options, model: Model, size: Size) -> Iterator[str]:
    """Yield notes for a reader on the flags of a training, and on a Keras SUT's time to the first
    token. Raises UsageError for flags that a training does not take.
    """
    if not options.trains:
        generates = architectures.of(model).generates_tokens
        if generates and size.inputs["new_tokens"] == 1 and of_keras(options.sut):
            yield keras_generate.FIRST_TOKEN
        return
    if options.mode not in STEPS:
        raise UsageError(
            f"--mode {options.mode}: {options.scenario} is not a scenario of LoadGen, so it cannot"
            " be submitted: take --mode valid"
        )
    if options.duration is not None:
        yield (
            f"--duration {options.duration:g} is not used: {options.scenario} times"
            f" {STEPS[options.mode]} steps in mode {options.mode}"
        )


def _check_files(options: Options, model: Model, size: Size) -> None:
    """Raises UsageError for a path that cannot be read, and if inputs have to be drawn and cannot
    be.
    """
    trains = options.trains
    if options.standard is not None:
        architectures.drawn(model, options.standard, trains)
    architecture = architectures.of(model, trains)
    if options.dataset is not None:
        architectures.reader(model, trains)
        if architecture.count:
            architecture.count(options.dataset)
        elif not options.dataset.is_file():
            fault = "there is no such file"
            if options.dataset.is_dir():
                fault = "is a directory"
            elif options.dataset.exists():
                fault = "is a device or a pipe, and is read more than once"
            raise UsageError(f"--dataset {options.dataset}: {fault}; give one file")
    elif architecture.check:
        architecture.check(model, size)
    if options.field is not None and (options.dataset is None or architecture.count):
        raise UsageError(
            f"--field {options.field}: names the prompts in a file of rows (--dataset FILE): leave"
            " it out, or give such a file"
        )
    if options.python is not None and SUTS[options.sut].environment == "core":
        raise UsageError(
            f"--python {options.python}: {options.sut} runs in the harness' own environment; leave"
            " it out"
        )


def _default_device(
    spec: SutSpec, gpus: list[machine.Accelerator], python: str | None, reasons: list[str]
) -> str:
    """Return the accelerator, if there is one and the environment has a lock for it or --python is
    given. Otherwise return the host.
    """
    if not gpus:
        return HOST
    device = next(name for name in spec.devices if DEVICES[name].accelerator)
    if python is None and not (LOCKS / f"{spec.environment}-{device}.txt").exists():
        why = (
            f"device {HOST}, although there is {gpus[0].name}: {spec.environment} has no lock"
            f" for {device} yet; --python PATH gives an interpreter that has the packages"
        )
        reasons.append(why)
        return HOST
    return device


def _default_size(
    options: Options, model: Model, device: str, gpus: list[machine.Accelerator]
) -> tuple[str, str]:
    full = model.sizes.get("full")
    if full is None:
        only = next(iter(model.sizes))
        return only, f"size {only}: {model.name} has no size full"
    if not DEVICES[device].accelerator:
        return "tiny", "size tiny: no accelerator in use (--size mid or full to choose)"
    if not gpus:
        return (
            "tiny",
            "size tiny: the memory of the GPU is not known (--size mid or full to choose)",
        )
    copies = _TRAINED_COPIES if options.trains and "lora" not in model.fit else 1
    need_bytes = copies * full.weight_bytes(full.precision) * _MEMORY_FACTOR
    gpu = gpus[0]
    memory_bytes = gpu.memory_bytes * shards.count(options)
    if memory_bytes >= need_bytes:
        return "full", f"size full: its {need_bytes / 1e9:.1f} GB fit into {gpu.name}"
    why = (
        f"size tiny: full needs {need_bytes / 1e9:.1f} GB, and {gpu.name} has"
        f" {memory_bytes / 1e9:.1f} GB"
    )
    return "tiny", why


def unsupported(request: Request) -> str | None:
    """Return why the cell cannot run, without starting a framework. None: it has to be tried."""
    model = request.model
    reason = registry.unsupported(
        request.options.sut,
        model=model.name,
        architecture=model.architecture,
        task=request.task,
        precision=request.precision,
        device=request.device,
    )
    if reason:
        return reason
    if request.stream and not registry.streams(request.options.sut, model.architecture):
        return (
            f"{request.options.sut} hands over only whole answers, and token latencies"
            " (--stream, --max-ttft-ms, --max-tpot-ms, Interactive) need each token"
        )
    if request.trains and not model.fit:
        return f"{model.name}.toml has no [fit], which says how the model is trained"
    if model.like and request.spec.reads_weights and request.spec.classes not in model.classes:
        return (
            f"{model.name} has no file here, and this SUT has no general class that loads it:"
            " take native-torch-eager"
        )
    return None


def memory_shortage(request: Request, precision: str) -> str | None:
    """Return a sentence if the weights, with the state of a training and one batch, would not fit
    into this machine's memory.

    None if they fit, or if that is not known.
    """
    if DEVICES[request.device].accelerator or not request.spec.reads_weights:
        return None
    batch_bytes = request.batch_bytes(precision)
    each_bytes = request.state_bytes(precision) * _MEMORY_FACTOR + batch_bytes
    here = 1 if request.launch else max(1, len(request.places))
    need_bytes = each_bytes * here
    available_bytes = available_memory_bytes()
    if available_bytes is None or need_bytes <= available_bytes:
        return None
    smaller = "smaller weights" if request.weights else "a smaller --size"
    if batch_bytes > each_bytes / 2:
        smaller = "a smaller --batch-size or shorter inputs"
    return (
        f"{request.model.name} {request.size.name} in {precision} needs about"
        f" {need_bytes / 1e9:.1f} GB of memory and {available_bytes / 1e9:.1f} GB are"
        f" available: choose {smaller}, or a machine with more memory"
    )
