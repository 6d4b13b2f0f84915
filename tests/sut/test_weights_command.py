"""`./run.sh weights`: the tensors of each form arrive in the folder, and no code of a file runs."""

import json
import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file

from compliance.rules import CURRENT
from harness import cli, terminal
from harness.commands import weights
from harness.execution import environments
from tests.conftest import CACHE
from tests.support.frameworks import end_process

Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """A folder with one model as base/, bin/, lora/, model.gguf and hostile/."""
    end_process()  # one framework at a time
    folder = tmp_path_factory.mktemp("forms")
    packages = weights._packages("gguf", CACHE, terminal.Terminal(quiet=True))
    torch = environments.ensure(CACHE, "native-torch", "cpu", CURRENT, print)
    program = environments.ROOT / "tests/sut/other_forms.py"
    command = [str(torch.python), str(program), str(folder), str(packages)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def convert(tmp_path, capsys):
    """(source, flags) → (exit code, the tensors or None, what was said)."""

    def run(source, *flags):
        words = ["weights", str(source), str(tmp_path / "new"), *map(str, flags)]
        code = cli.main([*words, "--cache", str(CACHE)])
        file = tmp_path / "new" / "model.safetensors"
        return code, load_file(file) if file.exists() else None, capsys.readouterr().err

    run.folder = tmp_path / "new"
    return run


def test_the_tensors_of_a_pickle_arrive_with_its_configuration(forms, convert):
    code, tensors, _ = convert(forms / "bin")
    own = load_file(forms / "base" / "model.safetensors")
    assert code == 0
    assert all(np.array_equal(tensors[name], own[name]) for name in own)
    assert json.loads((convert.folder / "config.json").read_text())["model_type"] == "llama"


def test_a_pickle_that_runs_code_is_refused_and_runs_none(forms, convert, monkeypatch):
    monkeypatch.chdir(forms)
    code, tensors, said = convert(forms / "hostile")
    assert code == 3 and tensors is None
    assert "unsupported" in said.lower() or "not an allowed" in said.lower()
    assert not (forms / "was-run").exists() and not convert.folder.exists()


def test_a_lora_is_added_to_its_base(forms, convert):
    code, tensors, _ = convert(forms / "lora", "--base", forms / "base")
    own = load_file(forms / "base" / "model.safetensors")
    adapter = load_file(forms / "lora" / "adapter_model.safetensors")
    b, a = (next(v for k, v in adapter.items() if f"lora_{part}" in k) for part in "BA")
    scale = json.loads((forms / "lora" / "adapter_config.json").read_text())["lora_alpha"] / 2
    assert code == 0
    np.testing.assert_allclose(tensors[Q], own[Q] + scale * b @ a, atol=1e-6)
    assert all(np.array_equal(tensors[name], own[name]) for name in own if name != Q)


def test_the_tensors_of_a_gguf_file_arrive(forms, convert):
    code, tensors, said = convert(forms / "model.gguf")
    own = load_file(forms / "base" / "model.safetensors")
    assert code == 0, said
    for name in own:
        # llama.cpp orders the rows of q and k in another way, which Transformers turns back.
        kept = np.sort(tensors[name], 0) if "q_proj" in name or "k_proj" in name else tensors[name]
        expected = np.sort(own[name], 0) if "q_proj" in name or "k_proj" in name else own[name]
        np.testing.assert_array_equal(kept, expected)
    assert (convert.folder / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("source", "flags", "reason"),
    [
        ("base", (), "holds safetensors: give it to --weights as it is"),
        ("lora", (), "is a LoRA: name the folder of its base with --base"),
        ("nothing", (), "there is no such file; give a .gguf file"),
        ("lora", ("--base", "elsewhere"), "--base elsewhere: has no config.json"),
    ],
)
def test_what_cannot_be_converted_is_refused(forms, convert, source, flags, reason):
    code, _, said = convert(forms / source, *flags)
    assert code == 2 and reason in said
    assert not convert.folder.exists()


def test_a_folder_that_exists_is_not_overwritten(forms, convert):
    convert.folder.mkdir()
    (convert.folder / "mine.txt").touch()
    code, _, said = convert(forms / "bin")
    assert code == 2 and "exists; give a new folder" in said
