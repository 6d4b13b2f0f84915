"""What a reviewer gets of a failed check: every fault by itself with its values and its line, and
where the rule stands.
"""

import dataclasses
import json
import re

import pytest

from compliance import audit, rules
from compliance.checks.submission import metadata
from compliance.findings import registry, verdict
from compliance.findings.check import judge, mismatch
from compliance.rules import sources
from formats.checks import Check, Fault, RequiredBy, Verdict, escape
from tests.support import tree as runs
from tests.support.audits import checks, failed
from tests.support.mutations import DETAIL, SUMMARY, replaced


def line_of(path, words):
    """The number of the one line that holds them."""
    (number,) = [n for n, line in enumerate(path.read_text().splitlines(), 1) if words in line]
    return number


def test_a_sentence_is_a_fault_of_nothing_but_itself():
    check = judge("counts", ["a is missing", Fault("b is cut", line=3, file="b")], "", file="a")
    assert check.faults == (Fault("a is missing", file="a"), Fault("b is cut", line=3, file="b"))
    assert (check.verdict, check.detail, str(check.faults[0])) == (
        Verdict.FAIL,
        "a is missing; b is cut",
        "a is missing",
    )


def test_the_detail_says_five_and_the_faults_are_all_there_up_to_a_hundred():
    check = judge("counts", (f"fault {n}" for n in range(250)), "")
    assert check.detail == "fault 0; fault 1; fault 2; fault 3; fault 4 (and 245 more)"
    assert [f.text for f in check.faults] == [f"fault {n}" for n in range(100)]
    assert check.faults_left_out == 150
    assert not judge("counts", ["a"], "").faults_left_out


def test_two_values_make_the_sentence():
    assert mismatch("the seed", 1, 2, "v6.1 has", line=7) == Fault(
        "the seed is 1; v6.1 has 2", "2", "1", "", 7
    )


def test_a_value_of_megabytes_is_cut():
    fault = mismatch("x", "a" * 10**6, ["b"] * 10**6)
    assert max(map(len, (fault.expected, fault.found))) <= 201 and len(fault.text) < 500
    assert len(judge("counts", ["c" * 10**6], "").detail) <= 1001
    assert len(judge("counts", [], "d" * 10**6).detail) <= 1001


def test_a_line_on_a_terminal_is_one_line_without_control_characters():
    hostile = "x\n[PASS] everything: good\x1b[2J\u202e\udcff"
    line = Check("x", hostile, Verdict.FAIL, hostile, place=hostile).line()
    assert line.isprintable() and "\\n[PASS]" in line and "\\x1b[2J" in line
    assert escape("Ω → ü") == "Ω → ü"


def test_a_seed_is_told_with_both_values_and_its_line(run):
    runs.detail(run, "performance", effective_qsl_rng_seed=1)
    check = checks(run, "quick")["performance-seeds"]
    log = runs.both(run, "performance", DETAIL)[1]
    (fault,) = check.faults
    assert (fault.found, fault.expected) == ("1", "2085463073848966840")
    assert fault.line == line_of(log, '"effective_qsl_rng_seed"') and (run / fault.file) == log
    assert check.rule_ids == ("B1",) and "seeds_check" in check.source and "seeds" in check.rule


def test_a_line_of_the_summary_is_told_with_its_number(run):
    words = "samples_per_query : "
    replaced("performance", SUMMARY, words, f"{words}9")(run)
    (fault,) = checks(run, "quick")["performance-summary"].faults
    assert fault.line == line_of(runs.both(run, "performance", SUMMARY)[1], "samples_per_query")
    assert fault.found.startswith("9")


def test_a_figure_the_trace_contradicts_is_of_a_line_of_the_detail_log(run):
    runs.detail(run, "performance", result_max_latency_ns=lambda v: v + 1)
    fault = checks(run, "quick")["trace-figures"].faults[0]
    assert fault.file.endswith(DETAIL) and int(fault.found) == int(fault.expected) + 1
    assert fault.line == line_of(run / fault.file, '"result_max_latency_ns"')


def test_eligibility_gives_its_reasons_one_by_one(run):
    check = checks(run, "quick")["eligibility"]
    assert check.verdict is Verdict.MANUAL
    assert "its weights are random" in [fault.text for fault in check.faults]
    assert check.detail.endswith("; ".join(fault.text for fault in check.faults))
    for reason in ("synthetic", "tiny", "mock", "10833"):
        assert reason in check.detail


