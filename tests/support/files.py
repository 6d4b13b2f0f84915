"""Files that tests write, read and change."""

import json

from formats.writing import write_json


def read_json(path):
    """→ the content of the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def edit_json(path, change):
    """Write what `change` returns for the content. If it returns nothing, it has changed the
    content in place.
    """
    content = read_json(path)
    write_json(path, change(content) or content)


def update_json(path, **values):
    """Set these keys of the document."""
    write_json(path, read_json(path) | values)


def write_rows(path, rows):
    """A .jsonl file. → its path."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def program(path, text, interpreter="/bin/sh"):
    """A program that the system starts. → its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(0o755)
    return path
