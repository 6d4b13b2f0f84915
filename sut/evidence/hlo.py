"""Reads which instructions each kernel of an XLA program runs, from the program's text as XLA
compiled it. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sut.evidence import operation_classes

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = .*? ([a-z][\w\-]*)\(")
_FUSED = re.compile(r"\bcalls=%?([\w.\-]+)")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_ID_FIELD = 5 * 8  # field 5, a number
_WITH_LENGTH = 2  # the wire type of a field that begins with its length. Others are numbers here
FUSION = "fusion"
"""The opcode of an instruction that runs the instructions of a computation as one kernel."""
_CUSTOM = "custom-call"


@dataclass(frozen=True)
class Instruction:
    """One instruction of a program.

    Attributes:
        opcode: its opcode, or the target of a custom call.
        scope: where the model's code made it, such as `jit(step)/encoder/layer_norm/mul`.
        fused: the name of the computation that a fusion runs, else empty.
    """

    opcode: str
    scope: str = ""
    fused: str = ""


Program = Mapping[str, Mapping[str, Instruction]]
"""Name of a computation → name of an instruction → the instruction."""


def read(text: str) -> Program:
    """Return the computations of a program's text."""
    program: dict[str, dict[str, Instruction]] = {}
    computation: dict[str, Instruction] = {}
    for line in text.splitlines():
        header = _COMPUTATION.match(line)
        if header:
            computation = program.setdefault(header[1], {})
            continue
        found = _INSTRUCTION.match(line)
        if found:
            opcode = found[2]
            scope = _SCOPE.search(line)
            target = _TARGET.search(line) if opcode == _CUSTOM else None
            fused = _FUSED.search(line) if opcode == FUSION else None
            computation[found[1]] = Instruction(
                opcode=target[1] if target else opcode,
                scope=scope[1] if scope else "",
                fused=fused[1] if fused else "",
            )
    return program


def classes(program: Program) -> dict[str, str]:
    """Return name of each instruction → its class. A fusion has the class of its instructions."""
    found = {}
    for computation in program.values():
        for name, instruction in computation.items():
            parts = list(_parts(program, instruction))
            opcodes = [part.opcode for part in parts]
            scopes = [part.scope for part in parts]
            found[name] = operation_classes.of_kernel("hlo", opcodes, scopes)
    return found


def _parts(program: Program, instruction: Instruction) -> Iterator[Instruction]:
    """Yield an instruction, and those that it fuses."""
    yield instruction
    for inner in program.get(instruction.fused, {}).values():
        yield from _parts(program, inner)


def number_of(message: bytes) -> int:
    """Return XLA's number of a program, the field `id` of its serialised `HloModuleProto`.

    JAX has no class for this message, so its fields are read one after another.
    """
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        value, place = _varint(message, place)
        if key == _ID_FIELD:
            return value
        if key % 8 == _WITH_LENGTH:
            place += value
    return 0


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at this place of a protobuf message, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        place += 1
        number += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return number, place
