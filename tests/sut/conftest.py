from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compliance.scoring import accuracy
from harness.inputs import checkpoint, limits, models, unlisted, user_weights
from scenarios.worker.queries.answers import pack
from sut.registry import SUTS, spec_of
from tests.support.files import read_json
from tests.support.frameworks import run_module, workload
from tests.support.long import LONG

NAMES = (
    "native-torch-eager",
    "keras3-jax",
    "keras3-tensorflow",
    "keras3-tensorflow-graph",
    "keras3-torch",
    "native-jax",
)
# Of Gemma, Llama and GPT-2: KerasHub's files of them are the same on every backend.
FEW = ("native-torch-eager", "keras3-jax")
FOLDER = "phi3"
"""A folder of `saved`, of a model that no file here describes."""
KERAS2 = ("keras2-tensorflow", "keras2-tensorflow-graph")
COMPILED = "native-torch-compile"
EAGER_OR_XLA = [
    *((sut, "mistral") for sut in NAMES),
    *((sut, model) for model in ("gemma", "llama", "gpt2") for sut in FEW),
    ("native-jax", "gemma"),
    *((sut, "qwen3") for sut in (*FEW, "native-jax")),
    *((sut, "gemma3") for sut in FEW),
    ("native-torch-eager", FOLDER),
    ("hf-tensorflow-xla", "gpt2"),
    ("hf-tensorflow", "mistral"),
    ("keras2-tensorflow", "mistral"),
    ("keras2-tensorflow-graph", "gpt2"),
]
PAIRS = [
    *((sut, "bert") for sut in (*NAMES, *KERAS2)),
    *EAGER_OR_XLA,
    (COMPILED, "bert"),
    (COMPILED, "mistral"),
]
LACK_BFLOAT16 = [
    (COMPILED, "mistral"),
    ("hf-tensorflow", "mistral"),
    ("keras2-tensorflow", "mistral"),
    ("keras2-tensorflow-graph", "gpt2"),
]
QUICK = [
    *(pair for pair in PAIRS if pair[1] == "bert"),
    ("native-torch-eager", "mistral"),
    ("native-torch-eager", "gpt2"),
    ("native-torch-eager", "qwen3"),
    ("native-torch-eager", FOLDER),
    ("keras3-jax", "mistral"),
    ("hf-tensorflow-xla", "gpt2"),
]
"""Tests of `probed` with other SUTs and models are long."""
IN_BFLOAT16 = [pair for pair in PAIRS if pair not in LACK_BFLOAT16]  # see tests/sut/probe.py
UNEVEN = [pair for pair in PAIRS if pair[1] in ("bert", "qwen3", "gemma3", FOLDER)]
"""Some of the inputs of these models are shorter than the others."""
ROWS, LOGITS_ROWS = 8, 4
REFERENCE = "native-torch-eager"
"""The SUT whose process makes the reference too, from the same environment."""


