"""This module writes and reads masks/ of a run directory: a segmenting model's masks, drawn over its first images."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from compliance import logs
from compliance.scoring.payload import split
from harness.inputs.pictures import MEAN
from scenarios.worker.job import write_json

FOLDER = "masks"
_LIST, _SAMPLES, _SIDE = "masks.json", 3, 288
_MASK, _OBJECT, _BACKGROUND = (255, 140, 0), (0, 200, 80), (220, 30, 30)
_QUALITY, _RADIUS = 85, 5


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One sample, with the mask that the model itself scores highest.

    Attributes:
        file: the picture, in the same folder.
        mask: its number, from 1.
        masks: how many the model answers with.
        score, reference_score: that mask's.
        iou: its intersection over union with the reference's.
    """

    file: str
    mask: int
    masks: int
    score: float
    reference_score: float
    iou: float


def write(directory: Path, inputs: Path) -> None:
    """Draw the first samples of the accuracy test. No reference: nothing is drawn.

    Args:
        directory: of a run whose accuracy test ended well.
        inputs: the .npz that every SUT read.
    """
    if not (directory / "reference.npz").exists():
        return
    answers = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").payloads
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    drawn = []
    with np.load(inputs) as arrays, np.load(directory / "reference.npz") as reference:
        first = {name: arrays[name][:_SAMPLES] for name in arrays.files}
        expected = {name: reference[name][:_SAMPLES] for name in ("mask", "logits", "score")}
    for i in range(len(first["image"])):
        rows = {name: array[i] for name, array in expected.items()}
        answer = split(answers, i, rows)
        best = int(answer["score"].argmax())
        file = f"{i + 1}.jpg"
        _picture({name: array[i] for name, array in first.items()}, answer["mask"][best]).save(folder / file, quality=_QUALITY)
        drawn.append(
            Drawn(
                file=file,
                mask=best + 1,
                masks=len(answer["score"]),
                score=round(float(answer["score"][best]), 4),
                reference_score=round(float(rows["score"][best]), 4),
                iou=round(_iou(answer["mask"][best], rows["mask"][best]), 5),
            )
        )
    write_json(folder / _LIST, {"samples": [asdict(each) for each in drawn]})


def read(directory: Path) -> list[tuple[Drawn, bytes]]:
    """The samples of a run directory with their JPEG files; none where it holds none, or some that cannot be read."""
    folder = directory / FOLDER
    try:
        document: Any = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        samples = [Drawn(**sample) for sample in document["samples"]]
        return [(sample, (folder / Path(sample.file).name).read_bytes()) for sample in samples]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _iou(mask: np.ndarray, other: np.ndarray) -> float:
    union = int((mask | other).sum())
    return int((mask & other).sum()) / union if union else 1.0


def _picture(sample: dict[str, np.ndarray], mask: np.ndarray) -> Image.Image:
    """The image with the mask, the points (green: of the object, red: of the background) and the box, without what filled it up."""
    image = sample["image"]
    height, width = (int(np.flatnonzero((image != np.array(MEAN, np.float32)).any(axis=(axis, 2))).max(initial=0)) + 1 for axis in (1, 0))
    plain = Image.fromarray((image * 255).round().astype(np.uint8))
    shade = Image.fromarray(mask.astype(np.uint8) * 255).resize(plain.size, Image.Resampling.NEAREST)
    drawn = Image.composite(Image.blend(plain, Image.new("RGB", plain.size, _MASK), 0.55), plain, shade).crop((0, 0, width, height))
    scale = _SIDE / max(width, height)
    drawn = drawn.resize((max(1, round(width * scale)), max(1, round(height * scale))), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(drawn)
    for (x, y), label in zip(sample["points"] * scale, sample["labels"], strict=True):
        pen.ellipse((x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS), fill=_OBJECT if label else _BACKGROUND, outline="white")
    for corners in sample.get("boxes", np.empty((0, 2, 2))) * scale:
        pen.rectangle([tuple(corner) for corner in corners.tolist()], outline=_OBJECT, width=2)
    return drawn
