"""The parsers: what they keep and what they complain about."""

import gzip
import math
from array import array

import pytest

from compliance import logs
from compliance.logs import trace

ENTRY = (
    ':::MLLOG {"key": "%s", "value": %s, "time_ms": 1.5, "metadata": {"is_error": %s, "is_warning":'
    " false}}\n"
)


def detail(tmp_path, content):
    path = tmp_path / "detail.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return logs.read_detail(path)


def test_a_real_log_has_no_problem_and_exact_integers(measured):
    found = logs.read_detail(measured("Offline") / "raw" / "performance" / "mlperf_log_detail.txt")
    assert not found.problems and not found.errors
    assert str(found.get("loaded_qsl_set")).startswith("[")
    assert found.get("effective_schedule_rng_seed") == 16159082839903944936
    assert found.all("generic_message")[0] == "Starting performance mode"


def test_the_last_value_counts_and_all_are_kept(tmp_path):
    found = detail(tmp_path, ENTRY % ("a", 1, "false") + ENTRY % ("a", 2, "false"))
    assert found.get("a") == 2
    assert found.all("a") == [1, 2]
    assert found.get("b", 7) == 7
    assert found.all("b") == []


def test_error_lines_are_kept_with_their_number(tmp_path):
    (error,) = detail(
        tmp_path, ENTRY % ("a", 1, "false") + ENTRY % ("error_x", '"why"', "true")
    ).errors
    assert (error.number, error.key, error.value) == (2, "error_x", "why")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"hello\n", "line 1 is not an MLLOG entry"),
        ((ENTRY % ("a", 1, "false"))[:-9], "line 1 is cut"),
        (b":::MLLOG \xff\n", "not UTF-8"),
        (':::MLLOG {"key": 1, "metadata": {}}\n', "line 1 is not an MLLOG entry"),
        (":::MLLOG " + "[" * 100_000 + "\n", "line 1 is not an MLLOG entry"),
        (
            ENTRY % ("result_validity", '"VALID"', "false")
            + ENTRY % ("result_validity", '"INVALID"', "false"),
            "more than one run",
        ),
    ],
)
def test_bad_content_is_a_problem(tmp_path, content, problem):
    assert any(problem in p for p in detail(tmp_path, content).problems)


@pytest.mark.parametrize("value", ['"1"', "true", "NaN", "Infinity", "1e999", "null", "[1]"])
def test_what_is_no_finite_number_is_no_number(tmp_path, value):
    assert detail(tmp_path, ENTRY % ("a", value, "false")).number("a") is None


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-nan", "Infinity", "-Infinity", "NaN"])
def test_a_rate_that_is_not_finite_is_read_as_loadgen_prints_it(tmp_path, value):
    found = detail(tmp_path, ENTRY % ("a", value, "false"))
    assert not math.isfinite(found.get("a")) and found.number("a") is None
    assert not any("MLLOG" in problem for problem in found.problems)


@pytest.mark.parametrize(
    "value",
    ["late.\n", "late.\n * and later", "no file D:\\inference\\mlperf.conf", 'a "quoted" name'],
)
def test_a_text_is_read_although_loadgen_escapes_nothing(tmp_path, value):
    entry = ENTRY % ("a", f'"{value}"', "false")
    for content in (entry + entry, (entry + entry).replace("\n", "\r\n")):
        found = detail(tmp_path, content)
        assert [line.number for line in found.occurrences["a"]] == [1, 2 + value.count("\n")]
        assert found.all("a") == [value, value]
        assert not any("MLLOG" in problem for problem in found.problems)


def test_a_line_without_its_end_does_not_take_the_next_entry(tmp_path):
    entry = ENTRY % ("a", 1, "false")
    found = detail(tmp_path, entry[:-9] + "\n" + entry)
    assert [line.number for line in found.occurrences["a"]] == [2]
    assert "line 1 is not an MLLOG entry" in found.problems[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(b"x"), "the file is compressed by gzip: unpack it"),
        (b"PK\x03\x04x", "the file is a zip archive: unpack it"),
        ("x".encode("utf-16"), "the file is text in UTF-16, and LoadGen writes UTF-8: convert it"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "the file is a pointer of Git LFS: fetch its content",
        ),
    ],
)
def test_a_file_of_another_form_has_one_sentence(tmp_path, content, sentence):
    assert detail(tmp_path, content).problems == (sentence,)


def test_problems_stay_few(tmp_path):
    assert len(detail(tmp_path, "x\n" * 10_000).problems) == 20


def test_a_real_summary_has_its_labels(measured):
    found = logs.read_summary(
        measured("SingleStream") / "raw" / "performance" / "mlperf_log_summary.txt"
    )
    assert not found.problems
    assert found.values["Scenario"] == "SingleStream"
    assert found.values["Result is"] == "VALID"
    assert found.values["samples_per_query"] == "1"


def test_a_real_accuracy_log_has_each_sample_once(measured):
    found = logs.read_accuracy(
        measured("Offline") / "raw" / "accuracy" / "mlperf_log_accuracy.json"
    )
    assert not found.problems
    assert sorted(found.payloads) == sorted(found.seq_ids) == list(range(256))
    assert all(len(data) == 8 for data in found.payloads.values())


