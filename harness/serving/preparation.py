"""The job of the worker and the settings of the server, from the flags of `./run.sh serve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from formats.job import SERVE, Job, Limits
from harness.errors import UsageError
from harness.execution import kernels, machine
from harness.execution.environments import Environment
from harness.inputs import chat, tokenizer, user_weights
from harness.inputs.chat import Template
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.tokenizer import Tokenizer
from harness.measurement.reference import workload_config
from harness.request.options import Options
from harness.request.plan import resolve, unsupported
from harness.request.request import Request
from harness.serving import protocol
from harness.serving.handlers import LEFT, Counts, Settings
from sut.contract import Workload

_TOKENS, _ANSWER_TOKENS, _ANSWER_SHARE = 512, 128, 4
"""Defaults: the longest prompt with its answer, the longest answer, and its least share of both."""
_LEAST_BUCKET = 32
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The names of this machine that others cannot reach."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags that `./run.sh run` does not have. None: a default that depends on the model."""

    max_tokens: int | None
    new_tokens: int | None
    max_wait_ms: float
    max_queue: int
    timeout_s: float
    max_request_bytes: int
    eos: str
    chat: str
    chat_option: tuple[str, ...]
    logprobs: bool


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model to serve.

    Attributes:
        prompt_buckets: the lengths to which prompts are padded, in tokens, ascending.
        batch_sizes: the sizes of batches, ascending.
    """

    request: Request
    settings: Settings
    prompt_buckets: tuple[int, ...]
    batch_sizes: tuple[int, ...]

    @property
    def shapes(self) -> int:
        """The number of shapes that the warm-up runs."""
        worker = self.settings.worker
        return len(worker["shapes"]) + len(worker["scores"])

    def job(self, directory: Path, checkpoint: Checkpoint) -> Job:
        """The job of the worker. It reads no inputs from files."""
        request = self.request
        shapes = {
            "prompt_buckets": list(self.prompt_buckets),
            "new_token_buckets": [self.settings.limits.new_tokens],
        }
        workload = Workload(
            model=request.model.name,
            task=request.task,
            config=workload_config(request, shapes),
            checkpoint=checkpoint.path,
            precision=request.precision,
            batch_size=request.batch_size,
            device=request.device,
            backend=request.spec.backend,
            execution=request.spec.execution,
            options=dict(request.sut_options),
        )
        return Job(
            sut=request.options.sut,
            architecture=request.model.architecture,
            workload=workload,
            scenario=request.options.scenario,
            test=SERVE,
            procedure=SERVE,
            benchmark=request.benchmark,
            answer=request.model.answer_keys,
            inputs=directory,
            synthetic=directory,
            warmup_rows=0,
            limits=Limits(min_duration_ms=0, min_query_count=0, performance_sample_count=0),
            log_dir=directory,
            batch_sizes=self.batch_sizes,
            places=request.places,
        )

    def process_env(self, environment: Environment) -> Mapping[str, str]:
        """The environment variables of the worker."""
        request = self.request
        described = machine.describe()
        folder = kernels.folder(
            request.options.cache, environment, described, request.device, request.places
        )
        return {**kernels.variables(folder), **request.spec.process_env}


def plan(options: Options, flags: Flags) -> Served:
    """Fill in every default. Raises UsageError if the model cannot be served."""
    request = resolve(options)
    name = _name(request)
    if not request.architecture.generates_tokens:
        raise UsageError(f"serve: {name} generates no tokens: give a model that does (see list)")
    reason = unsupported(request)
    if reason:
        raise UsageError(f"serve: {options.sut} cannot run {name}: {reason}")
    reader = _tokenizer(request)
    tokens = _most_tokens(request, flags)
    new = _most_new(tokens, flags)
    ends = request.weights.end_tokens if request.weights and flags.eos == "stop" else ()
    template, no_template = _template(request, reader, name, flags)
    limits = protocol.Limits(
        model=name,
        vocabulary=request.size.config["vocab_size"],
        prompt_tokens=tokens - new,
        new_tokens=new,
        ends=bool(ends),
        scores=flags.logprobs,
    )
    buckets = _powers(_LEAST_BUCKET, limits.prompt_tokens)
    sizes = _powers(1, request.batch_size)
    # If nothing is compiled, only the largest shape runs, which shows that the memory is enough.
    first = -1 if request.spec.execution == "eager" else 0
    settings = Settings(
        limits=limits,
        tokenizer=reader,
        template=template,
        no_template=no_template,
        timeout_s=flags.timeout_s,
        max_request_bytes=flags.max_request_bytes,
        worker={
            "max_wait_ms": flags.max_wait_ms,
            "max_queue": flags.max_queue,
            "shapes": list(product(sizes, buckets))[first:],
            "scores": buckets[first:] if flags.logprobs else (),
        },
        sut=f"{options.sut} {request.precision}",
    )
    return Served(
        request=replace(request, end_tokens=tuple(ends)),
        settings=settings,
        prompt_buckets=buckets,
        batch_sizes=sizes,
    )


def _name(request: Request) -> str:
    if request.weights:
        return user_weights.title(request.weights.path)
    return request.benchmark


def _tokenizer(request: Request) -> Tokenizer:
    """That of the user's folder, else the one of bytes. Raises UsageError if the vocabulary is too
    small for it.
    """
    own = request.weights.tokenizer if request.weights else None
    reader = own or tokenizer.of_bytes(closing=False)
    vocabulary = request.size.config["vocab_size"]
    if vocabulary < reader.vocabulary:
        raise UsageError(
            f"serve: {reader.name} has {reader.vocabulary} ids, and the model has {vocabulary}: put"
            " the model's tokenizer.json into the folder of --weights"
        )
    return reader


def _most_tokens(request: Request, flags: Flags) -> int:
    positions = request.size.config["max_position_embeddings"]
    tokens = flags.max_tokens
    if tokens is None:
        tokens = min(_TOKENS, positions)
    if not 2 <= tokens <= positions:
        raise UsageError(f"--max-tokens {tokens}: from 2 to the {positions} positions of the model")
    return int(tokens)


def _most_new(tokens: int, flags: Flags) -> int:
    new = flags.new_tokens
    if new is None:
        new = min(_ANSWER_TOKENS, max(1, tokens // _ANSWER_SHARE))
    if not 1 <= new < tokens:
        raise UsageError(
            f"--new-tokens {new}: from 1 to {tokens - 1}, because a prompt and its answer have at"
            f" most {tokens} tokens (--max-tokens)"
        )
    return new


def _template(
    request: Request, reader: Tokenizer, name: str, flags: Flags
) -> tuple[Template | None, str]:
    """The chat template of the user's folder, or None and the reason."""
    if request.weights and reader.encode_marked:
        try:
            return chat.of_folder(request.weights.path, flags.chat, flags.chat_option), ""
        except UsageError:
            if flags.chat != chat.DEFAULT or flags.chat_option:
                raise
    elif flags.chat_option:
        raise UsageError(f"--chat-option {flags.chat_option[0]}: {name} has no chat template")
    return None, (
        f"{name} has no chat template (a chat_template.jinja in the folder of --weights): use"
        " /v1/completions"
    )


