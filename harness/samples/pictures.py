"""Pictures of a run directory: a folder with the first answers, and a list that describes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from compliance import logs
from compliance.scoring.payload import split
from formats.writing import write_json

SIDE = 288
"""The longest side of a picture, in pixels."""
SAMPLES = 3
"""The most pictures of a run."""
_QUALITY = 85

Arrays = dict[str, np.ndarray]
"""The arrays of one sample, by name."""
Sample = TypeVar("Sample")


def answers(directory: Path, names: Sequence[str]) -> Iterator[tuple[int, Arrays, Arrays]]:
    """Yield the number, the answer and the reference's answer of the first samples.

    A sample is left out if its answer has another size than the reference's. Without a reference
    there are no samples.

    Args:
        directory: folder of a run whose accuracy test ended well.
        names: names of the arrays of an answer, in the order of its bytes.
    """
    if not (directory / "reference.npz").exists():
        return
    log = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json")
    with np.load(directory / "reference.npz") as reference:
        expected = {name: reference[name][:SAMPLES] for name in names}
    for i in range(len(expected[names[0]])):
        row = {name: array[i] for name, array in expected.items()}
        try:
            answer = split(log.payloads, i, row)
        except (KeyError, ValueError):
            continue
        yield i, answer, row


def write(folder: Path, drawn: Iterable[tuple[Any, Image.Image]]) -> None:
    """Write each picture as a JPEG file, and a list of the samples. Without pictures no folder is
    created.

    Args:
        drawn: (sample, its picture). A sample is a dataclass, whose `file` names the picture.
    """
    samples = []
    for sample, picture in drawn:
        folder.mkdir(exist_ok=True)
        picture.save(folder / sample.file, quality=_QUALITY)
        samples.append(asdict(sample))
    if samples:
        write_json(_list(folder), {"samples": samples})


def read(folder: Path, kind: type[Sample]) -> list[tuple[Sample, bytes]]:
    """Return the samples of a folder, each with its JPEG file.

    The list is empty if there is no folder, or if one of its files cannot be read.

    Args:
        kind: the dataclass of a sample.
    """
    found = []
    try:
        document: Any = json.loads(_list(folder).read_text(encoding="utf-8"))
        for values in document["samples"]:
            jpeg = (folder / Path(values["file"]).name).read_bytes()
            found.append((kind(**values), jpeg))
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return found


def _list(folder: Path) -> Path:
    return folder / f"{folder.name}.json"
