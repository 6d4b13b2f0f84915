"""The class of an operator, a kernel or an instruction, by its name in a framework's trace.

`operations.toml` has the names, or a file of the framework's own. Standard library only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from formats.profile import HOST, OTHER

_TABLE = Path(__file__).with_name("operations.toml")
# The tables whose names consist of words. In the other tables a whole name matches.
_OF_WORDS = ("inductor", "cuda", "scopes")
_MAPS = ("pointwise", "data movement")

_TORCH = re.compile(r"^(?:\w+::)?(?:_foreach_)?(.+?)(?:_backward)?_?$")
_INDUCTOR = re.compile(r"(?:cpp|triton)_")
# Inductor's own matrix product has the same kind of name as other kernels: only its code differs.
_DEFINED = re.compile(r"^(cpp_fused\w*) = ", re.MULTILINE)
_PRODUCT = "micro_gemm"


@cache
def of(table: str | Path, name: str) -> str:
    """Return the class of a name in a table of `operations.toml` or in a file of one table, or
    `other`.
    """
    for kind, pattern in _patterns(table):
        if pattern.search(name):
            return kind
    return OTHER


def of_torch(name: str) -> str:
    """Return the class of an operator of ATen, or of a kernel that Inductor wrote."""
    if _INDUCTOR.match(name):
        return of("inductor", name)
    plain = _TORCH.match(name)
    return of("torch", plain[1] if plain else name)


def inductors_products(code: str) -> set[str]:
    """Return the names of the kernels of a module of Inductor that are matrix products on a CPU.

    `code`: the module's Python code, which contains the C++ code of its kernels.
    """
    _, *parts = _DEFINED.split(code)
    kernels = zip(parts[::2], parts[1::2], strict=True)
    return {name for name, text in kernels if _PRODUCT in text}


def of_kernel(table: str, names: Iterable[str], scopes: Iterable[str]) -> str:
    """Return the class of a kernel that runs several operators.

    The first class of the table that one of the operators has is the class of the kernel, unless
    `together` has another one. A kernel that only maps or moves elements is a part of a norm if one
    of its scopes says so.

    Args:
        names: the operators' names.
        scopes: where the model's code made these operators, such as `encoder/layer_norm/mul`.
    """
    names = set(names)
    for kind, needed in _together().get(table, {}).items():
        if names.issuperset(needed):
            return kind
    found = {of(table, name) for name in names}
    kinds = [kind for kind, _ in _patterns(table) if kind in found]
    kind = kinds[0] if kinds else OTHER
    # An unknown instruction decides only if there is no other.
    if kind == HOST and OTHER in found:
        return OTHER
    if kind in _MAPS:
        of_scopes = (of("scopes", scope) for scope in scopes)
        return next((each for each in of_scopes if each != OTHER), kind)
    return kind


@cache
def _tables() -> dict[str, Any]:
    return _read(_TABLE)


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _together() -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return table → class → the names of which a kernel of this class runs all."""
    together: Mapping[str, Mapping[str, Sequence[str]]] = _tables()["together"]
    return together


@cache
def _patterns(table: str | Path) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return (class, expression) of a table, in its order."""
    classes = _tables()[table] if isinstance(table, str) else _read(table)
    around = r"(?<![A-Za-z])(?:{})(?![A-Za-z])" if table in _OF_WORDS else r"^(?:{})$"
    found = []
    for kind, names in classes.items():
        found.append((kind, re.compile(around.format("|".join(names)))))
    return tuple(found)
