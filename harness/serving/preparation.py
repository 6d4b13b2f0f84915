"""A model to serve and the job of its worker, from the flags of `./run.sh serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from formats.job import Serving
from harness.errors import UsageError
from harness.inputs import chat, tokenizer, user_weights
from harness.inputs.architectures import Description
from harness.inputs.chat import Template
from harness.inputs.dataset import Inputs
from harness.inputs.tokenizer import Tokenizer
from harness.request.options import Options
from harness.request.plan import resolve, unsupported
from harness.request.request import Request
from sut import registry

_TOKENS = 512
_ANSWER_TOKENS = 128
_ANSWER_SHARE = 4
"""Defaults: the longest prompt with its answer, the longest answer, and its least share of both."""
_LEAST_BITS = 5
_TRIAL = {"a first message": [{"role": "user", "content": "Hello"}]}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model to serve.

    Attributes:
        model: its name in requests.
        prompt_tokens, new_tokens: the longest prompt and the longest answer.
        tokenizer: text → ids, and back.
        template: renders the messages of a chat; None: `no_template` says why there is none.
    """

    request: Request
    model: str
    prompt_tokens: int
    new_tokens: int
    tokenizer: Tokenizer
    template: Template | None
    no_template: str

    @property
    def vocabulary(self) -> int:
        """The ids of tokens are below it."""
        return int(self.request.size.config["vocab_size"])

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens at which an answer ends, unless the request has `ignore_eos`."""
        return self.request.weights.end_tokens if self.request.weights else ()

    @property
    def prompt_buckets(self) -> list[int]:
        """The lengths to which prompts are padded: powers of two and the longest one, ascending."""
        most = self.prompt_tokens
        powers = [1 << power for power in range(_LEAST_BITS, most.bit_length())]
        return [*(length for length in powers if length < most), most]

    def inputs(self, directory: Path) -> Inputs:
        """The lengths of prompts and answers. The worker reads no inputs from files."""
        config = {
            "prompt_buckets": self.prompt_buckets,
            "new_token_buckets": [self.new_tokens],
        }
        return Inputs(
            path=directory,
            synthetic=directory,
            fresh=directory,
            warmup_rows=0,
            digest="",
            count=0,
            arrays={},
            description=Description(config=config),
        )

    def facts(self) -> list[str]:
        """What a reader should know about the answers, a line each."""
        request = self.request
        streams = registry.streams(request.options.sut, request.model.architecture)
        parts = "token by token" if streams else "whole answers, because this SUT does not stream"
        ends = "an end token ends them" if self.ends else "no end token ends them"
        wait_ms = request.serving.max_wait_ms if request.serving else 0
        return [
            f"{self.model} on {request.options.sut}, {request.precision}, {request.device},"
            f" {parts}",
            f"batches of {_listed(request.batch_sizes)}, formed within {wait_ms:g} ms",
            f"prompts of at most {self.prompt_tokens} tokens, padded to"
            f" {_listed(self.prompt_buckets)}; answers of at most {self.new_tokens}; {ends}",
        ]


def plan(
    options: Options, max_tokens: int | None, new_tokens: int | None, max_wait_ms: float
) -> Served:
    """Fill in every default. Raises UsageError if the model cannot be served."""
    request = resolve(options)
    name = user_weights.title(request.weights.path) if request.weights else request.benchmark
    if not request.architecture.generates_tokens:
        raise UsageError(f"serve: {name} generates no tokens: give a model that does (see list)")
    reason = unsupported(request)
    if reason:
        raise UsageError(f"serve: {options.sut} cannot run {name}: {reason}")
    reader = _tokenizer(request)
    positions: int = request.size.config["max_position_embeddings"]
    tokens = min(_TOKENS, positions) if max_tokens is None else max_tokens
    if not 2 <= tokens <= positions:
        raise UsageError(f"--max-tokens {tokens}: from 2 to the {positions} positions of the model")
    new = new_tokens
    if new is None:
        new = min(_ANSWER_TOKENS, max(1, tokens // _ANSWER_SHARE))
    if not 1 <= new < tokens:
        raise UsageError(
            f"--new-tokens {new}: from 1 to {tokens - 1}, because a prompt and its answer have at"
            f" most {tokens} tokens (--max-tokens)"
        )
    template, no_template = _template(request, reader, name)
    return Served(
        request=replace(request, serving=Serving(max_wait_ms=max_wait_ms, percentile=100)),
        model=name,
        prompt_tokens=tokens - new,
        new_tokens=new,
        tokenizer=reader,
        template=template,
        no_template=no_template,
    )


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


def _template(request: Request, reader: Tokenizer, name: str) -> tuple[Template | None, str]:
    """The chat template of the user's folder, or None and the reason.

    It renders a first one, so that one that always fails is found here.
    """
    folder = request.weights.path if request.weights else None
    if folder is None or reader.encode_marked is None or not chat.has_template(folder):
        return None, (
            f"{name} has no chat template (a chat_template.jinja in the folder of --weights): use"
            " /v1/completions"
        )
    try:
        template = chat.of_folder(folder, chat.DEFAULT, ())
        template.texts(_TRIAL)
    except UsageError as e:
        return None, f"{name} has a chat template that fails ({e}): use /v1/completions"
    return template, ""


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
