"""A program that answers what Transformers or OpenCV make of a user's files.

`python -m sut.user_files CONNECTION NAME FOLDER` gets and sends messages by a connection, a file
descriptor. A message is JSON, or the `.npy` of a picture. `harness/execution/user_files.py` runs it
in an environment that has the library. The files are of strangers: no code of a folder is run,
nothing is downloaded, and memory is limited.
"""

from __future__ import annotations

import importlib
import io
import json
import resource
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

_SHORTER = 256
_MEMORY_BYTES = 4 << 30
"""The memory of the process, in addition to 16 times that of a message."""
_PROBES = ((60, 90), (90, 60))
"""Shapes of the pictures with which the size of a model's input is found."""

_SHOWN = 200
"""The most characters of an error's words."""

_Answer = Callable[[Any], Any]
"""JSON value → JSON value, or picture → array."""


def packed(value: Any) -> bytes:
    """An array or a JSON value as a message."""
    if not isinstance(value, np.ndarray):
        return json.dumps(value).encode()
    content = io.BytesIO()
    np.save(content, value)
    return content.getvalue()


def unpacked(message: bytes) -> Any:
    """The value of which `packed` made the message."""
    if message.startswith(np.lib.format.MAGIC_PREFIX):
        return np.load(io.BytesIO(message))
    return json.loads(message)


def main(connection: str, name: str, folder: str) -> None:
    """Answer until the connection ends. An error is its last line on standard error."""
    messages = Connection(int(connection))
    try:
        answer = _PROGRAMS[name](folder)
        while True:
            given = messages.recv_bytes()
            memory_bytes = _MEMORY_BYTES + 16 * len(given)
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, resource.RLIM_INFINITY))
            messages.send_bytes(packed(answer(unpacked(given))))
    except EOFError:
        pass
    # A library may fail in any way.
    except Exception as e:  # noqa: BLE001
        sys.exit(_words(e))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:_SHOWN]


def _tokenizer(folder: str) -> _Answer:
    """The class of a folder's tokenizer, if the folder does not name one → its tokenizer.json."""
    transformers = importlib.import_module("transformers")

    def answer(usual: str) -> str:
        try:
            found = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except ValueError:
            found = getattr(transformers, usual).from_pretrained(folder)
        return str(found.backend_tokenizer.to_str())

    return answer


def _pixels(folder: str) -> _Answer:
    """A picture, uint8 [height, width, channels] → the model's input, float32 [channels, height,
    width]. The number of channels → the size of this input, and what is computed with values from
    0 to 255: `scale` is multiplied, `mean` subtracted, `std` divided by.

    A class that needs PyTorch, or that is not known, is replaced by ViT's, which reads the same
    file.
    """
    transformers = importlib.import_module("transformers")
    own = transformers.AutoImageProcessor
    try:
        processor = own.from_pretrained(folder, backend="pil", trust_remote_code=False)
    except (ImportError, ValueError):
        processor = transformers.ViTImageProcessorPil.from_pretrained(folder)

    def pixels(picture: np.ndarray) -> np.ndarray:
        made = processor(picture, input_data_format="channels_last", return_tensors="np")
        return np.ascontiguousarray(made["pixel_values"][0], np.float32)

    def steps(channels: int) -> dict[str, Any]:
        shapes = {pixels(np.zeros((*probe, channels), np.uint8)).shape for probe in _PROBES}
        if len(shapes) > 1:
            raise ValueError("pictures keep several sizes")
        _, height, width = shapes.pop()
        return {
            "height": height,
            "width": width,
            "scale": processor.rescale_factor if processor.do_rescale else 1.0,
            "mean": processor.image_mean if processor.do_normalize else 0.0,
            "std": processor.image_std if processor.do_normalize else 1.0,
        }

    return lambda given: steps(given) if isinstance(given, int) else pixels(given)


def _chat(_: str) -> _Answer:
    """A template's `text`, its `variables` and `conversations` → the `texts`, or the `index` of the
    conversation that failed, and `why`. Without conversations → the `names` of its variables.
    """
    chats = importlib.import_module("transformers.utils.chat_template_utils")

    def answer(job: dict[str, Any]) -> dict[str, Any]:
        texts: list[str] = []
        more = {"chat_template": job["text"], "add_generation_prompt": True}
        try:
            if not job["conversations"]:
                return {"names": sorted(chats._get_template_variables(job["text"]))}
            for conversation in job["conversations"]:
                made = chats.render_jinja_template([conversation], **more, **job["variables"])
                texts += made[0]
        # A template may fail in any way.
        except Exception as e:  # noqa: BLE001
            return {"index": len(texts), "why": _words(e)}
        return {"texts": texts}

    return answer


def _area(_: str) -> _Answer:
    """A picture → the picture in its `resized_shape`, by the filter of `pre_process_vgg`."""
    cv2 = importlib.import_module("cv2")

    def answer(picture: np.ndarray) -> np.ndarray:
        height, width = resized_shape(picture)
        return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))

    return answer


def resized_shape(picture: np.ndarray) -> tuple[int, int]:
    """The height and the width to which a picture is resized for MLPerf's resnet."""
    height, width = picture.shape[:2]
    if height > width:
        return int(_SHORTER * height / width), _SHORTER
    return _SHORTER, int(_SHORTER * width / height)


_PROGRAMS: dict[str, Callable[[str], _Answer]] = {
    "tokenizer": _tokenizer,
    "pixels": _pixels,
    "chat": _chat,
    "area": _area,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
