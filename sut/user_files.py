"""A program that answers what Transformers or OpenCV make of a user's files.

`python -m sut.user_files NAME [FOLDER]` reads arrays from its standard input and writes an array
for each. `harness/execution/user_files.py` runs it in an environment that has the library. The
files are of strangers: no code of a folder is run, nothing is downloaded, and time and memory are
limited.
"""

from __future__ import annotations

import importlib
import json
import math
import resource
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

SIDE = 224
"""The side of a picture for MLPerf's resnet."""
_SHORTER = 256
_MEMORY_BYTES = 4 << 30
"""The memory of the process, in addition to 16 times that of what is asked."""
SECONDS = 10
"""The processor's seconds for an answer, in addition to those for what is asked."""
_BYTES_A_SECOND = 50_000
_PROBES = ((60, 90), (90, 60))
"""Shapes of the pictures with which the size of a model's input is found."""

_Answer = Callable[[np.ndarray], np.ndarray]


def packed(value: Any) -> np.ndarray:
    """A JSON value as an array of bytes."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def unpacked(array: np.ndarray) -> Any:
    """The value of which `packed` made the array."""
    return json.loads(array.tobytes())


def send(stream: IO[bytes], array: np.ndarray) -> None:
    """Write an array, as `receive` reads it."""
    stream.write(json.dumps([array.dtype.name, array.shape]).encode() + b"\n" + array.tobytes())
    stream.flush()


def receive(stream: IO[bytes]) -> np.ndarray | None:
    """The next array. None at the end."""
    line = stream.readline()
    if not line:
        return None
    dtype, shape = json.loads(line)
    content = stream.read(math.prod(shape) * np.dtype(dtype).itemsize)
    return np.frombuffer(content, dtype).reshape(shape)


def main(name: str, *folder: str) -> None:
    """Answer until the input ends. An error is its last line on standard error."""
    out = sys.stdout.buffer
    sys.stdout = sys.stderr
    try:
        answer = _PROGRAMS[name](*folder)
        while (given := receive(sys.stdin.buffer)) is not None:
            _limit(given.nbytes)
            send(out, answer(given))
    # A library may fail in any way.
    except Exception as e:  # noqa: BLE001
        sys.exit(_words(e))


def _limit(given_bytes: int) -> None:
    """Let the kernel end this process if it needs more time, and refuse it more memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + SECONDS + given_bytes / _BYTES_A_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), resource.RLIM_INFINITY))
    memory_bytes = _MEMORY_BYTES + 16 * given_bytes
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, resource.RLIM_INFINITY))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _tokenizer(folder: str) -> _Answer:
    """The class of a folder's tokenizer, if the folder does not name one → its tokenizer.json."""
    import transformers

    def answer(usual: np.ndarray) -> np.ndarray:
        try:
            found = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except ValueError:
            found = getattr(transformers, unpacked(usual)).from_pretrained(folder)
        return packed(found.backend_tokenizer.to_str())

    return answer


def _processor(folder: str) -> _Answer:
    """The number of channels → the size of the model's input, and what is computed with values from
    0 to 255: `scale` is multiplied, `mean` subtracted, `std` divided by.
    """
    processor, pixels = _image_processor(folder)

    def answer(channels: np.ndarray) -> np.ndarray:
        made = [pixels(np.zeros((*probe, unpacked(channels)), np.uint8)) for probe in _PROBES]
        if made[0].shape != made[1].shape:
            raise ValueError("pictures keep several sizes")
        normalises = processor.do_normalize
        return packed(
            {
                "height": made[0].shape[1],
                "width": made[0].shape[2],
                "scale": processor.rescale_factor if processor.do_rescale else 1.0,
                "mean": processor.image_mean if normalises else 0.0,
                "std": processor.image_std if normalises else 1.0,
            }
        )

    return answer


def _pixels(folder: str) -> _Answer:
    """A picture, uint8 [height, width, channels] → the model's input, float32 [channels, height,
    width].
    """
    return _image_processor(folder)[1]


def _image_processor(folder: str) -> tuple[Any, _Answer]:
    """The processor of a folder, and what it makes of a picture. A class that needs PyTorch is
    replaced by ViT's, which reads the same file.
    """
    import transformers

    own = transformers.AutoImageProcessor
    try:
        processor = own.from_pretrained(folder, backend="pil", trust_remote_code=False)
    except ImportError:
        processor = transformers.ViTImageProcessorPil.from_pretrained(folder)

    def pixels(picture: np.ndarray) -> np.ndarray:
        made = processor(picture, input_data_format="channels_last", return_tensors="np")
        return np.ascontiguousarray(made["pixel_values"][0], np.float32)

    return processor, pixels


def _chat() -> _Answer:
    """A template's `text`, its `variables` and `conversations` → the `texts`, or the `index` of the
    conversation that failed, and `why`. Without conversations → the `names` of its variables.
    """
    chats = importlib.import_module("transformers.utils.chat_template_utils")

    def answer(given: np.ndarray) -> np.ndarray:
        job = unpacked(given)
        texts: list[str] = []
        more = {"chat_template": job["text"], "add_generation_prompt": True}
        try:
            if not job["conversations"]:
                return packed({"names": sorted(chats._get_template_variables(job["text"]))})
            for conversation in job["conversations"]:
                made = chats.render_jinja_template([conversation], **more, **job["variables"])
                texts += made[0]
        # A template may fail in any way.
        except Exception as e:  # noqa: BLE001
            return packed({"index": len(texts), "why": _words(e)})
        return packed({"texts": texts})

    return answer


def _area() -> _Answer:
    """A picture → its middle, uint8 [SIDE, SIDE, channels], as `pre_process_vgg` of MLPerf's
    reference makes it.
    """
    import cv2

    def answer(picture: np.ndarray) -> np.ndarray:
        height, width = resized_shape(*picture.shape[:2])
        resized = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        top, left = (int((length - SIDE) / 2) for length in (height, width))
        return np.asarray(resized[top : top + SIDE, left : left + SIDE])

    return answer


def resized_shape(height: int, width: int) -> tuple[int, int]:
    """The height and the width to which a picture is resized for MLPerf's resnet."""
    if height > width:
        return int(_SHORTER * height / width), _SHORTER
    return _SHORTER, int(_SHORTER * width / height)


_PROGRAMS: dict[str, Callable[..., _Answer]] = {
    "tokenizer": _tokenizer,
    "processor": _processor,
    "pixels": _pixels,
    "chat": _chat,
    "area": _area,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
