"""Entries of the detail log: lines in LoadGen's form, which need no JSON, and others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compliance.logs.entry import LOADED_SET, MARK, Entry, Indices, entry_of

METADATA = {
    "is_error": False,
    "is_warning": True,
    "file": "results.cc",
    "line_no": 52,
    "pid": 7,
    "tid": 8,
}


def line(key, value, time_ms=1.5):
    entry = {
        "key": key,
        "value": value,
        "time_ms": time_ms,
        "namespace": "mlperf::logging",
        "event_type": "POINT_IN_TIME",
        "metadata": METADATA,
    }
    return MARK + json.dumps(entry, ensure_ascii=False)


@given(
    key=st.text(min_size=1),
    value=st.text()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans(),
    time_ms=st.floats(0, 1e300) | st.integers(0, 1 << 64),
)
def test_an_entry_in_loadgens_form_is_what_its_json_says(key, value, time_ms):
    text = line(key, value, time_ms)
    found = entry_of(text)
    assert found == entry_of(text.replace('", "value": ', '",  "value": ', 1))
    assert not isinstance(found, Entry) or type(found.value) is type(value)


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1))
def test_a_loaded_set_is_an_array(values):
    for text in (
        line(LOADED_SET, values),
        line(LOADED_SET, values).replace(", ", ",", len(values)),
    ):
        found = entry_of(text)
        assert isinstance(found, Entry) and list(found.value) == values
    assert isinstance(entry_of(line(LOADED_SET, values)).value, Indices)


@pytest.mark.parametrize("values", ["01, 2", "1, 02", "1,, 2", "1 2", "1, , 2", "00"])
def test_a_list_that_is_no_json_is_no_entry(values):
    assert entry_of(line(LOADED_SET, [1]).replace("[1]", f"[{values}]")) == ""


@pytest.mark.parametrize("values", ["", "1.0", "true", "9223372036854775808"])
def test_a_list_of_anything_else_is_a_list(values):
    found = entry_of(line(LOADED_SET, [1]).replace("[1]", f"[{values}]"))
    assert isinstance(found, Entry) and type(found.value) is list
