"""`--with`: which cells it gives, its environments, and what a user's mistakes get. A tiny package
stands for a framework: its wheels are in a folder, and no registry is asked.
"""

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from environments import lock as locking
from formats.result import Status
from harness.errors import EnvironmentFailure, UsageError
from harness.execution import environments, pins, wheels
from harness.execution.environments import ROOT
from harness.execution.pins import Pin, Unresolvable
from harness.measurement import preparation
from harness.request import plan
from harness.request.pins import combinations, of_cell, spelt_all
from harness.sweep import recipe
from tests.support.cells import Reporter, cells_of, measure, request, resolved
from tests.support.synthetic_runs import cell
from tests.support.wheels import source, wheel

OFFLINE = ("--model", "bert", "--scenario", "Offline", "--device", "cpu")
KERAS = ("--sut", "keras3-jax", *OFFLINE)
in_a_checkout = pytest.mark.skipif(
    wheels.bundle(ROOT) == ROOT, reason="a bundle resolves only what it holds"
)


def test_it_is_part_of_the_cell_its_name_and_its_label():
    asked = resolved(*KERAS, "--with", "Keras==3.14", "--with", "jax==0.10.1")
    of = asked.cell()
    assert of.packages == ("jax==0.10.1", "keras==3.14")
    assert "/keras3-jax-jax-0.10.1-keras-3.14-float32-" in of.name
    assert asked.label.startswith("keras3-jax jax==0.10.1 keras==3.14 bert tiny")
    assert of.digest != resolved(*KERAS).cell().digest


def test_a_cell_without_it_has_the_name_of_earlier_releases():
    assert cell("keras3-jax").digest == "efb07cd1"


def test_lists_give_all_combinations_which_are_compared_with_each_other():
    series = cells_of(sut="keras3-jax", packages=["jax==locked,0.10.1", "keras==3.14.0,3.15.0"])
    assert [each.request.cell().packages for each in series] == [
        ("keras==3.14.0",),
        ("keras==3.15.0",),
        ("jax==0.10.1", "keras==3.14.0"),
        ("jax==0.10.1", "keras==3.15.0"),
    ]
    assert len({each.comparison for each in series}) == 1
    assert "--with jax==0.10.1 --with keras==3.14.0" in series[2].command


def test_a_recipe_has_them_as_with():
    document = {"cells": [{"sut": "mock", "with": ["jax==0.10.1,0.10.2", "keras==3.15.0"]}]}
    (grid,) = recipe._recipe("mine", document).grids
    assert len(combinations(grid["packages"])) == 2


