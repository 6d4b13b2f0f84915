"""The cases of a comparison: small models with inputs, each in a folder of its own. One program
makes the folders, and others compute them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from formats.writing import write_json
from sut.evidence import causes

Arrays = Mapping[str, np.ndarray]
Answer = Arrays | str
"""The arrays that a backend computes of a case, or the words of its refusal."""
UNFINISHED = "the process ended in it"
"""The words of a case while a program computes it."""
LIST = "cases.json"
"""The file with the list of cases, which is written when all are made."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A small model with its inputs.

    Attributes:
        name: such as `qwen2, tied head`.
        folder: of its files, if it was made.
        reason: why it was not made; empty: it was made.
    """

    name: str
    folder: Path
    reason: str = ""


Wanted = Iterator[tuple[Case, Callable[[Path], None]]]
"""Cases, each with the function that fills its folder."""


def make(out: Path, library: str, wanted: Wanted) -> None:
    """Let the function of each case fill its folder, and list the cases. Folders from before an
    interruption stay.

    Args:
        out: for the list. The folders of the cases are in it.
        library: its name, for the reason of a case that it does not make.
    """
    listed = []
    partial = out / "partial"
    for case, fill in wanted:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            if not case.folder.exists():
                fill(partial)
                partial.rename(case.folder)
            listed.append(case)
        except Exception as e:  # noqa: BLE001  whatever a library raises for a setting
            listed.append(replace(case, reason=f"{library}: {causes.line(e)}"))
    write_json(out / LIST, [asdict(case) for case in listed])


def compute(folders: Iterable[Path], out: Path, answer: Callable[[Path], Arrays]) -> None:
    """Write the answers of each folder to `out`: an .npz with the arrays, or a .txt with the words
    of a refusal. Those from before this process was started again stay.
    """
    for folder in folders:
        made, refusal = _files(out, folder)
        if made.exists() or refusal.exists():
            continue
        refusal.write_text(UNFINISHED, encoding="utf-8")
        try:
            arrays = answer(folder)
        except Exception as e:  # noqa: BLE001  whatever a framework raises
            refusal.write_text(causes.words(e), encoding="utf-8")
            continue
        np.savez(made, allow_pickle=False, **arrays)
        refusal.unlink()


def answers(found: Mapping[str, Path], case: Case) -> dict[str, Answer]:
    """Backend → its answer of a case, without the backends that did not try it.

    `found`: backend → the folder to which `compute` wrote.
    """
    answers: dict[str, Answer] = {}
    for backend, out in found.items():
        made, refusal = _files(out, case.folder)
        if refusal.exists():
            answers[backend] = refusal.read_text(encoding="utf-8")
        elif made.exists():
            answers[backend] = arrays(made)
    return answers


def _files(out: Path, folder: Path) -> tuple[Path, Path]:
    """The file with the answers of a case, and that with the words of a refusal."""
    return out / f"{folder.name}.npz", out / f"{folder.name}.txt"


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz."""
    with np.load(path) as file:
        return dict(file)
