"""The chat template of a user's folder (`--chat`), which turns messages into the model's text.

It is found and rendered as in Transformers 5.23 (`apply_chat_template`, and
utils/chat_template_utils.py). A template is code of strangers, so it runs in Jinja's sandbox.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta, nodes, parser
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from harness.errors import UsageError

_SETTINGS, _FILE, _NAMED_FILES = (
    "tokenizer_config.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)
_DEFAULT = "default"
_TOKENS = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_GIVEN = ("messages", "tools", "documents", "add_generation_prompt")
_CLOCK = "strftime_now"


@dataclass(frozen=True)
class Template:
    """A chat template.

    Attributes:
        text: its source, in Jinja.
        variables: the folder's special tokens and the values of `--chat-option`.
    """

    text: str
    variables: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The sha256 of the text and the variables, hex."""
        document = json.dumps([self.text, self.variables], sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()

    @property
    def dated(self) -> bool:
        """Whether the template may write today's date into a prompt."""
        names = _syntax(self.text).find_all(nodes.Name)
        return any(node.name == _CLOCK for node in names)

    def render(self, where: str, messages: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of a conversation, up to where the model's answer begins.

        Args:
            where: file and line of the messages, for an error.
            messages: objects with `role` and `content`.

        Raises UsageError if the template fails.
        """
        given = {"messages": messages, "add_generation_prompt": True}
        try:
            return _compiled(self.text).render(
                {"tools": None, "documents": None, **self.variables, **given}
            )
        # A template may fail in any way.
        except Exception as e:  # noqa: BLE001
            why = f"{type(e).__name__}: {e}".splitlines()[0]
            raise UsageError(f"{where}: the chat template cannot render it ({why})") from None


def of_folder(path: Path, name: str, options: Iterable[str]) -> Template:
    """The chat template of a folder of weights.

    Args:
        name: which of several templates; most folders have only `default`.
        options: `--chat-option` as they were typed, NAME=VALUE.

    Raises UsageError if there is no such template or no such variable.
    """
    try:
        settings = _document(path / _SETTINGS)
        templates = _templates(path, settings)
        tokens = _tokens(path, settings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        why = f"{type(e).__name__}: {e}".splitlines()[0]
        raise UsageError(
            f"--chat: the chat template of {path} cannot be read ({why}): download it again"
        ) from None
    if not templates:
        raise UsageError(
            f"--chat: neither {_FILE} nor a chat_template in {_SETTINGS} is in {path}: it is no"
            " chat model, or the file was not downloaded"
        )
    if name not in templates:
        raise UsageError(
            f"--chat {name}: {path} has no such template; there is"
            f" {' and '.join(sorted(templates))}"
        )
    text = templates[name]
    try:
        _compiled(text)
    except TemplateError as e:
        raise UsageError(f"--chat: the chat template of {path} is not Jinja ({e})") from None
    return Template(text, {**tokens, **_variables(text, options)})


def _document(file: Path) -> dict[str, Any]:
    """The JSON object of a file. Empty if there is no file."""
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def _templates(path: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Name → template. Files with templates replace those of tokenizer_config.json."""
    files = {file.stem: file for file in path.glob(_NAMED_FILES)}
    if (path / _FILE).is_file():
        files[_DEFAULT] = path / _FILE
    if files:
        return {name: file.read_text(encoding="utf-8") for name, file in files.items()}
    stored = settings.get("chat_template") or {}
    if isinstance(stored, str):
        return {_DEFAULT: stored}
    if isinstance(stored, list):
        return {str(each["name"]): str(each["template"]) for each in stored}
    return {str(name): str(text) for name, text in stored.items()}


def _tokens(path: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens, such as `bos_token`. Only older folders need special_tokens_map.json."""
    named = dict(settings)
    if "added_tokens_decoder" not in settings:
        named |= _document(path / "special_tokens_map.json")
    tokens = {}
    for name in _TOKENS:
        token = named.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            tokens[name] = token
    return tokens


def _variables(text: str, options: Iterable[str]) -> dict[str, Any]:
    """`--chat-option` as name → value. Raises UsageError for a variable that is not in the
    template.
    """
    there = sorted(meta.find_undeclared_variables(_syntax(text)) - set(_GIVEN))
    values: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise UsageError(f"--chat-option {option}: a value is needed, {name}=…")
        if name not in there:
            known = f"it has {', '.join(there)}" if there else "it has none"
            raise UsageError(
                f"--chat-option {option}: the chat template has no such variable; {known}"
            )
        if name in values:
            raise UsageError(f"--chat-option {name}: is given twice; give it once")
        values[name] = _value(value)
    return values


def _value(text: str) -> Any:
    """`false`, `False`, `3` and `"3"` are JSON values; any other value is a text."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return json.loads(text)
    except ValueError:
        return text


@cache
def _compiled(text: str) -> jinja2.Template:
    """Raises TemplateError if the text is not Jinja."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {
        "raise_exception": _raise,
        _CLOCK: lambda form: datetime.now().strftime(form),
        "dict": _Dict(),
        "namespace": _Namespace,
    }
    return environment.from_string(text)


def _syntax(text: str) -> nodes.Template:
    return _compiled(text).environment.parse(text)


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
