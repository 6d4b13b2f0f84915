"""`limits` measures what is not kept, and shows figures and sentences that fit on a terminal."""

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
    places = [command._Place(TORCH, "cpu"), command._Place(JAX, "cpu")]

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
    assert cli.main(["limits", "--cache", str(tmp_path)]) == 0
    assert begun == ["native-torch", "keras3-jax"]
    assert "2 environments to measure, about 2 min" in capsys.readouterr().err
    assert cli.main(["limits", "--cache", str(tmp_path)]) == 0
    assert begun == ["native-torch", "keras3-jax"]
    assert cli.main(["limits", "--cache", str(tmp_path), "--again", "--quiet"]) == 0
    assert begun == 2 * ["native-torch", "keras3-jax"]


def test_json_has_all_figures_and_nothing_else_on_standard_output(begun, tmp_path, capsys):
    assert cli.main(["limits", "--cache", str(tmp_path), "--json"]) == 0
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
    assert cli.main(["limits", "--cache", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert "limits of native-torch: out of memory" in output.err
    assert "keras3-jax" in output.out


def shown(capsys, *documents):
    command.show(documents, AMD)
    return capsys.readouterr().out


def test_lines_have_at_most_100_columns(capsys):
    wide = values(
        "TensorFlow",
        environment="keras3-tensorflow",
        version="2.21.0",
        precision="bfloat16",
        matrix_flops=spread(1234e9, 0.14),
        thin_bytes_per_second=spread(11.23e9, 0.14),
        matrix_products={"library": "oneDNN", "instructions": "AVX-512", "threads": 128},
    )
    text = shown(capsys, measured(IN_TORCH), measured(wide))
    table = [line for line in text.splitlines() if "±" in line and not line.startswith("large:")]
    assert len(table) == 5
    assert max(map(len, table)) <= 100


def test_each_figure_has_its_spread(capsys):
    text = shown(capsys, measured(IN_TORCH))
    assert "200 ±2%  190 ±3%  14 ±0%" in text
    assert "through oneDNN  float32    460 ±0%" in text
    assert "1.5 ±10%" in text


def test_mkl_on_amd_is_explained_by_other_frameworks_and_by_onednn_in_the_same_process(capsys):
    text = shown(capsys, measured(IN_TORCH), measured(IN_JAX))
    assert (
        "- PyTorch multiplies float32 matrices with MKL, which takes its AVX2 path on this AMD"
        " processor although it has AVX-512; JAX and oneDNN in the same process multiply 2.2 and"
        " 2.3 times as fast, so PyTorch's figures here say little about an Intel processor" in text
    )
    assert "large matrix products on cpu: in float32 JAX is 2.2 times as fast as PyTorch" in text


def test_onednn_alone_explains_it_too(capsys):
    text = shown(capsys, measured(IN_TORCH))
    assert "; oneDNN in the same process multiplies 2.3 times as fast" in text
    assert "large matrix products" not in text


def test_a_faster_way_of_another_framework_is_named(capsys):
    by_xla = {"XLA": spread(3 * 440e9)}
    text = shown(capsys, measured(replace(IN_JAX, other_matrix_flops=by_xla)))
    assert "- JAX multiplies float32 matrices 3 times as fast through XLA" in text


def test_another_way_is_compared_with_the_usual_one_of_its_own_process(capsys):
    faster = replace(IN_JAX, other_matrix_flops={"XLA": spread(2 * 440e9)})
    slower = replace(
        IN_JAX,
        environment="slower",
        matrix_flops=spread(100e9),
        other_matrix_flops={"XLA": spread(200e9)},
    )
    text = shown(capsys, measured(faster), measured(slower))
    assert "JAX multiplies float32 matrices 2 times as fast through XLA" in text


def test_a_product_of_one_row_that_does_not_reach_the_bandwidth_is_named(capsys):
    slow = replace(IN_JAX, precision="float16", thin_bytes_per_second=spread(3e9))
    text = shown(capsys, measured(IN_TORCH), measured(IN_JAX, slow))
    assert "so computing binds and not memory: JAX in float16 (10%)" in text


def test_repeats_that_are_far_apart_are_a_disturbance(capsys):
    disturbed = replace(IN_JAX, matrix_flops=spread(440e9, 0.3))
    text = shown(capsys, measured(IN_TORCH), measured(disturbed))
    assert "by more than 15%: keras3-jax; other programs" in text
    assert "disturbed" not in shown(capsys, measured(IN_TORCH), measured(IN_JAX))


def test_the_words_of_a_framework_stand_below_the_tables(capsys):
    lacks = {"float16": "RuntimeError: no product"}
    no_compiler = replace(
        IN_TORCH,
        compiled_dispatch_seconds=None,
        absent={"compiled call": "InvalidCxxCompiler: none"},
    )
    text = shown(capsys, measured(no_compiler, lacking=lacks))
    assert "native-torch has no matrix product in float16 on cpu: RuntimeError: no product" in text
    assert "native-torch on cpu, compiled call: InvalidCxxCompiler: none" in text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--device", "cuda"], "no NVIDIA driver answers on this machine"),
        (["--sut", "mock"], "--sut mock: runs no framework"),
        (["--sut", "tensorflow"], "did you mean keras3-tensorflow?"),
        (["--python", "python3"], "--python: also give --sut"),
        (["--framework", "x"], "did you mean --sut?"),
        ([], "no environment is made for cpu yet"),
    ],
)
def test_a_wrong_flag_is_one_sentence(tmp_path, capsys, flags, words):
    assert cli.main(["limits", "--cache", str(tmp_path), *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_variable_that_changes_the_precision_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    flags = ["limits", "--cache", str(tmp_path), "--sut", "native-torch-eager"]
    assert cli.main(flags) == 2
    assert "ONEDNN_DEFAULT_FPMATH_MODE=BF16" in capsys.readouterr().err