def _powers(least: int, most: int) -> tuple[int, ...]:
    """`least`, its doubles below `most`, and `most`."""
    sizes = []
    size = least
    while size < most:
        sizes.append(size)
        size *= 2
    return (*sizes, most)


def facts(served: Served, streams: bool, host: str, url: str) -> list[str]:
    """What a reader should know about the server, a line each."""
    request, settings = served.request, served.settings
    limits = settings.limits
    whole = "token by token" if streams else "whole answers, because this SUT does not stream"
    ready = (
        f"{limits.model} on {request.options.sut}, {request.precision}, {request.device},"
        f" {whole}: {url}"
    )
    policy = (
        f"batches of {_listed(served.batch_sizes)}, formed within"
        f" {settings.worker['max_wait_ms']:g} ms; at most {settings.worker['max_queue']}"
        f" requests wait, each for at most {settings.timeout_s:g} s"
    )
    ends = "they end at their end token" if limits.ends else "no end token ends them"
    lengths = (
        f"prompts of at most {limits.prompt_tokens} tokens, padded to"
        f" {_listed(served.prompt_buckets)}; answers of at most {limits.new_tokens}; {ends}"
    )
    lines = [ready, policy, lengths]
    if host not in _LOOPBACK:
        lines.append(
            f"--host {host}: every machine that reaches this address may send requests,"
            " because the server asks for no key"
        )
    return [
        *lines,
        (
            f"curl {url}/completions -H 'Content-Type: application/json' -d '{{\"model\":"
            f' "{limits.model}", "prompt": "Once upon a time", "max_tokens": 16}}\''
        ),
        "Ctrl-C ends it",
    ]


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def summary(counts: Counts, compiled: int) -> list[str]:
    """What the server did, a line each."""
    requests = dict(counts.requests)
    answered = requests.pop(200, 0)
    left = requests.pop(LEFT, 0)
    named = [f"{count} × {status}" for status, count in sorted(requests.items())]
    statuses = f" ({', '.join(named)})" if named else ""
    lines = [
        (
            f"{counts.requests.total()} requests: {answered} answered, with"
            f" {counts.prompt_tokens:,} prompt tokens and {counts.new_tokens:,} new ones; {left}"
            f" left by their client; {sum(requests.values())} refused{statuses}"
        )
    ]
    if compiled:
        lines.append(f"{compiled} programs were compiled while requests waited")
    return lines
