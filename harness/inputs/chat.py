"""The chat template of a user's folder (`--chat`), which turns messages into the model's text.

It is found and rendered as in Transformers 5.23 (`apply_chat_template`, and
utils/chat_template_utils.py).
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError

from harness.errors import UsageError
from harness.inputs import chat_render, tokenizer, user_folder

_SETTINGS = "tokenizer_config.json"
_FILE = "chat_template.jinja"
_NAMED_FILES = "additional_chat_templates/*.jinja"
DEFAULT = "default"
"""The name of the usual template."""
_GIVEN = ("messages", "tools", "documents", "add_generation_prompt")
SECONDS = 5
"""The processor's seconds that a template may take for one conversation."""
_CONVERSATIONS_A_SECOND = 100


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
        names = chat_render.syntax(self.text).find_all(nodes.Name)
        return any(node.name == chat_render.CLOCK for node in names)

    def texts(self, conversations: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
        """The texts of conversations, up to where the model's answer begins. Another process
        renders them.

        Args:
            conversations: file and line → messages with `role` and `content`.

        Raises UsageError if the template fails, loops, or takes too much memory.
        """
        if not conversations:
            return []
        job = {"variables": self.variables, "conversations": list(conversations.values())}
        answer = _in_a_process(self.text, job)
        if "why" in answer:
            where = list(conversations)[answer["index"]]
            raise UsageError(f"{where}: the chat template cannot render it ({answer['why']})")
        return list(answer["texts"])


def _in_a_process(text: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of chat_render. Raises UsageError if the template loops, or takes too much memory.

    Args:
        job: `conversations`, and their `variables`.
    """
    count = len(job["conversations"])
    seconds = SECONDS + count // _CONVERSATIONS_A_SECOND
    child = subprocess.run(
        [sys.executable, "-P", chat_render.__file__],
        input=json.dumps({"text": text, "seconds": seconds, **job}),
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        raise UsageError(
            f"--chat: the chat template was stopped: it needs more than {seconds} s for"
            f" {count} prompts, or more than {chat_render.MEMORY_BYTES >> 30} GB of memory:"
            " download the template again, or give another folder"
        )
    return dict(json.loads(child.stdout))


def has_template(path: Path) -> bool:
    """Whether a folder has a chat template. False for one that cannot be read."""
    try:
        return bool(_templates(path, tokenizer.settings(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def of_folder(path: Path, name: str, options: Iterable[str]) -> Template:
    """The chat template of a folder of weights.

    Args:
        name: which of several templates; most folders have only `default`.
        options: `--chat-option` as they were typed, NAME=VALUE.

    Raises UsageError if there is no such template or no such variable.
    """
    try:
        templates = _templates(path, tokenizer.settings(path))
        tokens = tokenizer.special_tokens(path)
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
        chat_render.syntax(text)
    except (TemplateError, RecursionError) as e:
        raise UsageError(
            f"--chat: the chat template of {path} is not Jinja ({e}): download it again"
        ) from None
    return Template(text, {**tokens, **_variables(text, options)})


def _templates(path: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Name → template. Files with templates replace those of tokenizer_config.json."""
    files = {file.stem: file for file in path.glob(_NAMED_FILES)}
    if (path / _FILE).is_file():
        files[DEFAULT] = path / _FILE
    if files:
        return {name: user_folder.read_text(file) for name, file in files.items()}
    stored = settings.get("chat_template") or {}
    if isinstance(stored, str):
        return {DEFAULT: stored}
    if isinstance(stored, list):
        return {str(each["name"]): str(each["template"]) for each in stored}
    return {str(name): str(text) for name, text in stored.items()}


def _variables(text: str, options: Iterable[str]) -> dict[str, Any]:
    """`--chat-option` as name → value. Raises UsageError for a variable that is not in the
    template.
    """
    values: dict[str, Any] = {}
    options = list(options)
    if not options:
        return values
    names = _in_a_process(text, {"conversations": []})["names"]
    there = [name for name in names if name not in _GIVEN]
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
