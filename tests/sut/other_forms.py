"""Writes weights in other forms than a Hugging Face folder, and converts them:
`python -m tests.sut.other_forms SPECIFICATION`.

The specification has `folder` and `packages`, the path of GGUF's package. `kinds.json` in the
folder has, for each kind of GGUF file and of adapter, why it was refused, or how far the logits of
the new model are from those of the right one, in standard deviations.
"""

import os
import pickle
import sys
from pathlib import Path

import torch
import transformers

from formats.writing import write_json
from sut.conversion import Lost, adapter
from sut.conversion.__main__ import KINDS
from tests.support.files import read_json
from tests.sut import adapter_kinds

TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["t", "0", "t0", *(f"w{n}" for n in range(61))],
    "tokenizer.ggml.merges": ["t 0"],
    "tokenizer.ggml.eos_token_id": 1,
}


class Runs:
    """A pickle of this runs a command when it is opened."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def pickles(folder):
    """Write bin/ and hostile/, with the configuration of base/. Convert both."""
    model = adapter_kinds.base()
    model.save_pretrained(folder / "base")
    for name, content in (("bin", model.state_dict()), ("hostile", {"x": Runs()})):
        (folder / name).mkdir()
        torch.save(content, folder / name / "pytorch_model.bin")
        model.config.save_pretrained(folder / name)
        (folder / f"from-{name}").mkdir()
    KINDS["pickle"](folder / "bin", folder / "from-bin", None)
    os.chdir(folder)
    try:
        KINDS["pickle"](folder / "hostile", folder / "from-hostile", None)
    except pickle.UnpicklingError as e:
        return str(e)


def gguf_files(folder):
    """Write and load a file of each kind. → kind → the outcome."""
    from gguf import GGUFReader

    from sut.conversion import gguf_file
    from tests.sut import gguf_kinds

    def outcome(name, architecture, config, keys, tensors):
        model = gguf_kinds.model_of(config)
        path = folder / f"{name}.gguf"
        gguf_kinds.write(path, architecture, model, keys, tensors)
        stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
        return _outcome(model, lambda: gguf_file.load(path, stored)[0], 100)

    right, refused = gguf_kinds.right(), gguf_kinds.refused()
    kinds = {name: outcome(name, *row) for name, row in {**right, **refused}.items()}
    architecture, config, keys, tensors = right["llama3"]
    path = folder / "llama3.gguf"
    model = gguf_kinds.model_of(config)
    gguf_kinds.write(path, architecture, model, {**keys, **TOKENIZER}, tensors)
    new = folder / "from-gguf"
    new.mkdir()
    KINDS["gguf"](path, new, None)
    read = transformers.AutoModelForCausalLM.from_pretrained
    gguf_kinds.write_huge(folder / "huge.gguf")
    kinds["whole folder"] = _outcome(model, lambda: read(new), 100)
    return kinds


def adapters(folder):
    """Write and merge an adapter of each kind. → kind → the outcome."""
    kinds = {}
    for name, row in {**adapter_kinds.right(), **adapter_kinds.refused()}.items():
        own = folder / name
        model = adapter_kinds.save(own, *row)
        kinds[name] = _outcome(model, lambda: adapter.merge(own / "adapter", own / "base"), 10)  # noqa: B023
    return kinds


def _outcome(model, load, tokens):
    """How far the logits of `load()` are from the model's, or why it was refused."""
    ids = torch.randint(0, 64, (1, tokens), generator=torch.Generator().manual_seed(1))
    try:
        new = load()
    except Lost as e:
        return str(e)
    with torch.no_grad():
        right, found = model(input_ids=ids).logits.float(), new(input_ids=ids).logits.float()
    return ((found - right).abs().max() / right.std()).item()


def main(specification):
    content = read_json(Path(specification))
    folder = Path(content["folder"])
    sys.path.append(content["packages"])
    hostile = pickles(folder)
    kinds = {"hostile": hostile, "gguf": gguf_files(folder), "adapter": adapters(folder)}
    write_json(folder / "kinds.json", kinds)


if __name__ == "__main__":
    main(sys.argv[1])
