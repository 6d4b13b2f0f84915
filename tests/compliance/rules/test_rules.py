"""Rules as data, early stopping, schemas."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from scipy.stats import binom

from compliance import rules
from compliance.checks.submission import metadata
from compliance.loadgen import early_stopping
from formats import schemas

V61 = rules.load("v6.1")


def test_the_current_round_is_there_and_frozen():
    assert rules.load() == rules.load(rules.CURRENT) and rules.CURRENT in rules.rounds()
    with pytest.raises(AttributeError):
        V61.round = "v7.0"


def test_an_earlier_round_has_its_own_seeds_and_loadgen_and_the_rest_of_the_one_it_extends():
    earlier = rules.load("v6.0")
    assert earlier.round == "v6.0" and earlier.wheel == "mlcommons-loadgen==6.0.15"
    assert not set(earlier.seeds.values()) & set(V61.seeds.values())
    assert not set(earlier.versions) & set(V61.versions)
    assert earlier.file_sha1["6.0.15"] != earlier.file_sha1["6.0.6"]
    assert (earlier.layout, earlier.scenarios) == (V61.layout, V61.scenarios)
    assert "retinanet" in earlier.benchmarks
    assert "retinanet" not in V61.benchmarks
    assert "qwen3.6-27b" not in earlier.benchmarks
    assert earlier.benchmarks["bert-99"] == V61.benchmarks["bert-99"]


def test_an_unknown_round_names_those_there_are():
    with pytest.raises(
        ValueError, match=r"round v0.7: its rules are not here; there are v5\.1, v6\.0, v6\.1"
    ):
        rules.load("v0.7")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dataset_size = 43", ""),
        ("dataset_size = 43", 'dataset_size = "43"'),
        ("keep_bytes = 4096", "keep_bytes = 4096\nkeep = 1"),
        ("[seeds]", "[sheds]"),
    ],
)
def test_a_rules_file_with_a_wrong_field_is_refused(tmp_path, monkeypatch, old, new):
    text = (Path(rules.__file__).parent / "v6.1.toml").read_text()
    (tmp_path / "v9.toml").write_text(text.replace(old, new, 1))
    monkeypatch.setattr(rules.reading, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"v9\.toml"):
        rules.load("v9")


@pytest.mark.parametrize(("percentile", "least"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_early_stopping_needs_so_many_queries(percentile, least):
    assert early_stopping.discards(least - 1, percentile, V61) is None
    assert early_stopping.discards(least, percentile, V61) == 0


@given(st.integers(1, 20_000), st.sampled_from([0.9, 0.99]))
def test_early_stopping_discards_as_many_as_the_binomial_allows(queries, percentile):
    found = early_stopping.discards(queries, percentile, V61)
    t = 1 if found is None else found + 1
    passing = [binom.cdf(k, queries, 1 - percentile) <= 0.01 * (1 + 1e-9) for k in (t, t + 1)]
    assert passing == ([False, False] if found is None else [True, False])


WRITTEN = sorted((Path(metadata.__file__).parents[2] / "schemas").glob("*.json"))


@pytest.mark.parametrize("schema", [*schemas.DOCUMENTS, *WRITTEN], ids=str)
def test_every_schema_is_one(schema):
    """Those that are made of the types, and those that are files."""
    is_file = isinstance(schema, Path)
    document = json.loads(schema.read_text()) if is_file else schemas.named(schema)
    Draft202012Validator.check_schema(document)


def test_a_benchmark_may_differ_from_its_round_in_a_scenario():
    assert V61.of("e2e-rag-qna").scenarios["Offline"].min_duration_ms == 0
    assert V61.of("bert-tiny") is V61
    earlier = rules.load("v6.0")
    assert earlier.of("pointpainting").scenarios["SingleStream"].percentile == 99.9
    assert earlier.scenarios["SingleStream"].percentile == 90
