"""A framework is a row of one table, the modules that the row names, and its package in
.importlinter.
"""

import configparser
from dataclasses import replace
from importlib.util import find_spec

import pytest

from formats.frameworks import FRAMEWORKS, Framework
from harness.execution.environments import ROOT
from harness.report import figures
from sut import registry

FAKE = Framework(
    package="numpy-like", profiler="sut.mock", limits="sut.mock", counters=("regions",)
)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_modules_of_a_framework_are_there_and_nothing_else_may_import_it(name):
    framework = FRAMEWORKS[name]
    assert find_spec(framework.profiler)
    assert find_spec(framework.limits)
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    of_frameworks = contracts["importlinter:contract:frameworks"]
    assert framework.package in of_frameworks["forbidden_modules"].split()


def test_a_new_framework_is_a_row_of_the_table(monkeypatch):
    monkeypatch.setitem(FRAMEWORKS, "Numbers", FAKE)
    spec = registry.SUTS["native-torch-eager"]
    monkeypatch.setitem(registry.SUTS, "numbers", replace(spec, packages=("numpy-like",)))
    assert registry.framework_of("numbers") == "Numbers"
    assert registry.profiler_of("numbers") == "sut.mock"
    assert not registry.keeps_programs("numbers")
    assert figures.colour("numbers") not in {
        figures.colour(name) for name in registry.SUTS if name != "numbers"
    }
