"""Read the prompts of a user's file (`--dataset FILE`): text, JSON Lines, CSV or TSV."""

from __future__ import annotations

import codecs
import csv
import io
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats import bounds
from harness.errors import UsageError
from harness.inputs import messages, user_folder

if TYPE_CHECKING:  # it imports Jinja, which few runs need
    from harness.inputs.chat import Template

_FIELDS = ("prompt", "text", "question", "instruction", "input")
"""The names of a prompt, the most specific first."""
_MESSAGES = "messages"
_LARGEST = 1 << 30
_OF_PARQUET = (
    "import json, sys, pyarrow.parquet as p; rows = (row for batch in"
    " p.ParquetFile(sys.argv[1]).iter_batches() for row in batch.to_pylist());"
    ' open(sys.argv[2], "w").writelines(json.dumps(row, default=str) + "\\n" for row in rows)'
)
_OF_JSON = (
    'import json, sys; rows = json.load(open(sys.argv[1], "rb"));'
    ' open(sys.argv[2], "w").writelines(json.dumps(row) + "\\n" for row in rows)'
)
_PARQUET = ".parquet"
_CONVERSIONS = {_PARQUET: _OF_PARQUET, ".json": _OF_JSON}
"""Ending of files that are not read → a Python program that makes JSON Lines of one."""
_BINARY = {
    b"PAR1": "Parquet",
    b"\x1f\x8b": "gzip: unpack it with gunzip",
    b"\x28\xb5\x2f\xfd": "Zstandard: unpack it with unzstd",
    b"PK\x03\x04": "a ZIP archive, as of a spreadsheet: save its sheet as CSV in UTF-8",
    b"%PDF": "PDF: copy its text into a file",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
}
"""Beginning of a file that is no text → what the file is."""
_Row = tuple[int, Any]
"""(line, its value)."""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class PromptOptions:
    """How the prompts of a file are read.

    Attributes:
        field: `--field`: the name of the prompt in a row; None: the first that is there.
        chat: the template that is applied to each prompt; None: none.
    """

    field: str | None = None
    chat: Template | None = None


@dataclass(frozen=True)
class Prompt:
    """One prompt of a file.

    Attributes:
        line: its first line, from 1.
        label: the value in the file.
        messages: the conversation of which `text` was made; a text is one message of the user.
    """

    text: str
    line: int
    max_new_tokens: int | None = None
    label: Any = None
    messages: Sequence[Mapping[str, Any]] = ()


_Noted = tuple[list[Prompt], tuple[str, ...]]
"""Prompts, and notes about their file."""


def read(path: Path, options: PromptOptions | None = None, labels: bool = False) -> _Noted:
    """Read the prompts of a .jsonl, .csv or .tsv file (one a row) or of any other text (one a
    paragraph; one a line if no empty line separates paragraphs). Also returns notes about the file.

    Args:
        labels: whether labels are used; if not, a note says so.

    Raises UsageError with file and line for anything that is not a prompt. Nothing is skipped.
    """
    options = options or PromptOptions()
    ending = path.suffix.lower()
    if ending in _CONVERSIONS:
        raise UsageError(_conversion(path, ending))
    text = _text(path)
    notes: list[str] = []
    if ending in _ROWS:
        rows = list(_ROWS[ending](path, text))
    else:
        rows, notes = _of_text(path, text, options)
    if not rows:
        raise UsageError(
            f"--dataset {path}: no prompt in it: one paragraph of text, or one JSON object with"
            " `prompt` a line (.jsonl)"
        )
    line, first = rows[0]
    field = options.field or _fields(f"{path}:{line}", first, options)[0]
    prompts = _prompts(path, rows, field, options)
    values = [row for _, row in rows]
    return prompts, (*notes, *_notes(path, values, field, options, labels))


