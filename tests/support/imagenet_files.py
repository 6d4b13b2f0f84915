"""Small files of resnet in the real formats: 50 pictures of several shapes, a `val_map.txt`, and the
folder of a seeded ResNet.

`PYTHONPATH=. .cache/environments/dev/bin/python -m tests.support.imagenet_files DIR [--full]` writes
them. With `--full` the model is ResNet-50 v1.5.
"""

import sys
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from PIL import Image
from safetensors.numpy import save_file

from compliance.scoring.imagenet import LIST
from formats.writing import write_json

PICTURES = 50
CLASSES = 1000
SHAPES = ((300, 400), (400, 300), (256, 256), (512, 512), (90, 333), (257, 600), (230, 150))
"""(height, width) of the pictures, in turns: smaller and larger ones than 256, and of whole
factors.
"""
TINY = {"embedding_size": 64, "hidden_sizes": [256, 512], "depths": [1, 1]}
BASIC = {**TINY, "hidden_sizes": [64, 128], "layer_type": "basic"}
FULL = {"embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3]}
_SEED = 20261126


def picture(number):
    """A picture of one main colour with a rectangle and noise, uint8 [height, width, 3]."""
    height, width = SHAPES[number % len(SHAPES)]
    draw = np.random.default_rng([_SEED, number])
    colours = draw.integers(0, 200, (2, 3))
    values = np.broadcast_to(colours[0], (height, width, 3)).copy()
    values[height // 4 : height // 2, width // 3 :] = colours[1]
    values += draw.integers(0, 56, values.shape)
    return values.astype(np.uint8)


def labels():
    """The name of each picture → its class, from 0 to 9."""
    return {f"ILSVRC2012_val_{n + 1:08}.JPEG": n * 7 % 10 for n in range(PICTURES)}


def listing(classes):
    """The content of `val_map.txt`."""
    return "".join(f"{name} {label}\n" for name, label in classes.items())


def answers():
    """An answer to each picture, int64. Every fourth one is wrong."""
    found = {}
    for number, label in enumerate(labels().values()):
        answer = label + (number % 4 == 3)
        found[number] = np.int64(answer).tobytes()
    return found


def write(folder, size=TINY, **config):
    """Write the files → (the folder of the pictures, the folder of the model). `config`: values that
    replace those of the model's config.json.
    """
    data, model = folder / "val", folder / "resnet"
    data.mkdir(parents=True)
    model.mkdir()
    for number, name in enumerate(labels()):
        image = Image.fromarray(picture(number))
        if number % 10 == 9:
            image = image.convert("L")
        image.save(data / name, quality=90)
    (data / LIST).write_text(listing(labels()))
    values = {
        "architectures": ["ResNetForImageClassification"],
        "model_type": "resnet",
        "num_channels": 3,
        "layer_type": "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
        "id2label": {str(n): f"class {n}" for n in range(CLASSES)},
        **size,
        **config,
    }
    write_json(model / "config.json", values)
    save_file(_tensors(size), model / "model.safetensors", {"format": "pt"})
    return data, model


def as_if_closed(real):
    """The workload as if the small model were that of the closed division."""
    return replace(real, closed_model={"model_type": "resnet", **TINY})


def _tensors(size):
    """Seeded weights under the names of Transformers."""
    draw = np.random.default_rng(_SEED)
    tensors = {}
    for name, shape in _convolutions(size):
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        tensors[f"{name}.convolution.weight"] = draw.normal(0, deviation, shape)
        norm = f"{name}.normalization"
        channels = shape[0]
        # The last norm of a block is small, so that the sum of many blocks keeps its scale.
        gain = 0.3 if name.endswith("layer.2") else 1.0
        tensors[f"{norm}.weight"] = gain * draw.normal(1, 0.1, channels)
        tensors[f"{norm}.bias"] = draw.normal(0, 0.1, channels)
        tensors[f"{norm}.running_mean"] = draw.normal(0, 0.1, channels)
        tensors[f"{norm}.running_var"] = draw.uniform(0.8, 1.2, channels)
    hidden = size["hidden_sizes"][-1]
    tensors["classifier.1.weight"] = draw.normal(0, hidden**-0.5, (CLASSES, hidden))
    tensors["classifier.1.bias"] = draw.normal(0, 0.1, CLASSES)
    made = {name: values.astype(np.float32) for name, values in tensors.items()}
    for name in tensors:
        if name.endswith("running_var"):
            counter = name.replace("running_var", "num_batches_tracked")
            made[counter] = np.ones((), np.int64)
    return made


def _convolutions(size):
    """(name, shape of the weight) of each convolution."""
    before = size["embedding_size"]
    yield "resnet.embedder.embedder", (before, 3, 7, 7)
    for stage, (hidden, depth) in enumerate(zip(size["hidden_sizes"], size["depths"], strict=True)):
        for block in range(depth):
            name = f"resnet.encoder.stages.{stage}.layers.{block}"
            if block == 0 and (stage > 0 or before != hidden):
                yield f"{name}.shortcut", (hidden, before, 1, 1)
            for number, shape in enumerate(_block(size, hidden, before)):
                yield f"{name}.layer.{number}", shape
            before = hidden


def _block(size, hidden, before):
    if size.get("layer_type") == "basic":
        return [(hidden, before, 3, 3), (hidden, hidden, 3, 3)]
    inner = hidden // 4
    return [(inner, before, 1, 1), (inner, inner, 3, 3), (hidden, inner, 1, 1)]


def main(folder, size):
    """Write the files, and an accuracy log of LoadGen with `answers`."""
    write(folder, size)
    rows = [
        {"seq_id": number, "qsl_idx": number, "data": answer.hex().upper()}
        for number, answer in answers().items()
    ]
    write_json(folder / "mlperf_log_accuracy.json", rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), FULL if "--full" in sys.argv else TINY)
