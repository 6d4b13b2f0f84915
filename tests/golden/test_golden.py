"""What golden data compares, and which fields it ignores."""

import json
from dataclasses import fields
from functools import partial

from formats.writing import write_json
from harness import cli
from harness.request import options
from harness.request.options import Options
from tests.golden import cases, comparing, deriving
from tests.support.synthetic_runs import cell, write

_NOT_PLANNED = {"--out", "--cache"}
"""Flags that `deriving` sets itself."""


def written(folder, plans):
    folder.mkdir()
    write_json(folder / "plans.json", plans)
    return folder


def test_each_field_that_differs_is_named_and_may_be_allowed(tmp_path, capsys):
    a = written(tmp_path / "a", {"--sut x": {"code": 0, "out": {"n": [1, 2]}}, "--sut y": {}})
    b = written(tmp_path / "b", {"--sut x": {"code": 2, "out": {"n": [1]}}})
    assert comparing.main(a, b) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "plans --sut x.code: 0 → 2",
        'plans --sut x.out.n[1]: 2 → "nothing"',
        'plans --sut y: {} → "nothing"',
        "3 fields differ, and 0 that may differ",
    ]
    assert comparing.main(a, b, "*.code", "*.n*", "* y") == 0
    assert comparing.main(a, a) == 0


def test_only_the_digits_of_a_volatile_field_are_ignored(tmp_path):
    about = {"cost": "about 3 s (by its size)", "samples": 3}
    a = written(tmp_path / "a", {"x": {"out": about}})
    for name, change, code in (
        ("slower", {"cost": "about 4.5 s (by its size)"}, 0),
        ("reworded", {"cost": "about 3 s (by 1 run)"}, 1),
        ("more", {"samples": 4}, 1),
    ):
        b = written(tmp_path / name, {"x": {"out": about | change}})
        assert comparing.main(a, b) == code


def test_the_order_of_fields_is_compared(tmp_path):
    a = written(tmp_path / "a", {"x": {"out": {"m": 1, "n": 2}}})
    b = written(tmp_path / "b", {"x": {"out": {"n": 2, "m": 1}}})
    assert [field for field, _, _ in comparing.differences(a, b)] == ["plans x.out (order)"]


def test_every_flag_of_a_run_is_in_a_plan():
    flags = {options.flag(each.name) for each in fields(Options) if "help" in each.metadata}
    assert flags - _NOT_PLANNED == flags & {word for words in cases.flag_sets() for word in words}


def test_an_outcome_has_the_document_and_no_path_of_this_machine(tmp_path):
    write(tmp_path / "runs", cell(), [100, 101, 99])
    report = deriving.outcome(
        partial(cli.main, ["report", str(tmp_path / "runs"), "--json"]), tmp_path
    )
    assert report["code"] == 0 and report["out"]["rows"][0]["sut"] == "keras3-jax"
    refused = deriving.outcome(partial(cli.main, ["show", str(tmp_path / "none")]), tmp_path)
    assert (refused["code"], refused["out"]) == (2, [])
    assert "FOLDER/none" in refused["error"][0] and str(tmp_path) not in json.dumps(report)