@dataclass(frozen=True)
class Probed:
    """What tests/sut/probe.py left of one SUT and model."""

    model: models.Model
    out: Path
    reference: dict[str, np.ndarray]
    evidence: dict[str, dict[str, Any]]
    size: models.Size

    @property
    def inputs(self):
        with np.load(self.out / "inputs.npz") as f:
            return dict(f)

    @property
    def checkpoint(self):
        return Path(read_json(self.out / "spec.json")["workload"]["checkpoint"])

    def answers(self, case):
        with np.load(self.out / f"{case}.npz") as f:
            return dict(f)

    def score(self, case, precision="float32"):
        answers = self.answers(case)
        forced, own = (answers.pop(key, None) for key in ("forced", "own"))
        rows, lengths = pack(answers, self.model.answer_keys)
        payloads = {
            i: row.tobytes()[: lengths[i] if lengths else None] for i, row in enumerate(rows)
        }
        tolerance = limits.limits(
            self.model, self.size, precision, "cuda" if precision == "tf32" else "cpu"
        )
        return accuracy.score(
            self.model.score,
            payloads,
            self.reference,
            tolerance,
            self.model.answer_keys,
            forced,
            own,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is not in QUICK. A module with tests of one SUT names it as SUT."""
    for item in items:
        if "probed" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec"):
            named = item.callspec.params
            sut = named.get("sut", getattr(item.module, "SUT", REFERENCE))
            if "model" in named and (sut, named["model"]) not in QUICK:
                item.add_marker(LONG)


@pytest.fixture(scope="session")
def probed(interpreter, tmp_path_factory, request):
    """(SUT, model) → its answers, whole and broken, at size tiny: one task for each pair, all of
    a session's tests share it.
    """
    root = tmp_path_factory.mktemp("probes")
    known = {}

    def probe(sut, name):
        if (sut, name) not in known:
            if sut != REFERENCE:
                probe(REFERENCE, name)
            if name == FOLDER:
                loaded = of_folder(request.getfixturevalue("saved") / name, root)
            else:
                loaded = seeded(name, root)
            known[sut, name] = _run(sut, loaded, root, interpreter(SUTS[sut].environment))
        return known[sut, name]

    return probe


@pytest.fixture(scope="session")
def saved(interpreter, tmp_path_factory):
    """gemma/ in one file; bert/, mistral/, llama/, tied/, a Mistral without a head, qwen3/, phi3/,
    modernbert/ and models of 2019 in shards.
    """
    root = tmp_path_factory.mktemp("saved")
    run_module(
        interpreter(SUTS[REFERENCE].environment),
        "tests.sut.user_folders",
        REFERENCE,
        root / "spec.json",
        {},
    )
    return root


@dataclass(frozen=True)
class Loaded:
    """A model, one of its sizes, and the folder of the checkpoint."""

    model: models.Model
    size: models.Size
    folder: Path


def seeded(name, cache):
    """A seeded model of size tiny."""
    model = models.load(name, "generate" if name == "gpt2" else None)
    size = model.sizes["tiny"]
    return Loaded(model, size, checkpoint.ensure(model, size, cache).path)


def of_folder(folder, cache):
    """The unlisted model of a folder."""
    model = unlisted.model_of(folder)
    found = user_weights.look(folder, model)
    return Loaded(model, found.size, checkpoint.of_folder(found, model, cache).path)


def _run(sut, loaded, root, python):
    model, size = loaded.model, loaded.size
    out = root / f"{sut}-{model.name}"
    out.mkdir()
    np.savez(out / "inputs.npz", **inputs(model, size))
    buckets = {"prompt_buckets": [3, 5, 9], "new_token_buckets": [8, 45]}
    reference = root / f"{model.name}.npz"
    told = {
        "sut": sut,
        "architecture": model.architecture,
        "workload": workload(sut, model, size, loaded.folder, ROWS, **buckets),
        "out": str(out),
        "inputs": str(out / "inputs.npz"),
        "reference": str(reference),
        "make_reference": sut == REFERENCE,
        "logits_rows": LOGITS_ROWS,
    }
    run_module(python, "tests.sut.probe", sut, out / "spec.json", told)
    with np.load(reference) as f:
        return Probed(model, out, dict(f), read_json(out / "evidence.json"), size)


def inputs(model, size):
    rng = np.random.default_rng(3)
    width = size.inputs["prompt_length" if model.task == "generate" else "sequence_length"]
    ids = rng.integers(3, size.config["vocab_size"], (ROWS, width)).astype(np.int32)
    if model.task == "generate":
        lengths = np.full(ROWS, width, np.int32)
        if (REFERENCE, model.name) in UNEVEN:
            lengths[LOGITS_ROWS:] = 1, 2, 3, 4
        return {
            "input_ids": ids * (np.arange(width) < lengths[:, None]),
            "prompt_length": lengths,
            "max_new_tokens": np.full(ROWS, size.inputs["new_tokens"], np.int32),
        }
    mask = (np.arange(width) < np.array([width] * (ROWS - 2) + [width // 2, 3])[:, None]).astype(
        np.int32
    )
    return {"input_ids": ids * mask, "attention_mask": mask}


def tokens_of(interpreter, sut, loaded, out, lengths, new, buckets, batch_sizes, streams):
    """What tests/sut/streams.py finds of random prompts of these lengths, each with as many new
    tokens as `new` says. → its arrays, by name; the facts are in facts.json.
    """
    out.mkdir()
    shape = len(lengths), int(lengths.max())
    ids = np.random.default_rng(3).integers(3, loaded.size.config["vocab_size"], shape)
    ids = (ids * (np.arange(shape[1]) < lengths[:, None])).astype(np.int32)
    np.savez(out / "inputs.npz", input_ids=ids, prompt_length=lengths, max_new_tokens=new)
    told = {
        "sut": sut,
        "architecture": loaded.model.architecture,
        "workload": workload(
            sut, loaded.model, loaded.size, loaded.folder, max(batch_sizes), **buckets
        ),
        "inputs": str(out / "inputs.npz"),
        "batch_sizes": batch_sizes,
        "streams": streams,
    }
    python = interpreter(spec_of(sut).environment)
    run_module(python, "tests.sut.streams", sut, out / "spec.json", told)
    with np.load(out / "tokens.npz") as file:
        return dict(file)