ROW = '{ "seq_id" : 0, "qsl_idx" : 5, "data" : "00FF" }'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (f"[\n{ROW},\n{ROW}\n]\n", "twice"),
        (f"[\n{ROW}\n", "not closed"),
        (f"[\n{ROW},\n]\n", "ends with a comma"),
        (f"[\n{ROW}\n{ROW}\n]\n", "missing comma"),
        ('[\n{ "seq_id" : 0, "qsl_idx" : 5, "data" : "0F0" }\n]\n', "hexadecimal"),
        ('[\n{ "seq_id" : 0, "qsl_idx" : true, "data" : "00" }\n]\n', "hexadecimal"),
        (f"[\n{ROW}\n]\n{ROW}\n", "outside"),
        ("", "empty"),
    ],
)
def test_a_bad_accuracy_log_is_a_problem(tmp_path, content, problem):
    path = tmp_path / "accuracy.json"
    path.write_text(content)
    assert any(problem in p for p in logs.read_accuracy(path).problems)


def test_of_an_accuracy_log_that_was_cut_the_ends_are_read():
    rows = [
        f'{{ "seq_id" : {n}, "qsl_idx" : {n + 7}, "data" : "{"ab" * 60}" }},\n' for n in range(40)
    ]
    whole = ("[\n" + "".join(rows)[:-2] + "\n]\n").encode()
    found = logs.read_ends(whole[:4096], whole[-4096:])
    assert not found.problems and set(found.seq_ids) == set(range(40)), (
        "of a log of less than twice that the ends overlap"
    )
    longer = whole.replace(b"ab" * 60, b"ab" * 4000)
    assert logs.read_ends(longer[:4096], longer[-4096:]) == logs.Answers(
        {}, array("q"), array("q"), ()
    ), "no row is left whole"
    empty = whole.replace(b"ab" * 60, b"")
    assert logs.read_ends(empty[:900], empty[-900:]).problems == (
        "every answer that is left is empty",
    )


def test_a_plain_log_is_read_as_line_by_line(tmp_path, monkeypatch):
    """Blocks end within rows; a sample that comes twice has its line in both."""
    monkeypatch.setattr(logs.answers, "_BLOCK", 100)
    rows = [f'{{ "seq_id" : {n}, "qsl_idx" : {n % 40}, "data" : "{n:04x}" }}' for n in range(60)]
    path = tmp_path / "accuracy.json"
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    found = logs.read_accuracy(path)
    assert found.problems[0] == "line 42: qsl_idx 0 occurs twice" and len(found.problems) == 20
    monkeypatch.setattr(logs.answers, "_plain", lambda _: None)
    expected = logs.read_accuracy(path)
    assert dict(found.payloads) == dict(expected.payloads) and found.payloads[3] == b"\0\x2b"
    assert (found.seq_ids, found.indices) == (expected.seq_ids, expected.indices)
    assert found.problems == expected.problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('},\n{ "seq_id" : 7', '}\n{ "seq_id" : 7'),
        ('"seq_id" : 7', '"seq_id" : -7'),
        ('"00', '"0'),
        ("\n]\n", ",\n]\n"),
        ("\n]\n", "\n]"),
        ("[\n", "[ \n"),
    ],
)
def test_a_log_that_is_not_plain_is_read_line_by_line(tmp_path, old, new):
    rows = [f'{{ "seq_id" : {n}, "qsl_idx" : {n}, "data" : "{n:04x}" }}' for n in range(9)]
    path = tmp_path / "accuracy.json"
    path.write_text(("[\n" + ",\n".join(rows) + "\n]\n").replace(old, new, 1))
    assert logs.answers._plain(path) is None


PAIR = (
    '{{"name":"Sample","cat":"default","ph":"b","pid":9,"id":{n},"ts":{us}.065,"args":{{"sample_seq":'
    '{n},"query_seq":0,"sample_idx":{other},"issue_start_ns":171,"complete_ns":{done}}}}},\n'
    '{{"name":"Sample","cat":"default","ph":"e", "pid":9,"id":{n},"ts":{done}.172}},\n'
)
PAIRS = "".join(
    PAIR.format(n=n, us=100 + 97 * n, other=n * 7 % 50, done=5000 + n * 991) for n in range(50)
)


@pytest.mark.parametrize("lines", [(0, 100), (1, 100), (0, 99), (1, 99), (3, 6)])
def test_pairs_of_a_trace_are_read_as_one_by_one(lines):
    """A block may begin with the end of a pair, and end with the beginning of one."""
    text = "\n".join(PAIRS.splitlines()[slice(*lines)]).encode()
    found = trace._pairs(text)
    assert found.tolist() == trace._numbers(trace._SAMPLE.findall(text)).tolist()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"id":7,"ts":779.065', '"id":,"ts":779.065'),
        ("779.065", "779.65"),
        ('"name":"Sample"', '"na1me":"Sample"'),
        ('"id":7,"ts":779', '"id":,"t7s":779'),
        ('"sample_idx":49', '"sample_idx":-49'),
        ('"sample_idx":49', '"sample_idx":1234567890123456789'),
    ],
)
def test_other_lines_than_pairs_are_not_taken_for_pairs(old, new):
    assert old in PAIRS and trace._pairs(PAIRS.replace(old, new, 1).encode()) is None
