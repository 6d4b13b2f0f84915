"""The speed of a compliance test, compared with the performance run's."""

import pytest

from compliance import rules
from compliance.audit_tests import speed
from compliance.logs import Detail

V61 = rules.load("v6.1")


def scored(scenario, value):
    key = "result_samples_per_second" if scenario == "Offline" else "early_stopping_latency_ss"
    return Detail({key: value, "result_validity": "VALID"}, {}, (), (), ())


@pytest.mark.parametrize(
    ("test", "scenario", "reference", "value", "holds"),
    [
        ("TEST01", "Offline", 100.0, 109.0, True),
        ("TEST01", "Offline", 100.0, 111.0, False),
        ("TEST01", "Offline", 100.0, 89.0, False),
        ("TEST04", "Offline", 100.0, 10.0, True),
        ("TEST04", "Offline", 100.0, 111.0, False),
        ("TEST01", "SingleStream", 1_000_000, 1_090_000, True),
        ("TEST01", "SingleStream", 1_000_000, 1_110_000, False),
        ("TEST01", "SingleStream", 1_000_000, 890_000, False),
        ("TEST01", "SingleStream", 200_000, 230_000, True),
        ("TEST01", "SingleStream", 200_001, 230_000, False),
        ("TEST04", "SingleStream", 1_000_000, 840_000, True),
        ("TEST04", "SingleStream", 1_000_000, 830_000, False),
        ("TEST04", "SingleStream", 1_000_000, 9_000_000, True),
    ],
)
def test_speeds_are_compared_as_the_official_scripts_do(test, scenario, reference, value, holds):
    rule = V61.compliance_tests[test]
    logs = (scored(scenario, each) for each in (reference, value))
    found = speed.compare(rule, scenario, V61, *logs)
    assert found is not None and found.passes is holds
    assert ("TEST PASS" in speed.verify_text(found)) is holds


def test_nothing_is_verified_beside_a_run_that_is_not_valid():
    invalid = Detail(
        {"result_samples_per_second": 100.0, "result_validity": "INVALID"}, {}, (), (), ()
    )
    found = speed.compare(
        V61.compliance_tests["TEST01"], "Offline", V61, invalid, scored("Offline", 100.0)
    )
    assert found.passes
    assert "TEST FAIL: Invalid results" in speed.verify_text(found)
