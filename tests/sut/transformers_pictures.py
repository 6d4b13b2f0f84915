"""Runs in native torch's environment: the pictures of a folder as Transformers' own image
processors make them.

`python -m tests.sut.transformers_pictures SPEC.json`: "folders" holds folders with a
preprocessor_config.json, by name, "pictures" the files of the pictures, "out" a folder, to which
NAME.npy is written for each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import transformers
from PIL import Image


def main(specification: Path) -> None:
    told = json.loads(specification.read_text())
    pictures = [Image.open(path).convert("RGB") for path in told["pictures"]]
    for name, folder in told["folders"].items():
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        values = processor(images=pictures, return_tensors="np")["pixel_values"]
        np.save(Path(told["out"]) / f"{name}.npy", values)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
