"""Folders of weights to be spoilt: our own seeded checkpoints, changed."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from safetensors.numpy import load_file, save_file

from formats.writing import write_json
from harness.inputs import checkpoint, models, user_weights
from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.tokens import clip

MODELS = {
    name: models.load(name)
    for name in ("bert", "gemma", "mistral", "llama", *models.in_group("hf-2019"))
}
DROP = object()
INDEX = "model.safetensors.index.json"
VAE = "vae/diffusion_pytorch_model.safetensors"
_OLD_NAMES = {
    ".to_q.": ".query.",
    ".to_k.": ".key.",
    ".to_v.": ".value.",
    ".to_out.0.": ".proj_attn.",
}


@pytest.fixture
def made(tmp_path):
    """name of a model → a fresh folder of its tiny size, to be changed."""

    def make(name):
        size = MODELS[name].sizes["tiny"]
        ready = checkpoint.ensure(MODELS[name], size, tmp_path / "cache").path
        folder = Path(shutil.copytree(ready, tmp_path / name))
        (folder / "digest.json").unlink()
        return folder

    return make


@pytest.fixture
def mock_reads_weights(monkeypatch):
    """The mock stands for a SUT that reads them."""
    monkeypatch.setitem(SUTS, "mock", replace(SUTS["mock"], reads_weights=True))


def look(folder):
    """What there is in a folder that has the name of its model."""
    return user_weights.look(folder, MODELS[folder.name])


def linked(folder):
    """The folder of links to it that a SUT gets."""
    return checkpoint.of_folder(look(folder), MODELS[folder.name], folder.parent / "cache")


def digest_of(*files):
    return blake3(b"".join(f.read_bytes() for f in files)).hexdigest()


def config(folder, **changes):
    kept = read_json(folder / "config.json") | changes
    write_json(folder / "config.json", {k: v for k, v in kept.items() if v is not DROP})


def says(**changes):
    return lambda folder: config(folder, **changes)


def tensors(folder, change):
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors", {"format": "pt"})


def shard(folder):
    """In two files, by every other name."""
    found = load_file(folder / "model.safetensors")
    where = {n: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, n in enumerate(sorted(found))}
    for file in set(where.values()):
        save_file({n: found[n] for n in found if where[n] == file}, folder / file, {"format": "pt"})
    write_json(folder / INDEX, {"metadata": {}, "weight_map": where})
    (folder / "model.safetensors").unlink()


def as_published(folder):
    """A folder of diffusers, with the names and tensors that those of 2022 have; diffusers reads
    them.
    """
    vae, text_encoder = folder / VAE, folder / "text_encoder" / "model.safetensors"
    renamed = {
        next((k.replace(a, b) for a, b in _OLD_NAMES.items() if a in k), k): v
        for k, v in load_file(vae).items()
    }
    save_file(renamed, vae, {"format": "pt"})
    positions = {"text_model.embeddings.position_ids": np.arange(77)[None]}
    save_file({**load_file(text_encoder), **positions}, text_encoder, {"format": "pt"})


def write_clip(folder):
    """The two files of a CLIP's tokenizer, as published folders have them."""
    vocabulary, merges = clip()
    write_json(folder / "vocab.json", vocabulary)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, merges)]))
