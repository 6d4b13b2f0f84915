"""The line of an exception that holds its cause, and the number of bytes that it names. Frameworks
wrap the cause in lines of their own.
"""

from __future__ import annotations

import math
import re
import traceback

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_MOST_WORDS = 300  # characters
_TRACED = "in user code:"
_REFUSALS = (3, 12)
"""TensorFlow's codes INVALID_ARGUMENT and UNIMPLEMENTED (tensorflow/core/protobuf/error_codes)."""
_BYTES = re.compile(r"alloc\w*\D{0,40}?([\d.]+) ?(bytes|B|[KMGT]iB)\b")
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# TensorFlow names no bytes: "OOM when allocating tensor with shape[8,4] and type float".
_TENSOR = re.compile(r"shape\[([\d,]+)\] and type (\w+)")
_ITEM_BYTES = {"double": 8, "int64": 8, "float": 4, "int32": 4, "bfloat16": 2, "half": 2, "bool": 1}


def line(error: BaseException) -> str:
    """Return the line of the error's text that holds its cause.

    - Keras names the layer that it called first, and the cause in the third line.
    - For a traced function, TensorFlow lists each line of source, and the innermost error last.
    - For a node of a graph, TensorFlow lists where it was defined. The cause is the line before
      the name of the node, which is indented.
    - A library that imports late says that it failed, and the cause after a colon.
    - An error without text has the line of source that raised it.
    """
    if not str(error):
        frames = traceback.extract_tb(error.__traceback__)
        return frames[-1].line or "" if frames else ""
    lines = [each.strip() for each in _STYLE.sub("", str(error)).strip().split("\n")]
    if _of_a_layer(error) and len(lines) > 2:
        return lines[2]
    kind = f"{type(error).__name__}: "
    if lines[0] == _TRACED:
        inner = [each for each in lines[1:] if each.startswith(kind)]
        return inner[-1].removeprefix(kind) if inner else lines[0]
    nodes = [number for number, each in enumerate(lines) if each.startswith("[[{{node")]
    if nodes:
        return lines[nodes[0] - 1]
    return " ".join(lines[:2]).rstrip() if lines[0].endswith(":") else lines[0]


def words(error: BaseException) -> str:
    """Return the name of the error's class and its first cause on one line, without styles."""
    while error.__context__ and not str(error).strip():
        error = error.__context__
    text = " ".join(_STYLE.sub("", str(error)).split())
    return f"{type(error).__name__}: {text[:_MOST_WORDS] or 'no message'}"


def is_refusal(error: BaseException) -> bool:
    """Return whether Keras or TensorFlow refused an operation: a layer of Keras raised the error
    when it was called, or TensorFlow's code of the error says so.
    """
    return _of_a_layer(error) or getattr(error, "error_code", None) in _REFUSALS


def _of_a_layer(error: BaseException) -> bool:
    return getattr(error, "_keras_call_info_injected", False)


def asked_bytes(text: str) -> int | None:
    """Return the bytes that one line of an error names. None: it names no bytes."""
    size = _BYTES.search(text)
    if size:
        number, unit = size.groups()
        return round(float(number) * _UNITS[unit])
    tensor = _TENSOR.search(text)
    if tensor is None or tensor[2] not in _ITEM_BYTES:
        return None
    shape = map(int, tensor[1].split(","))
    return math.prod(shape) * _ITEM_BYTES[tensor[2]]
