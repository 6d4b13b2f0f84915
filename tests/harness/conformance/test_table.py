"""The table of a comparison: what is new, and its page."""

from dataclasses import asdict, replace

import pytest

from formats.writing import write_json
from harness import cli
from harness.conformance import table
from harness.conformance.table import Conformance
from harness.conformance.verdicts import Agreement, Finding
from sut import known_differences

AGREES = Finding(
    part="folders", case="qwen2, plain", backend="JAX", verdict=Agreement.AGREES, size=1e-6
)
DIFFERS = replace(AGREES, case="qwen2, windows of the last two layers", size=2.9)
DIFFERS = replace(DIFFERS, verdict=Agreement.DIFFERS, layer="layer 0 of 4 (Block, 2)")
REFUSED = replace(AGREES, case="phi, plain", verdict=Agreement.REFUSED, size=None)
REFUSED = replace(REFUSED, words="ValueError: /home/somebody/folder lacks <it>")


def made(*rows):
    return Conformance(
        schema=table.SCHEMA,
        made="2026-11-28",
        command="./run.sh conformance",
        versions={"keras3-jax": {"keras": "3.15.1"}},
        limits={"folders": "A folder differs if it is far."},
        seconds=90.0,
        rows=rows,
    )


def test_the_same_table_has_no_news():
    assert table.news(made(AGREES, DIFFERS), made(AGREES, DIFFERS)) == []


def test_another_size_is_no_news():
    assert table.news(made(DIFFERS), made(replace(DIFFERS, size=3.0))) == []


def test_another_verdict_a_new_row_and_a_lost_one_are_news():
    after = made(replace(AGREES, verdict=Agreement.DIFFERS), REFUSED)
    assert table.news(made(AGREES, DIFFERS), after) == [
        "qwen2, plain on JAX: agrees before, differs now",
        "qwen2, windows of the last two layers on JAX: differs before, not tried now",
        "phi, plain on JAX: not tried before, refused now",
    ]


def test_a_part_that_only_one_table_has_is_not_compared():
    operation = replace(AGREES, part="operations", case="ops.dot()")
    assert table.news(made(AGREES, operation), made(AGREES)) == []


def test_a_table_is_read_as_it_was_written(tmp_path):
    write_json(tmp_path / "conformance.json", made(AGREES, DIFFERS, REFUSED))
    assert table.read(tmp_path / "conformance.json") == made(AGREES, DIFFERS, REFUSED)


def test_the_page_has_counts_versions_sizes_and_what_is_known():
    page = table.page(made(AGREES, DIFFERS, REFUSED))
    assert "keras 3.15.1" in page
    assert "| JAX | 1 | 1 | 1 | 0 |" in page
    assert "| 2.9e+00 | layer 0 of 4 (Block, 2) |" in page
    assert "gives no layer of Qwen 2 a window" in page


def test_the_page_names_no_folder_of_this_machine():
    page = table.page(made(REFUSED))
    assert "somebody" not in page
    assert "lacks &lt;it>" in page


def test_backends_with_the_same_difference_share_a_row():
    other = replace(DIFFERS, backend="PyTorch", size=2.94)
    ((names, _),) = table.same_on([DIFFERS, other, AGREES])
    assert names == "JAX, PyTorch"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--expect", "none.json"], "--expect none.json: cannot be read"),
        (["--expect", "list.json"], "--expect list.json: is no conformance.json"),
        (["--expect", "older.json"], "reads conformance-1: make it again with --out"),
        (["model.h5"], "model.h5: is no .keras file"),
        (["none.keras"], "there is no such file"),
        (["my.keras", "--of", "keras"], "a file is no part of a comparison"),
        (["--of", "kears"], "invalid choice"),
        (["--of", "keras", "--only", "("], "--only (: is no regular expression"),
        (["--with", "jax"], "--with jax: give PACKAGE==VERSION"),
    ],
)
def test_a_mistake_gets_one_sentence(words, answer, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[]")
    older = {**asdict(made()), "schema": "conformance-0"}
    write_json(tmp_path / "older.json", older)
    assert cli.main(["conformance", *words]) == 2
    error = capfd.readouterr().err
    assert answer in error
    assert error.count("\n") == 1


def test_what_is_known_is_of_the_library_and_the_type_of_model():
    (words,) = known_differences.of_model("keras3-jax", "qwen2")
    assert words.startswith("KerasHub 0.32 gives no layer of Qwen 2")
    assert known_differences.of_model("native-torch-eager", "qwen2") == ()
    assert known_differences.of_model("keras3-jax", "") == ()
