"""The chat template of a user's folder (`--chat`), which turns messages into the model's text.

Transformers renders it, in a process with limits of time and memory.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.execution import user_files
from harness.execution.user_files import Stopped
from harness.inputs import tokenizer, user_folder

_SETTINGS = "tokenizer_config.json"
_FILE = "chat_template.jinja"
_NAMED_FILES = "additional_chat_templates/*.jinja"
DEFAULT = "default"
"""The name of the usual template."""
_GIVEN = ("messages", "tools", "documents", "add_generation_prompt")
_CLOCK = "strftime_now"
"""The function that writes today's date."""
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""What reading the files of a folder raises if they are damaged."""


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
        return _CLOCK in self.text

    def job(
        self, conversations: Sequence[Any], more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the program `chat` of `sut.user_files` is asked. `more`: further variables."""
        variables = {**self.variables, **(more or {})}
        return {"text": self.text, "variables": variables, "conversations": conversations}

    def texts(self, conversations: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
        """The texts of conversations, up to where the model's answer begins.

        Args:
            conversations: file and line → messages with `role` and `content`.

        Raises UsageError if the template fails, loops, or takes too much memory.
        """
        if not conversations:
            return []
        answer = _answer(self, list(conversations.values()))
        if "why" in answer:
            where = list(conversations)[answer["index"]]
            raise UsageError(f"{where}: the chat template cannot render it ({answer['why']})")
        return list(answer["texts"])


def _answer(template: Template, conversations: Sequence[Any]) -> dict[str, Any]:
    job = template.job(conversations)
    if template.dated:
        job["time"] = time.time()  # so that an answer of another day is not used
    try:
        return dict(user_files.answer("chat", {}, job))
    except Stopped as e:
        raise UsageError(
            f"--chat: the chat template was stopped ({e}): download it again, or give another"
            " folder"
        ) from None


def has_template(path: Path) -> bool:
    """Whether a folder has a chat template. False for one that cannot be read."""
    try:
        return bool(_templates(path))
    except _UNREADABLE:
        return False


def of_folder(path: Path, name: str, options: Sequence[str]) -> Template:
    """The chat template of a folder of weights.

    Args:
        name: which of several templates; most folders have only `default`.
        options: `--chat-option` as they were typed, NAME=VALUE.

    Raises UsageError if there is no such template or no such variable.
    """
    try:
        templates = _templates(path)
        tokens = tokenizer.special_tokens(path)
    except _UNREADABLE as e:
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
    template = Template(templates[name], tokens)
    return replace(template, variables={**tokens, **_variables(template, options)})


def _templates(path: Path) -> dict[str, str]:
    """Name → template. Files with templates replace those of tokenizer_config.json."""
    stored = tokenizer.settings(path).get("chat_template") or {}
    files = {file.stem: file for file in path.glob(_NAMED_FILES)}
    if (path / _FILE).is_file():
        files[DEFAULT] = path / _FILE
    if files:
        return {name: user_folder.read_text(file) for name, file in files.items()}
    if isinstance(stored, str):
        return {DEFAULT: stored}
    if isinstance(stored, list):
        return {str(each["name"]): str(each["template"]) for each in stored}
    return {str(name): str(text) for name, text in stored.items()}


def _variables(template: Template, options: Sequence[str]) -> dict[str, Any]:
    """`--chat-option` as name → value. Raises UsageError for a variable that is not in the
    template.
    """
    if not options:
        return {}
    answer = _answer(template, ())
    if "why" in answer:
        raise UsageError(f"--chat: the chat template is not Jinja ({answer['why']})")
    there = [name for name in answer["names"] if name not in _GIVEN]
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
