"""A tree from somebody who wants the audit to read elsewhere, to hang, to break off or to take all
memory: findings, always.
"""

import gzip
import io
import itertools
import json
import os
import zipfile
from dataclasses import asdict

import numpy as np
import pytest

from compliance import audit, checklist, logs
from compliance import tree as submission_tree
from compliance.findings import verdict
from compliance.logs import files, strict_json
from formats.checks import Verdict
from tests.support import tree as runs
from tests.support.audits import checks, failed
from tests.support.damage import FILES
from tests.support.long import long_unless
from tests.support.mutations import ANSWERS, DETAIL, SUMMARY, record

SECRET = "root:x:0:0:a-secret-of-this-machine"


# Links.


@pytest.fixture
def elsewhere(tmp_path):
    path = tmp_path / "elsewhere" / "secret.txt"
    path.parent.mkdir()
    path.write_text(SECRET + "\n")
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_a_link_is_a_finding_and_is_not_read(tokens_run, elsewhere, name):
    (path,) = tokens_run.glob(FILES[name])
    path.unlink()
    path.symlink_to(elsewhere)
    found = checks(tokens_run).values()
    assert any("is a link" in each.detail for each in found if each.verdict is Verdict.FAIL), found
    assert not [each.key for each in found if SECRET in json.dumps(asdict(each))]


@pytest.mark.parametrize(
    "folder",
    [
        "raw",
        "raw/performance",
        "open",
        "open/*",
        "open/*/systems",
        "open/*/results/*/*/*",
        "open/*/results/*/*/*/accuracy",
    ],
)
def test_a_folder_that_is_a_link_hides_what_is_in_it(run, tmp_path, folder):
    (path,) = run.glob(folder)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    found = failed(run).values()
    assert any("link" in each.detail for each in found), found
    assert not audit.audit(run).levels


def test_a_link_on_the_way_to_the_directory_is_the_readers_own(run, tmp_path):
    (tmp_path / "latest").symlink_to(run)
    for directory in (tmp_path / "latest", run):
        assert verdict.passes(audit.audit(directory).checks_for("quick"))


def test_links_are_followed_where_nothing_is_audited(tmp_path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert files.attempt(files.text, tmp_path / "b") == ("x", "")
    with files.confined(tmp_path):
        assert files.attempt(files.text, tmp_path / "b") == (None, "b is a link: it is not read")
    assert files.link_to(tmp_path / "b") is None


def test_links_in_a_ring_end(run):
    ring = runs.base(run) / "src" / "ring"
    ring.symlink_to(ring)
    (runs.base(run) / "src" / "up").symlink_to(run)
    detail = failed(run)["names-and-sizes"].detail
    assert "src/ring is a link; src/up is a link" in detail


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "x\n[PASS] validity: VALID",
        "\x1b[2J",
        "a\u202eb",
        "..\\..\\x",
        "...",
        "-rf",
        "%s{0}",
        "\udcff",
    ],
)
def test_an_odd_name_of_a_system_does_no_harm(run, name):
    (system,) = (runs.base(run) / "results").iterdir()
    system.rename(system.with_name(name))
    assert failed(run)
    assert all(check.line().isprintable() for check in checks(run).values())


@pytest.mark.parametrize(
    "round",
    [
        "../secret",
        "../../v6.1",
        "/etc/passwd",
        "v6.1\x00",
        "",
        None,
        ["v6.1"],
        {"a": 1},
        "x" * 10**6,
    ],
)
def test_a_round_that_is_a_path_is_no_round(run, round):
    record(round=round)(run)
    found = audit.audit(run).checks
    assert any(check.verdict is Verdict.FAIL for check in found)
    assert max(len(check.detail) for check in found) < 6000


# Walking.


def test_a_tree_of_too_many_entries_is_a_finding(run, monkeypatch):
    monkeypatch.setattr(files, "_MOST_ENTRIES", 500)
    folder = runs.base(run) / "documentation"
    folder.mkdir()
    for n in range(600):
        (folder / str(n)).touch()
    found = files.walk(runs.base(run))
    assert len(found.entries) == 500
    assert found.problem == "it has more than 500 entries; only those were audited"
    assert found.problem in failed(run)["names-and-sizes"].detail


def test_a_tree_that_is_too_deep_is_a_finding(run):
    folder = runs.base(run) / "documentation"
    for _ in range(60):
        folder = folder / "d"
    folder.mkdir(parents=True)
    found = files.walk(runs.base(run))
    assert "more than 32 deep" in found.problem
    assert max(len(p.relative_to(runs.base(run)).parts) for p in found.entries) <= 32
    faults = checks(run)["names-and-sizes"].faults
    assert found.problem in [fault.text for fault in faults]


def test_a_tree_of_too_many_scenarios_is_a_finding(run, monkeypatch):
    monkeypatch.setattr(submission_tree, "_MOST_FOLDERS", 2)
    for n in range(3):
        (runs.scenario_folder(run).parent / f"Other{n}").mkdir()
    assert failed(run)["submission-tree"].detail.startswith("it has 4 result folders")
    assert len({check.place for check in checks(run).values() if "Other" in check.place}) <= 2


