"""The metric of resnet: the share of ImageNet's pictures whose class is right (top-1).

Written from the definitions in vision/classification_and_detection of mlcommons/inference
(python/imagenet.py, tools/accuracy-imagenet.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compliance.scoring.payload import values
from compliance.scoring.value import AnswerBytes, Scored

LIST = "val_map.txt"
"""The list of the pictures. A line has the name of a file in the folder, and the number of its
class.
"""


def parse(content: bytes) -> dict[str, int]:
    """The name of each picture of the list → its class, in the order of the list. Raises ValueError
    with one sentence.
    """
    labels: dict[str, int] = {}
    try:
        lines = content.decode().rstrip().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{LIST} is not a text") from None
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) != 2 or not words[1].isdecimal():
            raise ValueError(
                f"line {number} of {LIST} is {line[:80]!r}, and not the name of a picture and the"
                " number of its class"
            )
        name, label = words
        if name in labels:
            raise ValueError(f"line {number} of {LIST} names {name} again")
        labels[name] = int(label)
    return labels


def score(contents: Mapping[str, bytes], answers: AnswerBytes) -> Scored:
    """The metric, and the line of accuracy-imagenet.py. The value is rounded as in that line,
    because the official checker reads the line.

    Args:
        contents: name of a file → its content: `val_map.txt`.
        answers: number of a picture in the list → its class, int64.

    Raises ValueError with one sentence if the answers are not those of the pictures.
    """
    labels = list(parse(contents[LIST]).values())
    if sorted(answers) != list(range(len(labels))):
        raise ValueError(f"{len(answers)} answers do not fit the {len(labels)} pictures of {LIST}")
    good = 0
    for number, label in enumerate(labels):
        good += int(values(answers, number, np.int64, 1)[0]) == label
    percent = f"{100.0 * good / len(labels):.3f}"
    return Scored({"acc": float(percent)}, f"accuracy={percent}%, good={good}, total={len(labels)}")
