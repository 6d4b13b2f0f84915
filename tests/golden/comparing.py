"""Names the fields by which derived outputs differ."""

import json
import re
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path

from tests.support.files import read_json

VOLATILE = {
    "plans *.cost": "it depends on how fast the machine multiplies now",
    "plans *.seconds": "as the cost",
    "plans *.refused": "it names the memory that is free now",
    "plans *.reference": "the same",
}
"""Pattern of fields → why two outputs of one commit differ in them. Only the digits of a text are
ignored.
"""
_ABSENT = "nothing"
_LONGEST = 60


def main(a, b, *may_differ):
    """Print each field that differs and is in none of the patterns `may_differ`. → 1 if there is
    one.
    """
    found = list(differences(a, b))
    left = [each for each in found if not any(fnmatch(each[0], name) for name in may_differ)]
    for field, before, after in left:
        print(f"{field}: {_short(before)} → {_short(after)}")
    print(f"{len(left)} fields differ, and {len(found) - len(left)} that may differ")
    return 1 if left else 0


def differences(a, b):
    """(name, value in A, value in B) of each field that differs, such as `audits runs/x.code`."""
    names = {path.name for folder in (a, b) for path in folder.glob("*.json")}
    for name in sorted(names):
        contents = [_content(folder / name) for folder in (a, b)]
        for field, before, after in _different(*contents, Path(name).stem):
            if not _alike(field, before, after):
                yield field, before, after


def _content(path):
    return read_json(path) if path.exists() else {}


def _different(a, b, field):
    if isinstance(a, dict) and isinstance(b, dict):
        between = "." if " " in field else " "
        for key in [*a, *(key for key in b if key not in a)]:
            inner = f"{field}{between}{key}"
            yield from _different(a.get(key, _ABSENT), b.get(key, _ABSENT), inner)
        if [*a] != [*b] and sorted(a) == sorted(b):
            yield f"{field} (order)", [*a], [*b]
    elif isinstance(a, list) and isinstance(b, list):
        for place, (x, y) in enumerate(zip_longest(a, b, fillvalue=_ABSENT)):
            yield from _different(x, y, f"{field}[{place}]")
    elif a != b or type(a) is not type(b):
        yield field, a, b


def _alike(field, before, after):
    """Whether the field is volatile, and its values differ only in digits."""
    if not any(fnmatch(field, pattern) for pattern in VOLATILE):
        return False
    x, y = (re.sub(r"[\d.,:]+", "#", str(value)) for value in (before, after))
    return x == y


def _short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