def test_a_scenario_among_several_is_named_apart_from_its_checks(measured, two_scenarios):
    # Of the whole tree.
    found = [c for c in audit.audit(two_scenarios).checks_for("quick") if c.id != "logs-of-one-run"]
    assert all(c.place and c.title == f"{c.place}: {c.name}" and c.title in c.line() for c in found)
    assert len({c.place for c in found}) == 3  # two scenarios and the submitter
    assert not [c.place for c in audit.audit(measured("Offline")).checks_for("quick") if c.place]


def test_checks_as_json_are_as_the_schema_says(run):
    runs.detail(run, "performance", effective_qsl_rng_seed=1)
    told = json.loads(
        json.dumps({"checks": [dataclasses.asdict(c) for c in audit.audit(run).checks]})
    )
    assert not metadata.faults_of(told, "checks")


@pytest.mark.parametrize(
    "change",
    [
        {"faults": [{"text": ""}]},
        {"faults": [{"text": "x", "line": 0}]},
        {"rule_ids": [1]},
        {"faults_left_out": -1},
        {"verdict": "OK"},
        {"id": "two words"},
    ],
)
def test_the_schema_refuses_what_is_none(change):
    good = dataclasses.asdict(judge("validity", ["y"], ""))
    good = json.loads(json.dumps(good))
    assert not metadata.faults_of({"checks": [good]}, "checks")
    assert metadata.faults_of({"checks": [{**good, **change}]}, "checks")


def test_every_rule_a_check_applies_is_in_the_list_and_none_there_is_unused():
    applied = {rule_id for entry in registry.entries().values() for rule_id in entry.rules}
    assert applied == set(sources.entries())


@pytest.mark.parametrize("round", rules.rounds())
def test_every_compliance_test_of_a_round_has_its_ids(round):
    chosen = rules.load(round)
    wanted = {name.lower() for name in (*chosen.compliance_tests, *chosen.scored_tests)}
    for name, rule in chosen.compliance_tests.items():
        parts = ["files", "log", "verdict", "settings", "loadgen", "run"]
        parts += ["performance"] if rule.tolerance is not None else []
        parts += ["answers", "samples"] if rule.sampling_target else []
        parts += ["hash"] if rule.truncated else []
        wanted |= {f"{name.lower()}-{part}" for part in parts}
    assert wanted <= set(registry.entries())


def test_an_id_is_a_slug_and_a_name_is_of_one_check():
    names = [entry.name for entry in registry.entries().values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check_id) for check_id in registry.entries())
    assert {entry.level for entry in registry.entries().values()} == set(verdict.LEVELS)


def test_an_unknown_id_names_the_file_it_belongs_in():
    with pytest.raises(ValueError, match=r"check no-such: checks\.toml lacks it"):
        judge("no-such", [], "")


@pytest.mark.parametrize("kind", ["Offline", "SingleStream", "tokens"])
def test_ids_are_unique_in_a_report_and_listed_with_their_name_rules_and_level(measured, kind):
    found = audit.audit(measured(kind)).checks
    assert len({c.id for c in found}) == len(found)
    for check in found:
        entry = registry.get(check.id)
        assert (entry.name, entry.rules, entry.level) == (check.name, check.rule_ids, check.level)
        assert check.required_by in (entry.required_by("v6.1"), RequiredBy.RULES)
        assert check.rule and check.source


@pytest.mark.parametrize("rule_id", sources.entries())
def test_a_rule_is_one_sentence_of_documents_and_sections(rule_id):
    source = sources.get(rule_id)
    assert source.rule.endswith(".") and ". " not in source.rule
    assert source.citations
    documents = {each.document.split(":")[0] for each in source.citations}
    policies = {"inference_policies", "policies"}
    assert documents <= {"endpoints", "inference", "this project"} | policies
    assert all(each.section for each in source.citations)


def test_an_unknown_rule_names_those_there_are():
    with pytest.raises(ValueError, match="rule Z9: sources.toml has A1, "):
        sources.get("Z9")


ENTRY = ':::MLLOG {"key": "num_errors", "metadata": {}}'


@pytest.mark.parametrize("run", ["Offline", "SingleStream", "tokens"], indirect=True)
def test_every_check_that_fails_says_what_to_do(run):
    """With every document emptied of what it says, nearly all fail. Compliance tests have but one
    remedy, and tell it once.
    """
    for path in run.rglob("*"):
        if path.is_file():
            is_log = path.name == DETAIL
            path.write_text(f"{ENTRY}\n" if is_log else "{}\n")
    found = [c for c in failed(run).values() if not c.id.startswith(("test", "output-length"))]
    assert len(found) > 30 and not [c.key for c in found if not c.fix]
