"""The audit as a page: complete, in a reviewer's order, nothing loaded, and whatever a tree holds
is text in it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from compliance import audit
from compliance.findings import page
from compliance.findings.check import judge, manual, not_applicable
from compliance.findings.verdict import Audit
from formats.checks import Check, Fault, RequiredBy, ResultLine, Verdict
from harness import cli
from harness.errors import UsageError
from tests.support import tree as runs

WHEN = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)
_VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """The elements and the text of a page. Fails on an element that is not closed where it should
    be.
    """

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(content)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data + " "


def render(checks, level="quick", directory="runs/a"):
    return page.render(directory, level, Audit("v6.1", (), tuple(checks)), WHEN)


def read(checks, level="quick", directory="runs/a"):
    return Reader(render(checks, level, directory))


BAD = judge(
    "performance-seeds",
    [Fault("the seed is 1; v6.1 has 2", "TWO", "ONE", "logs/detail.txt", 48)],
    "",
    file="logs/detail.txt",
    fix="measure again",
)
GOOD = judge("counts", [], "9 samples")
PERSON = manual("accuracy-log", "ask the submitter")
ABSENT = not_applicable("trace", "there is none")
NOT_ELIGIBLE = manual(
    "eligibility", "not eligible because a; b", reasons=["it is tiny", "it is synthetic"]
)
LATER = judge("minimum-duration-setting", ["300 ms; the round requires 600000 ms"], "")
ALL = [GOOD, PERSON, ABSENT, NOT_ELIGIBLE, BAD, LATER]


def test_a_failure_is_told_with_rule_source_values_place_and_remedy():
    text = read(ALL).text
    for part in (
        *("TWO", "ONE", "logs/detail.txt:48", "measure again", "seeds_check"),
        *("The seeds are those of the round", "runs/a", "2026-08-20 12:00 UTC"),
        "Level quick of v6.1 does not pass: 1 of 5 checks fails",
    ):
        assert part in text


def test_failures_stand_before_what_people_judge_and_that_before_what_holds():
    text = read(ALL).text
    headings = (
        *("Levels", "Is it an MLPerf result?", "Failures of the audit itself (1)"),
        *("For a person to judge (1)", "Passed (1)", "Not applicable (1)"),
    )
    parts = [text.index(words) for words in headings]
    assert parts == sorted(parts)


def test_each_level_says_whether_it_holds_and_what_of_it_fails():
    text = read([GOOD, LATER]).text
    assert "Level quick of v6.1 passes" in text and "quick passes" in text.replace("  ", " ")
    text = read([GOOD, LATER], "valid").text
    assert "Level valid of v6.1 does not pass: 1 of 2 checks fails" in text


def test_reasons_against_eligibility_are_a_list_and_no_finding():
    found = read(ALL)
    assert [tag for tag, _ in found.tags].count("li") == 2
    assert "it is tiny" in found.text
    assert "unverified" in found.text


def test_a_fault_without_values_is_its_sentence():
    found = read([judge("counts", ["a is missing"], "", file="f")])
    assert "a is missing" in found.text and ("table", {"class": "faults"}) not in found.tags


def test_what_was_left_out_is_counted():
    faults = (Fault(str(n), "1") for n in range(1000))
    assert "and 900 more" in read([judge("counts", faults, "")]).text
    assert "and 500 more" in read([BAD] * 1500).text


def test_several_scenarios_have_a_line_each_and_their_failures_stand_by_place(two_scenarios):
    (next(two_scenarios.rglob("Offline")) / "README.md").unlink()
    found = read(audit.audit(two_scenarios).checks)
    assert [tag for tag, _ in found.tags].count("h3") >= 2
    for words in ("Checks by folder (3)", "README.md is missing", "/Offline", "/SingleStream"):
        assert words in found.text


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></table></details><h1>Level quick holds</h1>",
    "<!-- ",
    "]]><b>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "\x1b[31m\r\n\x00\u202e\udcff",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_wherever_it_stands(text):
    cases = [
        (outcome, check_id, place)
        for outcome in Verdict
        for check_id in ("x", "eligibility")
        for place in ("", "x")
    ]
    checks, plain = ([_saying(words, *case) for case in cases] for words in (text, "x"))
    tags = [tag for tag, _ in read(checks, directory=text).tags]
    assert tags == [tag for tag, _ in read(plain, directory="x").tags]
    content = render(checks, directory=text)
    assert not set("\x1b\r\x00\u202e") & set(content) and content.encode()


def _saying(text, outcome, check_id, place):
    """A check whose every word is the text."""
    fault = Fault(text, text, text, text, 1)
    return Check(
        text if check_id == "x" else check_id,
        text,
        outcome,
        text,
        rule_ids=("C1",),
        file=text,
        fix=text,
        faults=(fault, fault),
        place=place and text,
    )


def test_the_page_needs_nothing_and_runs_nothing():
    content = render(ALL)
    found = Reader(content)
    loads = {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not loads & {tag for tag, _ in found.tags}
    names = {name for _, attributes in found.tags for name in attributes}
    assert not names & {"href", "src", "style"}
    assert not [name for name in names if name.startswith("on")]
    (policy,) = [a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    for words in ("url(", "@import", "http://", "https://"):
        assert words not in content


def test_every_finding_has_an_anchor_of_its_own_and_the_same_whatever_its_words(run):
    found = audit.audit(run).checks
    page_of = Reader(render(found, "submission"))
    anchors = [attributes["id"] for _, attributes in page_of.tags if "id" in attributes]
    assert len(set(anchors)) == len(anchors) == len(found) - 1  # eligibility is a list of its own
    assert {"performance-evidence", "minimum-duration-setting"} <= set(anchors)


# The command line.


def test_the_flag_writes_the_page_beside_what_is_printed(run, tmp_path, capsys):
    file = tmp_path / "page.html"
    assert cli.main(["audit", str(run), "--html", str(file)]) == 0
    assert "PASS" in capsys.readouterr().out
    words = "Level quick of v6.1 passes; 1 finding is for a person to judge"
    assert words in Reader(file.read_text()).text


def test_the_flag_goes_with_json_and_keeps_the_exit_code(run, tmp_path, capsys):
    (runs.scenario_folder(run) / "README.md").unlink()
    assert cli.main(["audit", str(run), "--json", "--html", str(tmp_path / "page.html")]) == 1
    out = capsys.readouterr()
    assert "checks" in json.loads(out.out) and out.err == f"the page: {tmp_path / 'page.html'}\n"
    assert "README.md is missing" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("where", ["no/such/folder/page.html", "."])
def test_a_file_that_cannot_be_written_is_a_usage_error(run, tmp_path, capsys, where):
    code = cli.main(["audit", str(run), "--html", str(tmp_path / where)])
    assert code == UsageError.exit_code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"error: --html {tmp_path / where}: cannot be written")


def test_a_page_is_never_written_into_what_is_audited_and_over_an_earlier_one(
    run, tmp_path, capsys
):
    link = tmp_path / "link.html"
    link.symlink_to(run / "record.json")
    before = (run / "record.json").read_bytes()
    for target in (link, run / "new.html"):
        assert cli.main(["audit", str(run), "--html", str(target)]) == 2
        assert "is in the audited directory" in capsys.readouterr().err
    assert (run / "record.json").read_bytes() == before
    assert not (run / "new.html").exists()
    for _ in range(2):  # a page of an earlier audit may go
        assert cli.main(["audit", str(run), "--html", str(tmp_path / "page.html")]) == 0


def test_the_page_says_what_was_claimed_by_whom(run):
    found = audit.audit(run)
    (claim,) = found.results
    assert (claim.benchmark, claim.official) == ("bert-tiny", "bert-99")
    assert (claim.scenario, claim.verdict) == ("Offline", "VALID")
    text = Reader(page.render("x", "quick", found, WHEN)).text
    shown = (claim.title, claim.figure, claim.words, claim.recomputed, claim.verdict, claim.tested)
    assert claim.figure.endswith(" samples/s") and all(part and part in text for part in shown)


def test_a_round_has_a_table_of_submitters_and_kinds_with_three_groups_apart():
    ours, theirs = "closed/Ours/results/s/bert-99/Offline", "closed/Theirs/results/s/resnet/Server"
    lines = []
    for place in (ours, theirs):
        parts = place.split("/")
        names = dict(zip(("division", "submitter"), parts, strict=False))
        rest = dict(zip(("system", "benchmark", "scenario"), parts[3:], strict=True))
        lines.append(ResultLine(place=place, **names, **rest))
    checks = [
        replace(BAD, place=ours, required_by=RequiredBy.CHECKER),
        replace(BAD, place=theirs, required_by=RequiredBy.CHECKER),
        replace(LATER, place="closed/Theirs", level="quick", required_by=RequiredBy.RULES),
        replace(LATER, id="counts", name="counts", place=ours, level="quick"),
    ]
    report = Audit("v6.1", tuple(lines), tuple(checks))
    text = " ".join(Reader(page.render("x", "quick", report, WHEN)).text.split())
    start = text.index("Failures by submitter and kind check all Ours Theirs")
    rows = (
        "Failures of the audit itself counts 1 1",
        "What MLCommons' checker of this round refuses performance seeds 2 1 1",
        "What the rules' text asks, and the checker does not look for minimum duration setting 1 1",
    )
    places = [text.index(row, start) for row in rows]
    assert places == sorted(places)
    one = Audit("v6.1", (lines[0],), tuple(checks))
    assert "Failures by submitter" not in page.render("x", "quick", one, WHEN)


def test_a_name_that_is_no_utf_8_can_be_written(run, tmp_path):
    (runs.scenario_folder(run) / "stray-\udcff.txt").write_text("x")
    assert cli.main(["audit", str(run), "--quiet", "--html", str(tmp_path / "page.html")]) == 1
    assert "stray-\\udcff.txt" in (tmp_path / "page.html").read_text(encoding="utf-8")