def test_versions_and_builds_may_be_in_one_list(tmp_path):
    path = wheel(tmp_path, "toy")
    found = combinations([f"toy==1.1,1.2,{path},toy@{tmp_path}"])
    assert found == [("toy==1.1",), ("toy==1.2",), (f"toy@{path}",), (f"toy@{tmp_path}",)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["jax"], "--with jax: give PACKAGE==VERSION, FILE.whl, or PACKAGE@PATH"),
        (["jax==0.10.*"], r"0\.10\.\* is no version, such as 3\.15\.1"),
        (["jax==0.9,0.10"], "takes one value; ./run.sh sweep takes lists"),
        (["toy.whl"], "--with toy.whl: "),
        (["toy@nowhere"], "there is no such file or folder"),
        (["toy@sut"], "the folder has no pyproject.toml and no setup.py"),
        (["torch==2.12.0"], "the environment of keras3-jax has no torch"),
        (["jaxx==0.10.1"], "leave it out .it requires keras, keras-hub, keras-cv, jax, "),
        (["jax==0.10.1", "--with", "jax==0.10.0"], "--with jax: is given twice"),
        (["jax==0.10.1", "--python", sys.executable], "--python has packages of its own"),
    ],
)
def test_a_mistake_gets_one_sentence(words, sentence, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(UsageError, match=sentence):
        resolved(*KERAS, "--with", *words)


def test_an_engine_has_packages_of_its_own():
    with pytest.raises(UsageError, match="an engine has its own: leave --with out"):
        of_cell(["numpy==2.4.0"], None, "endpoint", "cpu")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """An environment `toy` that requires toy 1.0 and a package beside it. Toy 1.1 needs a newer
    one, and toy 2.0 needs one that does not exist.
    """
    folder, locks = tmp_path / "wheels", tmp_path / "locks"
    locks.mkdir()
    for name, version, needs in (
        ("beside", "1.0", ""),
        ("beside", "2.0", ""),
        ("toy", "1.0", "beside"),
        ("toy", "1.1", "beside>=2"),
        ("toy", "1.2rc1", "beside"),
        ("toy", "2.0", "beside>=3"),
    ):
        wheel(folder, name, version=version, needs=needs)
    (locks / "toy-cpu.in").write_text("toy==1.0  # the framework\n")
    (locks / "toy-cpu.txt").write_text("beside==1.0\ntoy==1.0\n")
    (locks / "loadgen-v6.1.txt").write_text("")
    monkeypatch.setattr(environments, "LOCKS", locks)
    monkeypatch.setattr(locking, "HERE", locks)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path


def ensure(toy, *of, say=lambda text: None):
    return pins.ensure(toy / "cache", "toy", "cpu", of, say)


def imported(environment, module):
    program = f"import importlib.metadata as m, {module}; print(m.version('{module}'))"
    words = [str(environment.python), "-c", program]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@in_a_checkout
def test_it_is_resolved_and_locked_once_and_moves_only_what_it_has_to(toy):
    said = []
    pin = Pin(name="toy", version="1.1")
    assert not pins.is_made(toy / "cache", "toy", "cpu", [pin])
    first = ensure(toy, pin, say=said.append)
    assert (imported(first, "toy"), imported(first, "beside")) == ("1.1", "2.0")
    (lock,) = (toy / "cache/environments").glob("toy-with-toy-1-1-*-cpu.txt")
    assert lock.read_text().count("--hash=sha256:") == 2
    assert first.name == "toy with toy==1.1" and len(said) == 2
    assert ensure(toy, pin, say=said.append) == first and len(said) == 2
    assert pins.is_made(toy / "cache", "toy", "cpu", [pin])
    other = ensure(toy, Pin(name="beside", version="2.0"))
    assert imported(other, "toy") == "1.0"
    assert imported(ensure(toy, Pin(name="toy", version="1.0")), "beside") == "1.0"


@in_a_checkout
def test_a_requirement_of_the_sut_moves_only_if_there_is_no_other_way_and_a_note_says_so(toy):
    (toy / "locks/toy-cpu.in").write_text("toy==1.0\nbeside==1.0\n")
    assert ensure(toy, Pin(name="toy", version="1.2rc1")).notes == ()
    moved = ensure(toy, Pin(name="toy", version="1.1"))
    assert imported(moved, "beside") == "2.0"
    assert moved.notes == ("--with moved beside to 2.0; the lock has 1.0",)


@in_a_checkout
def test_a_keras_hub_that_imports_tensorflow_gets_one(toy):
    for name, version in (("keras_hub", "0.31"), ("keras_hub", "0.32"), ("tensorflow_cpu", "2.1")):
        wheel(toy / "wheels", name, version=version)
    (toy / "locks/toy-cpu.in").write_text("keras-hub==0.32\ntoy==1.0\n")
    (toy / "locks/keras3-tensorflow-cpu.in").write_text("tensorflow-cpu==2.1\n")
    added = ensure(toy, Pin(name="keras-hub", version="0.31"))
    assert imported(added, "tensorflow_cpu") == "2.1"
    assert added.notes == ("--with added tensorflow-cpu, which that KerasHub imports",)
    assert ensure(toy, Pin(name="toy", version="1.2rc1")).notes == ()


@in_a_checkout
def test_a_pre_release_is_taken_only_by_its_name(toy):
    assert imported(ensure(toy, Pin(name="toy", version="1.2rc1")), "toy") == "1.2rc1"


@in_a_checkout
def test_builds_of_ones_own_are_installed(toy):
    own = wheel(toy / "own", "toy", version="7.0", needs="beside")
    folder = source(toy / "source", "toy", version="8.0").parent / "made"
    for text, version in ((str(own), "7.0"), (f"toy@{folder}", "8.0")):
        (pin,) = map(plan.pins._pin, spelt_all([text]))
        assert len(pin.digest) == 12 and pin.text.endswith(pin.digest)
        assert imported(ensure(toy, pin), "toy") == version
    before = pin
    (folder / "more.py").write_text("")
    (after,) = map(plan.pins._pin, spelt_all([text]))
    assert after.digest != before.digest


@in_a_checkout
@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("9.9", "because there is no version of toy==9.9"),
        ("2.0", "because only beside<=2.0 is available and toy>=2.0 depends on beside>=3"),
    ],
)
def test_what_cannot_be_resolved_has_uvs_reason_in_one_sentence(toy, version, reason):
    with pytest.raises(Unresolvable, match="uv finds no environment toy-cpu with toy==") as e:
        ensure(toy, Pin(name="toy", version=version))
    assert "\n" not in str(e.value) and reason in str(e.value)


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ("os.kill(os.getpid(), 9)", "the installer was ended by SIGKILL: the same command"),
        ("sys.exit('error: No space left on device (os error 28)')", "the disk is full: free"),
        ("sys.exit('error: no route to host')", "cannot make toy-cpu with toy==1.1: error: no"),
    ],
)
def test_a_resolver_that_breaks_off_is_no_verdict_on_the_package(toy, monkeypatch, end, sentence):
    command = [sys.executable, "-c", f"import os, sys; {end}"]
    monkeypatch.setattr(environments, "installer", lambda: command)
    with pytest.raises(EnvironmentFailure, match=sentence) as e:
        ensure(toy, Pin(name="toy", version="1.1"))
    assert not isinstance(e.value, Unresolvable)
    assert [path.suffix for path in (toy / "cache/environments").iterdir()] == [".lock"]
    assert signal.getsignal(signal.SIGKILL) == signal.SIG_DFL


def test_the_cell_of_an_environment_that_there_is_not_is_unsupported(tmp_path, monkeypatch):
    asked = replace(request(tmp_path), pins=(Pin(name="toy", version="9.9"),))

    def fails(*_):
        raise Unresolvable("uv finds no environment: there is no version of toy==9.9")

    monkeypatch.setattr(pins, "ensure", fails)
    result = measure(asked)
    assert (result.status, result.cell.packages) == (Status.UNSUPPORTED, ("toy==9.9",))
    assert result.reason.endswith("there is no version of toy==9.9")


def test_the_reference_keeps_the_locked_environment(monkeypatch):
    asked = resolved("--sut", "native-torch-eager", *OFFLINE, "--with", "transformers==5.20.0")
    seen = []
    monkeypatch.setattr(pins, "ensure", lambda *place: seen.append(place[3]))
    preparation.reference_environment(asked, asked.references[0], None, Reporter(), {})
    assert seen == [()]
