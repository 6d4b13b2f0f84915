"""`./run.sh serve` puts a SUT that generates text behind the OpenAI protocol."""

from __future__ import annotations

import argparse
import math
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from formats.job import SERVE
from harness import terminal
from harness.errors import UsageError
from harness.measurement import preparation
from harness.measurement.attempt import make_job
from harness.request import options
from harness.request.flags import Parser
from harness.serving import preparation as serving
from harness.serving.handlers import application
from harness.serving.preparation import Served
from harness.serving.server import answering
from harness.terminal import Terminal
from scenarios.worker.heartbeat import Beat, OnBeat
from scenarios.worker.serving import SOCKET

_OF_RUN = (
    "sut",
    "model",
    "weights",
    "size",
    "task",
    "precision",
    "device",
    "batch_size",
    "sut_option",
    "threads",
    "python",
    "cache",
)
"""The flags of `./run.sh run` that say what is served."""
_GONE = {
    "--chat": "save the template as chat_template.jinja in the folder of --weights",
    "--chat-option": 'a request gives it: "chat_template_kwargs": {"NAME": VALUE}',
    "--eos": 'an answer ends at its end token, unless the request has "ignore_eos": true',
    "--logprobs": "scores of a prompt are always answered: leave it out",
    "--max-queue": "any number of requests may wait: leave it out",
    "--max-request-bytes": "a request may have 16 MiB: leave it out",
    "--quiet": "progress is on standard error, and only there: leave it out",
    "--self-test": "send requests with curl, guidellm or aiperf (docs/use/serve.md)",
    "--timeout-s": "a request may take any time: let the client end it",
}
"""Flags of earlier releases, with what to do instead."""
_SCENARIO = "Offline"  # its batch size is the default
_MOST_PORT = 65535
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The names of this machine that others cannot reach."""
_EXAMPLE_TOKENS = 16
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)

    if not 0 <= flags.port <= _MOST_PORT:
        raise UsageError(f"--port {flags.port}: from 0 (any free port) to {_MOST_PORT}")
    max_wait_ms = flags.longest_wait_ms
    if not 0 <= max_wait_ms < math.inf:
        raise UsageError(f"--max-wait-ms {max_wait_ms:g}: at least 0")
    command = shlex.join(["./run.sh", "serve", *arguments])
    flags.scenario = _SCENARIO
    given = options.read(flags, command)
    served = serving.plan(given, flags.longest, flags.longest_answer, max_wait_ms)
    request = served.request
    reporter = terminal.Terminal(quiet=False)
    for reason in request.reasons:
        reporter.say(reason)
    directory = Path(tempfile.mkdtemp(prefix="serve-"))
    outcome = None
    try:
        with answering(application(served, directory / SOCKET), flags.host, flags.port) as port:
            prepared = preparation.prepare(request, reporter, {}, served.inputs(directory))
            job = make_job(prepared, directory, SERVE, None)
            watch = _watch(reporter, _facts(served, flags.host, port))
            with reporter.progress:
                outcome = preparation.launch(prepared, job, watch)
    except KeyboardInterrupt:
        return 0 if (directory / SOCKET).exists() else _INTERRUPTED
    finally:
        if outcome is None:
            shutil.rmtree(directory)
    terminal.error(outcome.reason)  # it names the folder's worker.log
    return 1


def _watch(reporter: Terminal, lines: Sequence[str]) -> OnBeat:
    """Show the progress until requests are answered, and then these lines."""

    draw = reporter.watch("serve")
    waiting = list(lines)

    def watch(beat: Beat) -> None:
        if beat.phase not in ("serve", "done"):
            draw(beat)
        elif reporter.draws:
            draw(beat._replace(phase="done"))
        if beat.phase == "serve":
            for line in waiting:
                terminal.line(line)
            waiting.clear()

    return watch


def _facts(served: Served, host: str, port: int) -> list[str]:
    """What a reader should know about the server, a line each."""
    url = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    tokens = min(_EXAMPLE_TOKENS, served.new_tokens)
    first, *others = served.facts()
    lines = [f"{first}: {url}", *others]
    if host not in _LOOPBACK:
        lines.append(
            f"--host {host}: every machine that reaches this address may send requests,"
            " because the server asks for no key"
        )
    return [
        *lines,
        (
            f"curl {url}/completions -H 'Content-Type: application/json' -d '{{\"model\":"
            f' "{served.model}", "prompt": "Once upon a time", "max_tokens": {tokens}}}\''
        ),
        "Ctrl-C ends it",
    ]


def _parser() -> argparse.ArgumentParser:
    """The names of values differ from those of `run`, whose other flags keep their defaults."""
    parser = Parser(
        "serve",
        gone=_GONE,
        usage="./run.sh serve --sut SUT [--model MODEL | --weights DIR] [flags]",
        description=(
            "Answer requests of the OpenAI protocol with a SUT: /v1/completions,"
            " /v1/chat/completions, /v1/models, /health. docs/use/serve.md has examples."
        ),
    )
    options.add_flags(parser, _OF_RUN)
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen at (default 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="default 8000; 0: any free port"
    )
    parser.add_argument(
        "--max-tokens",
        dest="longest",
        type=int,
        metavar="N",
        help="the longest prompt with its answer; default 512, or the positions of the model",
    )
    parser.add_argument(
        "--new-tokens",
        dest="longest_answer",
        type=int,
        metavar="N",
        help="the longest answer; default: a quarter of --max-tokens, at most 128",
    )
    parser.add_argument(
        "--max-wait-ms",
        dest="longest_wait_ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="how long a request waits for others of its batch (default 0)",
    )
    return parser