# JSON.

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (DEEP, "nested more than 64 levels"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested more than 64 levels"),
        ("[" * 70 + "]" * 70, "nested more than 64 levels"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"b": {"a": 1, "c": 3, "a": 1}}', "'a' occurs twice"),
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "1e999 is too large"),
        ("9" * 10_000, "10000 digits"),
        ("-" + "9" * 50, "51 digits"),
        ("\ufeff{}", "byte order mark"),
        ('"\x00"', "control character"),
        ("", "Expecting value"),
    ],
)
def test_json_that_means_more_than_one_thing_is_refused(text, why):
    with pytest.raises(ValueError, match="(?s).*") as error:
        strict_json.parse(text)
    assert why in str(error.value)


def test_a_key_that_stands_twice_at_the_end_of_a_million_is_found_soon():
    text = "{" + ",".join(f'"{n}":0' for n in range(300_000)) + ',"299999":0}'
    with pytest.raises(ValueError, match="'299999' occurs twice"):
        strict_json.parse(text)


JSON = {
    name: pattern
    for name, pattern in FILES.items()
    if pattern.endswith(".json") and "accuracy log" not in name
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize(
    "content",
    [
        DEEP.encode(),
        b'{"a":1,"a":1}',
        b'{"x":NaN}',
        b'{"x":' + b"9" * 5000 + b"}",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
    ],
)
def test_a_document_like_that_is_a_finding(tokens_run, name, content):
    (path,) = tokens_run.glob(FILES[name])
    path.write_bytes(content)
    found = failed(tokens_run).values()
    assert any(f"{path.name} is damaged" in each.detail for each in found), found


@pytest.mark.parametrize(
    "name",
    long_unless(
        ["record.json", "raw/performance/outcome.json", "raw/accuracy/job.json"],
        lambda name: name == "record.json",
    ),
)
def test_a_document_of_the_right_keys_and_hostile_values_does_not_stop_the_audit(run, name):
    """Every value, one after the other, becomes something else."""
    values = itertools.cycle((10**39, "x" * 5000, [[[]]], 1e308, {"": None}, -1))
    path = run / name
    before = path.read_text()
    for where in list(_leaves(json.loads(before))):
        document = json.loads(before)
        _put(document, where, next(values))
        path.write_text(json.dumps(document))
        found = checks(run)
        # It came to its end, or says what is wrong.
        assert "validity" in found or failed(run), where


def _leaves(value, at=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield at + (key,)
            if len(at) < 1:
                yield from _leaves(inner, at + (key,))


def _put(document, where, value):
    for key in where[:-1]:
        document = document[key]
    document[where[-1]] = value


# Logs.

ENTRY = (
    ':::MLLOG {"key": "%s", "value": %s, "time_ms": %s, "metadata": {"is_error": false,'
    ' "is_warning": false}}\n'
)


def detail(tmp_path, content):
    path = tmp_path / "detail.txt"
    path.write_bytes(content)
    return logs.read_detail(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (ENTRY % ("a", "1e999", 1), "line 2 is not an MLLOG entry (1e999 is too large"),
        (ENTRY % ("a", "9" * 10_000, 1), "10000 digits"),
        (ENTRY % ("a", DEEP, 1), "nested more than 64 levels"),
        (ENTRY % ("a", '{"b": 1, "b": 2}', 1), "'b' occurs twice"),
        (
            ENTRY.replace('"key": "%s"', '"key": "x", "key": "%s"') % ("a", 1, 1),
            "'key' occurs twice",
        ),
        (ENTRY % ("a", 1, 1) + "\0" * 50 + "\n", "NUL"),
    ],
)
def test_a_line_like_that_is_a_problem_and_no_value(tmp_path, line, problem):
    found = detail(tmp_path, (ENTRY % ("first", 1, 1) + line).encode())
    assert any(problem in p for p in found.problems), found.problems
    assert found.get("first") == 1


@pytest.mark.parametrize(
    "content",
    [(ENTRY % ("a", 1, 1)).encode("utf-16"), b"\xef\xbb\xbf" + (ENTRY % ("a", 1, 1)).encode()],
)
def test_another_encoding_is_a_problem(tmp_path, content):
    found = detail(tmp_path, content)
    assert found.problems and not found.values


def test_a_log_that_never_ends_is_read_so_far_and_no_further(tmp_path, monkeypatch):
    monkeypatch.setattr(logs.detail, "_LARGEST", 1 << 20)
    path = tmp_path / "detail.txt"
    with path.open("wb") as f:
        f.write((ENTRY % ("a", 1, 1)).encode() * 20_000)
        f.truncate(1 << 40)  # a terabyte of nothing, which takes no room
    found = logs.read_detail(path)
    assert any("only the first 1 MiB are read" in p for p in found.problems) and found.get("a") == 1


def test_answers_beyond_the_most_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(logs.answers, "_MOST_PAYLOAD", 100)
    path = tmp_path / "accuracy.json"
    rows = ",\n".join(
        f'{{ "seq_id" : {n}, "qsl_idx" : {n}, "data" : "{"00" * 40}" }}' for n in range(5)
    )
    path.write_text(f"[\n{rows}\n]\n")
    found = logs.read_accuracy(path)
    assert len(found.payloads) == 2 and any("line 4: more than" in p for p in found.problems)


@pytest.mark.parametrize(
    "row",
    [
        '{ "seq_id" : 0, "qsl_idx" : %s, "data" : "00" }' % ("9" * 30),
        '{ "seq_id" : -1, "qsl_idx" : 0, "data" : "00" }',
        '{ "seq_id" : 0, "qsl_idx" : 0, "qsl_idx" : 1, "data" : "00" }',
        '{ "seq_id" : 0, "qsl_idx" : 0, "data" : "é0" }',
        '{ "seq_id" : ٣, "qsl_idx" : 0, "data" : "00" }',
    ],
)
def test_a_row_like_that_is_no_row(tmp_path, row):
    path = tmp_path / "accuracy.json"
    path.write_text(f"[\n{row}\n]\n")
    found = logs.read_accuracy(path)
    assert not found.payloads and any("line 2 is not a row" in p for p in found.problems)


def test_a_row_written_otherwise_is_the_same_row(tmp_path):
    path = tmp_path / "accuracy.json"
    path.write_text(
        '[\n{"qsl_idx":7,"data":"00ff","seq_id":0,"token_data":"00"},\n{ "seq_id" : 1, "qsl_idx" :'
        ' 3, "data" : "" }\n]\n'
    )
    found = logs.read_accuracy(path)
    assert not found.problems
    assert found.payloads == {7: b"\x00\xff", 3: b""}
    assert list(found.seq_ids) == [0, 1]
    assert 5 not in found.payloads and "x" not in found.payloads and len(found.payloads) == 2
    with pytest.raises(KeyError):
        found.payloads[5]


@pytest.mark.parametrize("name", [DETAIL, SUMMARY, ANSWERS])
def test_a_log_of_nothing_but_nul_bytes_is_a_finding(run, name):
    for path in runs.both(run, "accuracy", name):
        path.write_bytes(b"\0" * 5000)
    assert failed(run)


# Archives.


def packed(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def header(shape, content=b""):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue() + content


def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_not_unpacked(tmp_path):
    path = packed(tmp_path / "bomb.npz", logits=header((64 << 20, 1), b"\0" * (256 << 20)))
    assert path.stat().st_size < 1 << 20
    found, why = files.attempt(files.arrays, path)
    assert found is None and "unpacks to" in why


def test_an_array_that_declares_more_than_is_there_is_not_allocated(tmp_path):
    for shape in ((1 << 50,), (1 << 31, 1 << 31), (-5, 3)):
        found, why = files.attempt(
            files.arrays, packed(tmp_path / "x.npz", logits=header(shape, b"\0" * 64))
        )
        assert found is None and "is declared in" in why
        (tmp_path / "x.npy").write_bytes(header(shape, b"\0" * 64))
        found, why = files.attempt(files.array, tmp_path / "x.npy")
        assert found is None and "is declared in" in why


def test_a_sparse_array_of_terabytes_is_not_read(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(header((1 << 38,)))
    os.truncate(path, (1 << 40) + 128)
    found, why = files.attempt(files.array, path)
    assert found is None and "at most" in why


def test_a_header_of_python_2_is_damage_and_no_warning(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(header((1, 3), b"\0" * 64).replace(b"(1, 3), }", b"(1L, 3),}"))
    found, why = files.attempt(files.array, path)
    assert found is None and "Python 2" in why


def test_a_trace_that_unpacks_without_end_is_not_read_to_its_end(run):
    path = run / "raw/performance/mlperf_log_trace.json.gz"
    path.write_bytes(gzip.compress(b"\n" * (200 << 20), compresslevel=1))
    assert "longer than a trace can be" in failed(run)["trace-samples"].detail


# The last resort.


def test_where_the_audit_itself_breaks_off_the_other_parts_go_on(run, monkeypatch):
    def broken(subject):
        raise ZeroDivisionError("nobody thought of this")

    before = len(audit.audit(run).checks_for("quick"))
    group = checklist.CheckGroup("evidence", (broken,))
    monkeypatch.setattr(checklist, "GROUPS", (group, *checklist.GROUPS))
    found = audit.audit(run).checks_for("quick")
    (check,) = (check for check in found if check.verdict is Verdict.FAIL)
    assert check.id == "audit"
    assert "the audit of evidence failed" in check.detail
    assert "ZeroDivisionError: nobody thought of this" in check.detail
    assert len(found) == before + 1
    assert not verdict.passes(found)


def test_a_submitter_that_is_a_link_beside_another_is_a_finding(run, tmp_path):
    (run / "open" / "somebody").symlink_to(tmp_path)
    assert {key: check.detail for key, check in failed(run, "quick").items()} == {
        "submitters-folders": "open/somebody is a link: it is not read"
    }
