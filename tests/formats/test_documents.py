"""The documents of a submission, computed from a record."""

from __future__ import annotations

from dataclasses import replace

from formats import reading
from formats.record import Record
from results import documents
from tests.support.synthetic_runs import cell, record_json


def test_a_tuned_system_names_its_switches():
    plain = cell("native-torch-eager")
    tuned = replace(plain, tuned=True, switches=("omp-bind", "to-mkldnn"))
    records = [reading.convert(record_json(each), Record) for each in (plain, tuned)]
    names = [documents.system_id(record) for record in records]
    assert names[1:] == [f"{names[0]}-tuned-omp-bind-to-mkldnn"]
    notes = [documents.system_description(record, "us")["sw_notes"] for record in records]
    assert notes == [
        documents.LABEL,
        f"{documents.LABEL} Switches (--tuned): omp-bind, to-mkldnn.",
    ]


def test_a_system_with_other_packages_names_them():
    plain = cell("keras3-jax")
    other = replace(plain, packages=("jax==0.10.1", "toy==1.0@3f2a91c04d5e"))
    records = [reading.convert(record_json(each), Record) for each in (plain, other)]
    names = [documents.system_id(record) for record in records]
    assert names[1] == f"{names[0]}-jax-0.10.1-toy-1.0-3f2a91c04d5e"
    notes = documents.system_description(records[1], "us")["sw_notes"]
    assert notes.endswith(" Packages (--with): jax==0.10.1, toy==1.0@3f2a91c04d5e.")


def test_quantised_weights_are_named():
    record = reading.convert(record_json(replace(cell(), quantized="int8-weights")), Record)
    found = documents.measurements(record)
    assert found["weight_data_types"] == "int8"
    assert "by the framework's own function (int8-weights)" in found["weight_transformations"]
