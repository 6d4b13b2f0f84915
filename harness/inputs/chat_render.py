"""Render a chat template (a program that reads a JSON document on stdin and writes one on stdout).

A template is code of strangers. Jinja's sandbox keeps it away from files and from Python's objects.
A process with limits keeps it from looping for ever and from taking all memory.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import jinja2
from jinja2 import meta, nodes, parser
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

CLOCK = "strftime_now"
"""The function that writes today's date."""
MEMORY_BYTES = 2 << 30
"""The memory that a template may take, in addition to that of its conversations."""


def main() -> None:
    """Read `text`, `variables`, `conversations` and `seconds`. Write `texts`, or the `index` of the
    conversation that failed, and `why`. Without conversations, write the `names` of the template's
    variables.
    """
    job = json.load(sys.stdin)
    taken = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The texts need as much memory as the conversations.
    memory_bytes = MEMORY_BYTES + 2 * taken
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"]))
    if not job["conversations"]:
        # It computes the template's constants, too.
        names = meta.find_undeclared_variables(syntax(job["text"]))
        json.dump({"names": sorted(names)}, sys.stdout)
        return
    texts: list[str] = []
    for messages in job["conversations"]:
        try:
            texts.append(render(job["text"], job["variables"], messages))
        # A template may fail in any way.
        except Exception as e:  # noqa: BLE001
            why = f"{type(e).__name__}: {e}".splitlines()[0]
            json.dump({"index": len(texts), "why": why}, sys.stdout)
            return
    json.dump({"texts": texts}, sys.stdout)


def render(text: str, variables: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of a conversation, up to where the model's answer begins. Raises any error of the
    template.
    """
    given = {"messages": messages, "add_generation_prompt": True}
    return _compiled(text).render({"tools": None, "documents": None, **variables, **given})


def syntax(text: str) -> nodes.Template:
    """The syntax tree. Raises TemplateError if the text is not Jinja, and RecursionError."""
    return _environment().parse(text)


@cache
def _compiled(text: str) -> jinja2.Template:
    return _environment().from_string(text)


def _environment() -> ImmutableSandboxedEnvironment:
    """As in Transformers 5.23 (utils/chat_template_utils.py)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": _raise,
        CLOCK: lambda form: datetime.now().strftime(form),
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment


class _Generation(Extension):
    """The tag `{% generation %}` around a model's answers. It changes no text."""

    tags = {"generation"}  # noqa: RUF012  as in Jinja's own extensions

    def parse(self, parser: parser.Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Dict:
    """`dict` without the attributes of its type."""

    def __call__(self, *args: Any, **named: Any) -> dict[Any, Any]:
        return dict(*args, **named)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """A namespace without attributes that begin with an underscore."""

    def __init__(self, *args: Any, **named: Any):
        attributes = dict(*args, **named)
        for name in attributes:
            _check_attribute(name)
        super().__init__(attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        super().__setitem__(name, value)


def _check_attribute(name: str) -> None:
    if name.startswith("_"):
        raise SecurityError(f"an attribute of a namespace begins with an underscore ({name})")


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes characters of HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


if __name__ == "__main__":
    main()
