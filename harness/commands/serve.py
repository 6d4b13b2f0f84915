"""`./run.sh serve` puts a SUT that generates text behind the OpenAI protocol."""

from __future__ import annotations

import argparse
import math
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.outcome import WorkerOutcome
from harness.errors import UsageError
from harness.request import options
from harness.request.flags import Parser

if TYPE_CHECKING:
    from harness.serving.preparation import Flags, Served
    from harness.serving.server import Service
    from harness.terminal import Terminal
    from scenarios.worker.heartbeat import Beat

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
_SCENARIO = "Offline"  # its batch size is the default
_MOST_PORT = 65535
_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Run the command. → the exit code."""
    flags = _parser().parse_args(arguments)
    from harness import terminal
    from harness.measurement import run
    from harness.serving import preparation, server
    from scenarios.worker.serving import SOCKET

    _check(flags)
    command = shlex.join(["./run.sh", "serve", *arguments])
    served = preparation.plan(_of_run(flags, command), _own(flags))
    request = served.request
    bound = server.bind(flags.host, flags.port)
    reporter = terminal.Terminal(flags.quiet)
    for reason in request.reasons:
        reporter.say(reason)
    reporter.say(
        f"shapes that are run first, so that nothing compiles while requests wait: {served.shapes}"
    )
    environment = run.environment_of(request, request.spec.environment, reporter, {})
    checkpoint = run.checkpoint_of(request, reporter)
    directory = Path(tempfile.mkdtemp(prefix="serve-"))
    url = f"http://{_spelt(flags.host)}:{bound.getsockname()[1]}"
    on_ready = _on_ready(served, flags.host, url)
    service = server.Service(served.settings, bound, directory / SOCKET, on_ready)
    job = served.job(directory, checkpoint)
    process_env = served.process_env(environment)
    with reporter.progress:
        outcome = _until_the_end(service, reporter, job, environment.python, process_env)
    if outcome is None or outcome.status == "ok":
        shutil.rmtree(directory)
    if outcome is None and not service.serving:
        terminal.error("interrupted before requests were answered")
        return _INTERRUPTED
    for line in preparation.summary(service.counts, service.compiled):
        terminal.line(line)
    if outcome is not None and outcome.status != "ok":
        terminal.error(outcome.reason)  # it names the folder's worker.log
        return 1
    service.check()
    return 0


def _until_the_end(
    service: Service, reporter: Terminal, job: Any, python: Path, process_env: Any
) -> WorkerOutcome | None:
    """Let the worker answer until it ends. → its outcome, or None after Ctrl-C."""
    from harness.execution.process import Worker

    why = "the server was ended"
    try:
        with Worker(python, process_env) as worker:
            outcome = worker.run(job, _watch(reporter))
        if outcome.status != "ok":
            why = outcome.reason
        return outcome
    except KeyboardInterrupt:
        return None
    finally:
        service.end(why)


def _watch(reporter: Terminal) -> Callable[[Beat], None]:
    """Show the progress of loading and of the warm-up, and nothing while requests are answered."""
    draw = reporter.watch("serve")

    def watch(beat: Beat) -> None:
        if beat.phase not in ("serve", "done"):
            draw(beat)
        elif not reporter.progress.disable:
            draw(beat._replace(phase="done"))

    return watch


def _on_ready(served: Served, host: str, url: str) -> Callable[[dict[str, Any]], None]:
    """Return the function that says how the server is called."""
    from harness import terminal
    from harness.serving import preparation

    def on_ready(ready: dict[str, Any]) -> None:
        for line in preparation.facts(served, ready["streams"], host, f"{url}/v1"):
            terminal.line(line)

    return on_ready


def _spelt(host: str) -> str:
    """A host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def _of_run(flags: argparse.Namespace, command: str) -> options.Options:
    """What is served. The other flags of `./run.sh run` have their defaults, even if a flag here
    has the same name.
    """
    values = dict.fromkeys(options.names())
    values["scenario"] = _SCENARIO
    for name in _OF_RUN:
        values[name] = getattr(flags, name)
    return options.read(argparse.Namespace(**values), command)


def _own(flags: argparse.Namespace) -> Flags:
    from harness.serving.preparation import Flags

    return Flags(
        max_tokens=flags.max_tokens,
        new_tokens=flags.new_tokens,
        max_wait_ms=flags.max_wait_ms,
        max_queue=flags.max_queue,
        timeout_s=flags.timeout_s,
        max_request_bytes=flags.max_request_bytes,
        eos=flags.eos,
        chat=flags.chat,
        chat_option=tuple(flags.chat_option or ()),
        logprobs=flags.logprobs,
    )


def _check(flags: argparse.Namespace) -> None:
    """Raises UsageError for a number that makes no sense."""
    if not 0 <= flags.port <= _MOST_PORT:
        raise UsageError(f"--port {flags.port}: from 0 (any free port) to {_MOST_PORT}")
    if not 0 <= flags.max_wait_ms < math.inf:
        raise UsageError(f"--max-wait-ms {flags.max_wait_ms:g}: at least 0")
    for name in ("max_queue", "timeout_s", "max_request_bytes"):
        value = getattr(flags, name)
        if not 0 < value < math.inf:
            raise UsageError(f"{options.flag(name)} {value:g}: more than 0")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="./run.sh serve",
        usage="./run.sh serve --sut SUT [--model MODEL | --weights DIR] [flags]",
        description=(
            "Answer requests of the OpenAI protocol with a SUT: /v1/completions,"
            " /v1/chat/completions, /v1/models, /health. docs/serve.md has examples."
        ),
        allow_abbrev=False,
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
        type=int,
        metavar="N",
        help="the longest prompt with its answer; default 512, or the positions of the model",
    )
    parser.add_argument(
        "--new-tokens",
        type=int,
        metavar="N",
        help="the longest answer; default: a quarter of --max-tokens, at most 128",
    )
    parser.add_argument(
        "--max-wait-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="how long a request waits for others of its batch (default 0)",
    )
    parser.add_argument(
        "--max-queue",
        type=int,
        default=256,
        metavar="N",
        help="requests that may wait; the next one is refused with status 429 (default 256)",
    )
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=300.0,
        metavar="S",
        help="a request that takes longer is refused with status 503 (default 300)",
    )
    parser.add_argument(
        "--max-request-bytes",
        type=int,
        default=1 << 20,
        metavar="N",
        help="a larger request is refused with status 413 (default 1048576)",
    )
    parser.add_argument(
        "--eos",
        choices=("stop", "ignore"),
        default="stop",
        help=(
            "stop (default): an answer ends at the end token of --weights; ignore: it gets all its"
            " tokens, as load generators request with ignore_eos"
        ),
    )
    parser.add_argument(
        "--chat",
        default="default",
        metavar="NAME",
        help="which of several chat templates of --weights",
    )
    parser.add_argument(
        "--chat-option",
        action="append",
        metavar="NAME=VALUE",
        help="a variable of the chat template; may be repeated",
    )
    parser.add_argument(
        "--logprobs",
        action="store_true",
        help="also answer echo with logprobs, the scores of a prompt's tokens",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser
