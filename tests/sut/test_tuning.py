"""The switches of `--tuned`: the table, and what several switches set together."""

import re

import pytest

from compliance.checks.run.evidence import switch_faults
from formats.cell import LENGTH_BUCKETS
from formats.evidence import Evidence
from harness.execution.environments import ROOT
from harness.inputs import models
from scenarios.table import SCENARIOS
from sut import tuning
from sut.devices import DEVICES
from sut.registry import SUTS
from sut.variables import REFUSED

EVERY = tuning.switches().values()
ONLY_EAGER = {"PYTORCH_JIT": "0"}
"""A refused variable that a switch may set, because it forbids what its SUTs never do."""


@pytest.mark.parametrize("switch", EVERY, ids=lambda switch: switch.name)
def test_each_switch_names_cells_that_exist_and_says_why_and_where(switch):
    assert set(switch.suts) <= set(SUTS)
    assert set(switch.devices) <= set(DEVICES)
    assert set(switch.scenarios) <= set(SCENARIOS)
    known = {models.load(name).architecture for name in models.names()}
    assert set(switch.architectures) <= known | {
        "image_classifier",
        "picture_encoder",
        "token_classifier",
    }
    assert switch.variables or switch.settings or switch.batch != 1 or switch.buckets
    assert len(switch.reason) > 30 and switch.source


@pytest.mark.parametrize("switch", EVERY, ids=lambda switch: switch.name)
def test_no_switch_changes_the_execution_or_the_precision(switch):
    for name, value in switch.variables.items():
        if ONLY_EAGER.get(name) == value:
            assert {SUTS[sut].execution for sut in switch.suts} == {"eager"}
            continue
        assert not any(re.fullmatch(pattern, name) for pattern in REFUSED), name


def test_only_one_switch_has_length_buckets():
    assert {switch.name for switch in EVERY if switch.buckets} == {LENGTH_BUCKETS}


def test_each_setting_is_read_by_a_file_of_suts():
    source = "".join(path.read_text() for path in (ROOT / "sut").glob("*/*.py"))
    names = {name for switch in EVERY for name in switch.settings}
    assert names and all(f'"{name}"' in source for name in names)


def test_flags_of_xla_are_joined_and_other_variables_must_agree():
    flags = [
        tuning.Switch(name=name, reason="", source="", variables=variables)
        for name, variables in {
            "a": {"XLA_FLAGS": "--one", "X": "1"},
            "b": {"XLA_FLAGS": "--two", "X": "1"},
            "c": {"X": "2"},
        }.items()
    ]
    assert tuning.variables(flags[:2]) == {"XLA_FLAGS": "--one --two", "X": "1"}
    with pytest.raises(ValueError, match="one of them sets X=1 and another X=2"):
        tuning.variables(flags)


@pytest.mark.parametrize("switch", EVERY, ids=lambda switch: switch.name)
def test_a_variable_of_a_switch_that_the_worker_does_not_have_is_a_fault(switch, monkeypatch):
    for name, value in switch.variables.items():
        monkeypatch.setenv(name, f"--other {value}" if name == "XLA_FLAGS" else value)
    found = Evidence(0, None, "float32", {"variables": tuning.found_variables()})
    assert not list(switch_faults(found, {}, switch.variables))
    for name in switch.variables:
        monkeypatch.delenv(name)
    missing = Evidence(0, None, "float32", {"variables": tuning.found_variables()})
    faults = [str(fault) for fault in switch_faults(missing, {}, switch.variables)]
    assert len(faults) == len(switch.variables)
    assert all("is not set in the worker" in fault for fault in faults)


def test_a_switch_is_a_candidate_only_of_its_suts_architectures_devices_and_scenarios():
    def of(sut, architecture, device, scenario="SingleStream"):
        place = tuning.Place(sut=sut, architecture=architecture, device=device, scenario=scenario)
        return {switch.name for switch in tuning.candidates(place)}

    assert "to-mkldnn" in of("native-torch-eager", "bert", "cpu")
    assert "to-mkldnn" not in of("native-torch-compile", "bert", "cpu")
    assert "channels-last" not in of("native-torch-eager", "bert", "cpu")
    assert "channels-last" in of("native-torch-eager", "sam", "cpu")
    assert "max-autotune" in of("native-torch-compile", "bert", "cuda")
    assert of("mock", "bert", "cpu") == set()
    assert "batch-x2" in of("mock", "bert", "cpu", "Offline")
