"""One entry of LoadGen's detail log: a line that begins with `:::MLLOG`, or several lines."""

from __future__ import annotations

import json
import re
from array import array
from typing import Any, NamedTuple

from compliance.logs import strict_json

MARK = ":::MLLOG "
# LoadGen escapes nothing (logging.cc, ArgValueTransform), so a text may have line ends, backslashes
# and quotes, and a number may be inf or nan.
_RAW = re.compile(
    r'(\{"key": "[^"\\]+", "value": )(?:"(.*)"|(-?(?:inf(?:inity)?|nan)))(, "time_ms": .*)',
    re.DOTALL | re.IGNORECASE,
)
# A line whose value needs no care. A line in another form is read as JSON, which takes ten times as
# long.
_WHOLE = r"-?(?:0|[1-9]\d{0,17})"
_REAL = r"-?(?:0|[1-9]\d{0,39})(?:\.\d{1,40}(?:e[+-]\d\d)?|e[+-]\d\d)"
_TEXT = r'[^"\\\x00-\x1f]'
_PLAIN = re.compile(
    rf'\{{"key": "(?!error|warning)({_TEXT}+)",'
    rf' "value": (?:"({_TEXT}*)"|({_WHOLE})|({_REAL})|(true|false)), "time_ms": ({_REAL}),'
    r' "namespace": "mlperf::logging",'
    r' "event_type": "(?:POINT_IN_TIME|INTERVAL_START|INTERVAL_END)",'
    r' "metadata": \{"is_error": (true|false), "is_warning": (true|false),'
    rf' "file": "{_TEXT}*\.(?:cc|h)", "line_no": {_WHOLE},'
    rf' "pid": ({_WHOLE}), "tid": {_WHOLE}\}}\}}',
    re.ASCII,
)
LOADED_SET = "loaded_qsl_set"
"""The key of the indices of a loaded set. Their value is an array of 8 bytes a sample, because a
set may have a million of them; another value is a list as in JSON.
"""
_EVENTS = ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")


class Indices(array):
    """Indices of samples in 8 bytes each, whose text is that of a list."""

    def __repr__(self) -> str:
        return repr(self.tolist())


class Entry(NamedTuple):
    """The parts of an entry. `odd`: see `_oddity`."""

    key: str
    value: Any
    time_ms: Any
    is_error: Any
    is_warning: Any
    pid: Any
    odd: str = ""


def entry_of(text: str) -> Entry | str:
    """The entry, or the reason in brackets why the text is none."""
    if not text.startswith(MARK):
        return ""
    if match := _PLAIN.fullmatch(text, len(MARK)):
        key, value, whole, real, flag, time_ms, is_error, is_warning, pid = match.groups()
        if whole:
            value = int(whole)
        elif real:
            value = float(real)
        elif flag:
            value = flag == "true"
        return Entry(
            key=key,
            value=value,
            time_ms=float(time_ms),
            is_error=is_error == "true",
            is_warning=is_warning == "true",
            pid=int(pid),
        )
    content = text[len(MARK) :]
    try:
        entry = strict_json.parse(content)
    except ValueError as e:
        no_json = isinstance(e, json.JSONDecodeError)
        entry = _raw_entry(content, no_json)
        if entry is None:
            return "" if no_json else f" ({e})"
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
        return ""
    value, metadata = entry.get("value"), entry.get("metadata")
    if entry["key"] == LOADED_SET:
        value = _in_8_bytes_each(value)
    if not isinstance(metadata, dict):
        return ""
    return Entry(
        entry["key"],
        value,
        entry.get("time_ms"),
        metadata.get("is_error"),
        metadata.get("is_warning"),
        metadata.get("pid"),
        _oddity(entry),
    )


def _in_8_bytes_each(value: Any) -> Any:
    """A list of whole numbers as an array, if they fit. Any other value is returned as it is."""
    if not value or not isinstance(value, list) or any(type(each) is not int for each in value):
        return value
    try:
        return Indices("q", value)
    except OverflowError:
        return value


def _raw_entry(content: str, no_json: bool) -> Any:
    """An entry whose value is no JSON because LoadGen escapes nothing; None if something else is
    wrong with it. `no_json`: no reader of JSON would read it.
    """
    match = _RAW.fullmatch(content)
    if match is None or not (no_json or match[3]):
        return None
    try:
        entry = strict_json.parse(f"{match[1]}null{match[4]}")
    except ValueError:
        return None
    return entry | {"value": float(match[3]) if match[3] else match[2]}


def _oddity(entry: dict[str, Any]) -> str:
    """One sentence about a part of an entry that LoadGen would not have written
    (loadgen/logging.cc, AsyncLog); empty if there is none.
    """
    metadata = entry["metadata"]
    if entry.get("namespace") != "mlperf::logging" or entry.get("event_type") not in _EVENTS:
        return "the entry has another namespace or event_type than LoadGen's"
    for key in ("is_error", "is_warning"):
        if type(metadata.get(key)) is not bool:
            return f"{key} is true or false in each of LoadGen's entries"
    for word in ("error", "warning"):
        if entry["key"].startswith(word) and not metadata[f"is_{word}"]:
            return f"is_{word} is false, and LoadGen logs such a key with true"
    for key in ("pid", "tid", "line_no"):
        if type(metadata.get(key)) is not int:
            return f"{key} is not a number"
    file = str(metadata.get("file"))
    if not file.endswith((".cc", ".h")):
        return f"it was logged by {file[:40]}, which is not a source file of LoadGen"
    return ""
