"""The flags of a SUT that sends its requests to an engine (`SutSpec.remote`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.inputs.user_weights import Folder
from harness.request.options import Options
from scenarios.table import SCENARIOS
from sut.registry import SUTS

LIKE = "bfloat16"
"""The precision by whose limits answers are judged. No other precision has looser ones."""
CHAT = "chat"


def check(options: Options, weights: Folder | None) -> Iterator[str]:
    """Yield notes for a reader if the SUT is an engine. Raises UsageError for flags that do not fit
    it.
    """
    if not SUTS[options.sut].remote:
        return
    sut = options.sut
    given = options.sut_options
    if "url" not in given:
        raise UsageError(f"--sut {sut}: which engine? Give --sut-option url=http://HOST:PORT/v1")
    tokenizer = weights.tokenizer if weights else None
    if tokenizer is None or tokenizer.encode_marked is None or options.dataset is None:
        raise UsageError(
            f"--sut {sut}: needs the folder of the engine's model with its tokenizer.json"
            " (--weights DIR), and your prompts (--dataset FILE)"
        )
    scenario = SCENARIOS[options.scenario]
    if options.batch_size is not None and scenario.samples_a_query is None:
        raise UsageError(
            f"--batch-size {options.batch_size}: the engine forms its own batches: leave it out;"
            " --sut-option in_flight=N limits the requests that are sent at a time"
        )
    if options.max_wait_ms:
        raise UsageError(
            f"--max-wait-ms {options.max_wait_ms:g}: the engine forms its own batches: leave it out"
        )
    _check_key(given.get("key-env"), given.get("key-file"))
    if given.get("weights") != "other":
        yield (
            "precision unknown: the engine does not report it, so its answers are judged by"
            f" the limits of {LIKE}"
        )
    yield (
        "the machine and the device are those that send the requests; of those that answer"
        " them nothing is known"
    )
    if scenario.many_at_once and "in_flight" not in given:
        yield (
            "the requests in flight are doubled until the engine answers no faster, which"
            " takes about 10 to 40 times as long as one answer, and a test of Offline takes 12"
            " to 24 times as long (--sut-option in_flight=N needs no such search)"
        )
    if api(options) == CHAT:
        yield (
            (
                "the engine applies its own chat template; answers are comparable only if it is"
                " that of --weights"
            )
            if options.chat
            else (
                "the engine applies its chat template, and the reference does not: give --chat"
                " too, or the answers differ"
            )
        )


def _check_key(variable: str | None, path: str | None) -> None:
    """Raises UsageError if the key is given twice, or is empty."""
    if variable and path:
        raise UsageError(
            f"--sut-option key-env={variable} key-file={path}: a key is given once: leave one out"
        )
    if variable and not os.environ.get(variable):
        raise UsageError(f"--sut-option key-env={variable}: there is no such environment variable")
    if path and not Path(path).read_text(encoding="utf-8").strip():
        raise UsageError(f"--sut-option key-file={path}: the file has no key")


def api(options: Options) -> str:
    """`chat` or `completions`."""
    usual = CHAT if options.chat else "completions"
    return str(options.sut_options.get("api", usual))


def with_api(options: Options) -> Mapping[str, Any]:
    """The options of the SUT, with the API that is used if it is not named."""
    given = options.sut_options
    return {**given, "api": api(options)} if SUTS[options.sut].remote else given
