"""`doctor --limits` measures what is not kept, and shows figures that fit on a terminal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cli
from harness.commands import limits as command
from harness.errors import EnvironmentFailure
from harness.execution import limits, machine
from harness.execution.environments import Environment
from tests.support.limits_values import limits as values
from tests.support.limits_values import measured, spread

TORCH = Environment("native-torch", Path("python"), "0" * 64)
JAX = Environment("keras3-jax", Path("python"), "1" * 64)
AMD = replace(machine.describe(), cpu="AMD EPYC", cpu_flags=("avx2", "avx512f"))
IN_TORCH = values(other_matrix_flops={"oneDNN": spread(460e9)})
IN_JAX = values(
    "JAX",
    environment="keras3-jax",
    matrix_flops=spread(440e9),
    matrix_products={"library": "YNNPACK", "instructions": "unknown", "threads": 2},
)


@pytest.fixture
def begun(monkeypatch):
    """Two environments are made. Their names are in the list when they are measured."""
    names = []
    places = [(TORCH, "cpu"), (JAX, "cpu")]

    def measure(cache, environment, here, device):
        names.append(environment.name)
        own = IN_TORCH if environment == TORCH else IN_JAX
        made_with = limits.facts(limits.recorded(environment), here, device)
        found = measured(own, made_with=made_with)
        path = limits.file(cache, made_with)
        path.parent.mkdir(exist_ok=True)
        limits.write_json(path, found)
        return found

    monkeypatch.setattr(command, "_places", lambda *_: places)
    monkeypatch.setattr(limits, "measure", measure)
    monkeypatch.setattr(machine, "describe", lambda: AMD)
    return names


def test_only_what_is_not_kept_is_measured(begun, tmp_path, capsys):
    assert cli.main(["doctor", "--limits", "--cache", str(tmp_path)]) == 0
    assert begun == ["native-torch", "keras3-jax"]
    assert "2 environments to measure, about 2 min" in capsys.readouterr().err
    assert cli.main(["doctor", "--limits", "--cache", str(tmp_path)]) == 0
    assert begun == ["native-torch", "keras3-jax"]
    assert cli.main(["doctor", "--limits", "--cache", str(tmp_path), "--again", "--quiet"]) == 0
    assert begun == 2 * ["native-torch", "keras3-jax"]


def test_json_has_all_figures_and_nothing_else_on_standard_output(begun, tmp_path, capsys):
    assert cli.main(["doctor", "--limits", "--cache", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    of_torch, of_jax = document["measured"]
    assert of_torch["limits"][0]["matrix_flops"]["median"] == 200e9
    assert of_jax["limits"][0]["framework"] == "JAX"


def test_an_environment_that_cannot_be_measured_leaves_the_others(
    begun, tmp_path, capsys, monkeypatch
):
    measure = limits.measure

    def fail(cache, environment, *place):
        if environment == TORCH:
            raise EnvironmentFailure("limits of native-torch: out of memory")
        return measure(cache, environment, *place)

    monkeypatch.setattr(limits, "measure", fail)
    assert cli.main(["doctor", "--limits", "--cache", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert "limits of native-torch: out of memory" in output.err
    assert "keras3-jax" in output.out


def shown(capsys, *documents):
    command.show(documents, AMD)
    return capsys.readouterr().out


def test_each_figure_has_its_spread(capsys):
    text = shown(capsys, measured(IN_TORCH))
    assert "200 ±2%  190 ±3%  14 ±0%   28 ±0%    30 ±0%  MKL, AVX2, 2 threads" in text
    assert "through oneDNN  float32    460 ±0%" in text


def test_mkl_on_amd_is_explained_by_other_frameworks_and_by_onednn_in_the_same_process(capsys):
    text = shown(capsys, measured(IN_TORCH), measured(IN_JAX))
    assert (
        "- PyTorch multiplies float32 matrices with MKL, which takes its AVX2 path on this AMD"
        " processor although it has AVX-512; JAX and oneDNN in the same process multiply 2.2 and"
        " 2.3 times as fast, so PyTorch's figures here say little about an Intel processor" in text
    )


def test_the_words_of_a_framework_stand_below_the_tables(capsys):
    lacks = {"float16": "RuntimeError: no product"}
    without_xla = replace(IN_TORCH, absent={"float32 through XLA": "RuntimeError: none"})
    text = shown(capsys, measured(without_xla, lacking=lacks))
    assert "native-torch has no matrix product in float16 on cpu: RuntimeError: no product" in text
    assert "native-torch on cpu, float32 through XLA: RuntimeError: none" in text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--limits", "mock"], "--limits mock: runs no framework"),
        (
            ["--limits", "tensorflow"],
            "--limits tensorflow: unknown (did you mean keras3-tensorflow?",
        ),
        (["--limits", "--python", "python3"], "--python: also name the SUT whose packages"),
        (["--again"], "--again: is for the limits: also give --limits"),
        (["--limits"], "no environment is made for cpu yet"),
    ],
)
def test_a_wrong_flag_is_one_sentence(tmp_path, capsys, flags, words):
    assert cli.main(["doctor", *flags, "--cache", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_a_variable_that_changes_the_precision_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    flags = ["doctor", "--limits", "native-torch-eager", "--cache", str(tmp_path)]
    assert cli.main(flags) == 2
    assert "ONEDNN_DEFAULT_FPMATH_MODE=BF16" in capsys.readouterr().err