def _conversion(path: Path, ending: str) -> str:
    python = ["python3"]
    if ending == _PARQUET:
        # uv is installed next to the interpreter of the harness.
        uv = str(Path(sys.executable).with_name("uv"))
        python = [uv, "run", "--no-project", "--with", "pyarrow", "python"]
    new = path.with_suffix(".jsonl")
    command = shlex.join([*python, "-c", _CONVERSIONS[ending], str(path), str(new)])
    return (
        f"--dataset {path}: {path.suffix} is not read; convert it to JSON Lines, and give the new"
        f" file: {command}"
    )


def _text(path: Path) -> str:
    """The file's text, in UTF-8, or in UTF-16 with a byte-order mark. Lines end with LF."""
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise UsageError(
                f"--dataset {path}: {size / 1e9:.1f} GB, and at most {_LARGEST / 1e9:.1f} GB are"
                " read: give a part of it"
            )
        raw = bounds.content(path, bounds.TEXT)
    except OSError as e:
        raise UsageError(f"--dataset {path}: cannot be read ({e.strerror})") from None
    bounds.check(path, raw.count(b"\n"), bounds.PROMPT)
    for beginning, kind in _BINARY.items():
        if raw.startswith(beginning):
            raise UsageError(f"--dataset {path}: is no text but {kind}")
    encoding, name = ("utf-16", "UTF-16") if raw.startswith(_UTF_16) else ("utf-8-sig", "UTF-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as e:
        # The mark of UTF-8 is no part of `e.object`.
        before = e.object[: e.start].decode(encoding, errors="ignore")
        line = before.count("\n") + 1
        raise UsageError(
            f"{path}:{line}: not {name} (byte 0x{e.object[e.start]:02x}): convert the file"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UsageError(
            f"{path}:{line}: a character is zero, so the file is no text, or UTF-16 without a"
            " byte-order mark: convert it to UTF-8"
        )
    text = text.replace("\r\n", "\n")
    # Old programs end a line with CR. In a file with LF, a CR is a character.
    return text if "\n" in text else text.replace("\r", "\n")


def _of_text(path: Path, text: str, options: PromptOptions) -> tuple[list[_Row], list[str]]:
    """A row for each paragraph, or for each line if there is one paragraph, and notes about the
    file.
    """
    if options.field is not None:
        raise UsageError(
            f"--field {options.field}: names a field of {', '.join(_ROWS)}, and {path.name} is read"
            " as text, one prompt a paragraph: leave it out"
        )
    parts = list(_paragraphs(text))
    notes = []
    if len(parts) == 1:
        first, paragraph = parts[0]
        parts = list(enumerate(paragraph.split("\n"), first))
        if len(parts) > 1:
            notes.append(
                f"{path.name} has {len(parts)} lines and no empty line, so each line is a"
                " prompt; in a .jsonl file a prompt may have several lines"
            )
    return [(line, {_FIELDS[0]: part}) for line, part in parts], notes


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, paragraph)."""
    block: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), "\n".join(block)
            block = []


def _json_lines(path: Path, text: str) -> Iterator[_Row]:
    """Yield (line, its value)."""
    lines = text.removesuffix("\n").split("\n") if text.strip() else []
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        if not line.strip():
            raise UsageError(f"{where}: an empty line: each line is an object with `prompt`")
        try:
            row = user_folder.parse_json(line)
        except ValueError as e:
            raise UsageError(
                f'{where}: not JSON ({e}): each line is an object such as {{"prompt": "…"}}'
            ) from None
        yield number, row


def _table(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (first line, name of the column → value) of each row of a CSV or TSV file."""
    first = text.partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    if delimiter == "," and ";" in first and "," not in first:
        delimiter = ";"  # spreadsheets of some languages write semicolons into a .csv
    csv.field_size_limit(_LARGEST)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as e:
            raise UsageError(f"{path}:{line}: not CSV ({e})") from None
        if row is None:
            return
        if not header:
            header = [name.strip() for name in row]
            if len(set(header)) < len(header):
                raise UsageError(
                    f"{path}:{line}: the header names a column twice ({', '.join(header)}): rename"
                    " one"
                )
        elif row and len(row) != len(header):
            raise UsageError(
                f"{path}:{line}: {len(row)} fields, and the header names {len(header)}: write a"
                " field that contains the separator in double quotes"
            )
        elif row:
            cells: dict[str, Any] = dict(zip(header, row, strict=True))
            # All cells are text, and these two columns hold numbers.
            for column in {"max_new_tokens", "label"} & cells.keys():
                value = cells[column]
                cells[column] = int(value) if value.strip().isdecimal() else value or None
            yield line, cells


_ROWS: Mapping[str, Callable[[Path, str], Iterator[_Row]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _table,
    ".tsv": _table,
}
"""Ending → the reader of its rows."""


def _fields(where: str, row: Any, options: PromptOptions) -> list[str]:
    """The fields of a row that fit, the best first. With a chat template, that is `messages`."""
    order = (_MESSAGES, *_FIELDS) if options.chat else (*_FIELDS, _MESSAGES)
    fits = [name for name in order if isinstance(row, dict) and name in row]
    if not fits:
        raise UsageError(
            f"{where}: no field is a prompt ({', '.join(order)}): name one with --field; found"
            f" {messages.shown(row)}"
        )
    return fits


def _notes(
    path: Path, rows: list[dict[str, Any]], field: str, options: PromptOptions, labels: bool
) -> Iterator[str]:
    if not options.field and _fields(str(path), rows[0], options) != ["prompt"]:
        yield f"the prompts of {path.name} are its `{field}`; --field names another"
    answered = sum(_answer_at_end(row[field]) for row in rows)
    if answered:
        yield (
            f"{path.name}: conversations that end with an answer: {answered}; it is left out,"
            " because the model is to give it"
        )
    used = {field, "max_new_tokens"}
    if labels:
        used.add("label")
    if field == "instruction":
        used.add("input")
    others = sorted(set().union(*rows) - used)
    if others:
        yield f"fields of {path.name} that are not used: {', '.join(others)}"


def _prompts(path: Path, rows: list[_Row], field: str, options: PromptOptions) -> list[Prompt]:
    """The prompts of rows, by the chat template if there is one."""
    conversations: dict[str, messages.Messages] = {}
    for line, row in rows:
        where = f"{path}:{line}"
        conversations[where] = _messages(where, row, field, options)
    if options.chat:
        texts = options.chat.texts(conversations)
    else:
        texts = [str(each[0]["content"]) for each in conversations.values()]
    prompts: list[Prompt] = []
    for text, where, (line, row) in zip(texts, conversations, rows, strict=True):
        # JSON allows half of a surrogate pair, and UTF-8 cannot encode it.
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(
                f"{where}: the prompt contains half of a surrogate pair, which is no character:"
                " write it as UTF-8"
            )
        new = row.get("max_new_tokens")
        if new is not None and (type(new) is not int or new < 1):
            raise UsageError(
                f"{where}: `max_new_tokens` is a whole number from 1 on; found {new!r}"
            )
        prompts.append(Prompt(text, line, new, row.get("label"), conversations[where]))
    return prompts


def _messages(where: str, row: Any, field: str, options: PromptOptions) -> messages.Messages:
    """The prompt as messages. A text is one message of the user."""
    value = row.get(field) if isinstance(row, dict) else None
    if isinstance(value, list) and value:
        try:
            conversation = messages.read(value)
        except ValueError as e:
            raise UsageError(f"{where}: `{field}`: {e}") from None
        if options.chat is None:
            raise UsageError(
                f"{where}: `{field}` is a list of messages, which only a chat template makes text"
                " of: give --chat"
            )
        return conversation[:-1] if _answer_at_end(conversation) else conversation
    if not isinstance(value, str) or not value:
        found = messages.shown(row)
        raise UsageError(f"{where}: each row has a non-empty string `{field}`; found {found}")
    more = row.get("input") if field == "instruction" else None
    content = f"{value}\n\n{more}" if isinstance(more, str) and more else value
    return [{"role": "user", "content": content}]


def _answer_at_end(value: Any) -> bool:
    """Whether a conversation ends with an answer, as those for training do."""
    return isinstance(value, list) and len(value) > 1 and value[-1]["role"] == "assistant"
