"""`./run.sh weights`: the tensors of each form arrive in the folder, and no code of a file runs."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from harness import cli, terminal
from harness.commands import weights
from harness.execution import environments
from tests.conftest import CACHE
from tests.support.files import read_json
from tests.support.frameworks import run_module


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The folder that `other_forms` writes."""
    folder = tmp_path_factory.mktemp("forms")
    packages = weights._packages("gguf", CACHE, terminal.Terminal(quiet=True))
    torch = environments.ensure(CACHE, "native-torch", "cpu", print)
    content = {"folder": str(folder), "packages": str(packages)}
    specification = folder / "specification.json"
    run_module(torch.python, "tests.sut.other_forms", "native-torch-eager", specification, content)
    return folder


@pytest.fixture(scope="module")
def kinds(forms):
    return read_json(forms / "kinds.json")


@pytest.fixture
def convert(tmp_path, capsys):
    """(source, flags) → (exit code, what was said)."""

    def run(source, *flags):
        words = ["weights", str(source), str(tmp_path / "new"), *map(str, flags)]
        code = cli.main([*words, "--cache", str(CACHE)])
        return code, "".join(capsys.readouterr())

    run.folder = tmp_path / "new"
    return run


def test_the_tensors_of_a_pickle_arrive_with_its_configuration(forms):
    tensors = load_file(forms / "from-bin" / "model.safetensors")
    own = load_file(forms / "base" / "model.safetensors")
    assert all(np.array_equal(tensors[name], own[name]) for name in own)
    config = read_json(forms / "from-bin" / "config.json")
    assert config["model_type"] == "llama"


def test_a_pickle_that_runs_code_is_refused_and_runs_none(forms, kinds):
    assert "nsupported" in kinds["hostile"]
    assert not (forms / "was-run").exists() and not list((forms / "from-hostile").iterdir())


@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "llama3",
        "factors",
        "linear",
        "yarn",
        "yarn with betas",
        "longrope and a window",
        "biases",
        "norms of q and k",
        "softcaps",
        "two kinds of layers",
        "a part of each head",
        "another base",
        "whole folder",
    ],
)
def test_a_gguf_file_becomes_the_model_that_it_states(kinds, kind):
    assert kinds["gguf"][kind] < 1e-4


def test_the_folder_of_a_gguf_file_has_its_scaling_and_its_tokenizer(forms):
    rope = read_json(forms / "from-gguf" / "config.json")["rope_parameters"]
    assert rope["rope_type"] == "llama3" and rope["original_max_position_embeddings"] == 32
    assert (forms / "from-gguf" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("a clamp", "no place for llama.attention.clamp_kqv = 8.0"),
        ("experts", "no place for llama.expert_count = 4"),
        ("a window", "no place for qwen2.attention.sliding_window = 8"),
        ("half of each head", "no place for llama.rope.dimension_count = 8"),
        ("a multiplier", "no place for llama.rope.scaling.yarn_log_multiplier = 0.1"),
        ("two scalings", "llama.rope.scaling.type = yarn"),
        ("a foreign norm", "no place for the tensors blk.0.attn_q_norm.weight (1 in all)"),
        ("a hole", "lacks model.layers.1.mlp.up_proj.weight of the model"),
        ("a part of a model", "is one of 3 parts"),
    ],
)
def test_a_gguf_file_with_something_that_would_be_lost_is_refused_by_its_name(kinds, kind, reason):
    assert reason in kinds["gguf"][kind]


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("a head", 1e-5),
        ("a head for a body", 1e-5),
        ("no task", 1e-5),
        ("biases", 1e-5),
        ("DoRA", 1e-5),
        ("embeddings", 1e-5),
        ("LoHa", 1e-5),
        ("in bfloat16", 0.1),
    ],
)
def test_a_merged_adapter_answers_as_its_base_with_it(kinds, kind, limit):
    assert kinds["adapter"][kind] < limit


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("no head", "base has lm_head.weight of a LlamaForCausalLM"),
        ("another class", "does not fit a BertModel"),
        ("a prompt", "PROMPT_TUNING changes no weights"),
        ("invoked", "cannot be merged: aLoRA"),
    ],
)
def test_an_adapter_that_would_be_lost_is_refused(kinds, kind, reason):
    assert reason in kinds["adapter"][kind]


def test_the_command_merges_an_adapter(forms, convert):
    folder = forms / "in bfloat16"
    code, said = convert(folder / "adapter", "--base", folder / "base")
    assert code == 0, said
    assert (convert.folder / "model.safetensors").is_file()


def test_a_gguf_file_that_is_too_large_for_memory_is_refused(forms, convert):
    code, said = convert(forms / "huge.gguf")
    assert code == 2 and not convert.folder.exists()
    assert "reading its 400,000 MB may need 1200.0 GB of memory" in said


@pytest.mark.parametrize(
    ("source", "flags", "reason"),
    [
        ("base", (), "holds safetensors: give it to --weights as it is"),
        ("DoRA/adapter", (), "is a LoRA: name the folder of its base with --base"),
        ("nothing", (), "there is no such file; give a .gguf file"),
        ("DoRA/adapter", ("--base", "elsewhere"), "--base elsewhere: has no config.json"),
        ("DoRA", (), "has adapters in its folders; give one of them: adapter"),
    ],
)
def test_what_cannot_be_converted_is_refused(forms, convert, source, flags, reason):
    code, said = convert(forms / source, *flags)
    assert code == 2 and reason in said
    assert not convert.folder.exists()


def test_a_folder_that_exists_is_not_overwritten(forms, convert):
    convert.folder.mkdir()
    (convert.folder / "mine.txt").touch()
    code, said = convert(forms / "bin")
    assert code == 2 and "exists; give a new folder" in said


def test_a_base_of_quantised_weights_is_refused(forms, convert, tmp_path):
    (tmp_path / "config.json").write_text('{"quantization_config": {"load_in_4bit": true}}')
    code, said = convert(forms / "DoRA" / "adapter", "--base", tmp_path)
    assert code == 2 and "its weights are quantised" in said
