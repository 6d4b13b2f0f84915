"""The compliance tests' checks: real logs of a good run, and each single thing changed."""

import json
import shutil

import pytest

from compliance import audit, logs
from compliance import subject as tree
from compliance.audit_tests import answers as audited_answers
from compliance.audit_tests import compliance_tests
from compliance.folders import result_folders
from compliance.loadgen import sampling
from formats.checks import Verdict
from tests.support import mutations as m
from tests.support import tree as runs
from tests.support.mutations import ANSWERS, DETAIL
from tests.support.rounds import loosened

KINDS = ("SingleStream", "tokens")
LOOSE = loosened()


@pytest.fixture(scope="module")
def complied(tmp_path_factory):
    """A good run with its compliance tests, measured again if a busy machine made one of its tests
    slower than the others.
    """
    folder = tmp_path_factory.mktemp("complied")
    made = {}

    def get(kind):
        attempts = range(0 if kind in made else 3)
        for attempt in attempts:
            path = folder / f"{kind}-{attempt}"
            built = runs.build(path, *runs.KINDS[kind], milliseconds=1000, latency_ms=10.0)
            made[kind] = runs.comply(built, of=LOOSE)
            if not failing(made[kind]):
                break
        return made[kind]

    return get


@pytest.fixture
def run(complied, tmp_path, request):
    kind = getattr(request, "param", "SingleStream")
    return shutil.copytree(complied(kind), tmp_path / "quick-1")


def found(run):
    (place,) = result_folders(run, LOOSE)
    return {check.key: check for check in compliance_tests.checks(tree.read(place, LOOSE))}


def failing(run):
    return {name for name, check in found(run).items() if check.verdict is Verdict.FAIL}


def folder(run, test):
    return runs.scenario_folder(run) / test


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_run_fails_nothing_and_says_what_does_not_apply(complied, kind):
    checks = found(complied(kind))
    assert not failing(complied(kind))
    of = {
        verdict: {name for name in checks if checks[name].verdict is verdict} for verdict in Verdict
    }
    passed, na = of[Verdict.PASS], of[Verdict.NA]
    assert passed >= {"test01-answers", "test01-samples", "test01-performance", "test01-hash"}
    assert passed >= {"test04-performance", "test04-settings"}
    if kind == "SingleStream":
        assert na >= {"test06", "output-length"}
    else:
        assert na >= {"test06-first-token", "test06-token-count", "test06-eos"}
        assert passed >= {"test06-samples", "output-length"}
    assert {check.level for check in checks.values()} == {"submission"}


def answers(test, how):
    """A forger who changes the raw log and makes everything that follows from it again."""

    def do(run):
        path = run / "raw" / test / ANSWERS
        rows = path.read_text().splitlines()
        changed = how(rows)
        assert changed != rows
        path.write_text("\n".join(changed) + "\n")
        runs.resubmit_compliance(run, LOOSE)

    return do


def other_bytes(position, row=1):
    """One hexadecimal digit of a row's answer, from its end: -1 is the highest byte of a
    little-endian number.
    """

    def how(rows):
        start, data, end = _data(rows[row])
        at = position % len(data)
        other = "1" if data[at] != "1" else "2"
        changed = f"{start}{data[:at]}{other}{data[at + 1 :]}{end}"
        return [*rows[:row], changed, *rows[row + 1 :]]

    return how


def edited(test, name, old, new):
    """In raw/ and, where it is submitted, in the tree."""

    def do(run):
        for path in runs.both(run, test, name):
            if path.is_relative_to(run / "raw") or path.exists():
                before = path.read_text()
                assert old in before
                path.write_text(before.replace(old, new, 1))

    return do


def _data(row):
    """The text before a row's answer, the answer, and the text behind it."""
    start, mark, rest = row.rpartition('"data" : "')
    data, quote, end = rest.partition('"')
    return start + mark, data, quote + end


def two_ends(rows):
    start, data, _ = _data(rows[1])
    return [rows[0], f'{start}{data[:-16]}0200000002000000" }},', *rows[2:]]


def half(rows):
    parts = [_data(row) if "data" in row else (row, "", "") for row in rows]
    return [f"{start}{data[: len(data) // 2]}{end}" for start, data, end in parts]


def latencies_of_the_performance_run(run):
    keys = [f"result_{key}_latency_ns" for key in ("min", "mean", "max")]
    values = logs.read_detail(runs.both(run, "performance", DETAIL)[0]).values
    runs.detail(run, "TEST04", **{key: values[key] for key in keys})


TESTS_MUTATED = {
    ("test01-answers", "SingleStream"): {
        "another answer": answers("TEST01", other_bytes(-1)),
        "no answers": answers("TEST01", lambda rows: ["[", "]"]),
        "verify_accuracy.txt says other": m.written("TEST FAIL\n", "TEST01/verify_accuracy.txt"),
        "verify_accuracy.txt says it otherwise": m.written(
            "TEST PASSED not at all\n", "TEST01/verify_accuracy.txt"
        ),
        "verify_accuracy.txt says both": m.written(
            "TEST PASS\nTEST FAIL\n", "TEST01/verify_accuracy.txt"
        ),
    },
    ("test01-samples", "SingleStream"): {
        "an answer less": answers("TEST01", lambda rows: [rows[0], *rows[2:]]),
        "an answer of another sample": answers(
            "TEST01", lambda rows: [*rows[:1], _moved(rows[1]), *rows[2:]]
        ),
        "a log of answers that is cut": answers("TEST01", lambda rows: rows[:-1]),
    },
    ("output-length", "tokens"): {
        "half of each answer": answers("TEST01", half),
    },
    ("test01-hash", "SingleStream"): {
        "another submitted log of answers": m.written("[\n]\n", f"TEST01/accuracy/{ANSWERS}"),
        "another hash": m.written(f"{{}}\nhash={'0' * 64}\n", "TEST01/accuracy/accuracy.txt"),
    },
    ("test04-loadgen", "SingleStream"): {
        "the latencies are the performance run's": latencies_of_the_performance_run,
        "another library": m.logged("TEST04", qsl_reported_total_count=7),
    },
    ("test01-performance", "SingleStream"): {
        "verify_performance.txt says other": m.written(
            "TEST FAIL\n", "TEST01/verify_performance.txt"
        ),
        "slower while sampled": m.logged("TEST01", early_stopping_latency_ss=lambda v: v * 9),
        "no score": m.logged(
            "TEST01", early_stopping_latency_ss=None, result_90__00_percentile_latency_ns=None
        ),
    },
    ("test04-files", "SingleStream"): {
        "verify_performance.txt gone": m.gone(f"{m.SCENARIO}/TEST04/verify_performance.txt"),
    },
    ("test01-files", "SingleStream"): {
        "a stranger among the files": m.written("x", "TEST01/notes.txt"),
    },
    ("test01-settings", "SingleStream"): {
        "another sampling target": m.logged("TEST01", effective_accuracy_log_sampling_target=64),
        "another sampling seed": m.logged("TEST01", requested_accuracy_log_rng_seed=1),
        "another seed": m.logged("TEST01", effective_sample_index_rng_seed=1),
        "an accuracy run": m.logged("TEST01", effective_test_mode="AccuracyOnly"),
        "no audit.config found": edited("TEST01", DETAIL, "Found Audit Config", "Found nothing"),
    },
    ("test04-settings", "SingleStream"): {
        "a shorter test": m.logged("TEST04", requested_min_duration_ms=1),
        "another index again and again": m.logged(
            "TEST04", effective_performance_issue_same_index=0
        ),
        "many samples after all": m.logged("TEST04", effective_performance_issue_same=False),
    },
    ("test06-settings", "tokens"): {
        "more queries than asked for": m.logged("TEST06", effective_samples_per_query=101),
        "equal issue left on": m.logged("TEST06", effective_sample_concatenate_permutation=True),
    },
    ("test01-loadgen", "SingleStream"): {
        "another LoadGen": m.logged("TEST01", loadgen_version="6.0.16 @ 2b5f63eb56"),
        "an earlier date": m.logged(
            "TEST01", power_begin="01-01-2026 00:00:00.000", power_end="01-01-2026 00:00:09.000"
        ),
    },
    ("test04-log", "SingleStream"): {
        "an error": m.logged("TEST04", num_errors=1),
        "a summary that contradicts": edited(
            "TEST04", "mlperf_log_summary.txt", "Result is : VALID", "Result is : INVALID"
        ),
    },
    ("test04-performance", "SingleStream"): {
        "one sample is faster": m.logged("TEST04", early_stopping_latency_ss=lambda v: v // 9),
    },
    ("test01-run", "SingleStream"): {
        "another user.conf": edited("TEST01", "user.conf", "min_duration", "max_duration"),
        "another audit.config": edited("TEST01", "audit.config", "mode = 2", "mode = 0"),
        "another precision seen": m.outcome("TEST01", evidence_after=m.seen(0, "bfloat16")),
        "a worker that died": m.outcome("TEST01", status="oom", reason="no memory"),
    },
    ("test04-run", "SingleStream"): {
        "evidence that is none": m.outcome("TEST04", evidence_after=["none"]),
    },
}


def _moved(row):
    head, index, tail = row.partition('"qsl_idx" : ')
    number, comma, rest = tail.partition(",")
    return f"{head}{index}{(int(number) + 1) % 256}{comma}{rest}"


@pytest.mark.parametrize("mutation", list(m.mutations(TESTS_MUTATED)), ids=lambda each: each.name)
def test_a_single_change_fails_its_check(complied, tmp_path, mutation):
    run = shutil.copytree(complied(mutation.kind), tmp_path / "quick-1")
    mutation.do(run)
    assert mutation.check in failing(run)


def test_a_submitted_log_of_a_test_is_the_raw_one(run):
    m.written(":::MLLOG {}\n", f"TEST01/performance/run_1/{DETAIL}")(run)
    (check,) = [check for check in audit.audit(run).checks if check.id == "raw-logs"]
    assert check.verdict is Verdict.FAIL and "differs from raw/TEST01/" in check.detail


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_a_submitted_log_of_answers_that_is_never_truncated_is_the_raw_one(run):
    m.written("[\n]\n", f"TEST06/accuracy/{ANSWERS}")(run)
    (check,) = [check for check in audit.audit(run).checks if check.id == "raw-logs"]
    assert check.verdict is Verdict.FAIL
    assert check.detail.endswith(f"{ANSWERS} differs from raw/TEST06/{ANSWERS}")


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_two_end_tokens_fail_where_the_tokenizer_says_which_they_are(run):
    answers("TEST06", two_ends)(run)
    assert found(run)["test06-eos"].verdict is Verdict.NA
    m.record(end_tokens=[2])(run)
    runs.resubmit_compliance(run, LOOSE)
    assert found(run)["test06-eos"].verdict is Verdict.FAIL
    text = (folder(run, "TEST06") / "verify_accuracy.txt").read_text()
    assert "TEST06 verification failed" in text
    m.record(end_tokens=[5])(run)
    runs.resubmit_compliance(run, LOOSE)
    assert found(run)["test06-eos"].verdict is Verdict.PASS


def test_answers_that_differ_within_the_models_tolerance_pass_and_say_so(run):
    answers("TEST01", other_bytes(0))(run)  # the lowest bits of a float32
    check = found(run)["test01-answers"]
    assert check.verdict is Verdict.PASS
    assert "are not the accuracy run's bytes" in check.detail
    assert "within the tolerance" in check.detail
    assert "TEST FAIL" in (folder(run, "TEST01") / "verify_accuracy.txt").read_text()
    for name in ("baseline_accuracy.txt", "compliance_accuracy.txt"):
        assert json.loads((folder(run, "TEST01") / "accuracy" / name).read_text())["passed"]


def test_answers_that_differ_without_a_reference_are_left_to_a_person(run):
    m.record("accuracy", reason="too large here")(run)
    m.record("digests", reference="")(run)
    (run / "reference.npz").unlink()
    answers("TEST01", other_bytes(0))(run)
    check = found(run)["test01-answers"]
    assert check.verdict is Verdict.MANUAL and "too large here" in check.detail


def test_a_test_that_is_not_valid_counts_where_the_run_is_to_be(run):
    m.logged("TEST04", result_validity="INVALID")(run)
    assert found(run)["test04-verdict"].verdict is Verdict.NA
    m.record(mode="valid")(run)
    assert found(run)["test04-verdict"].verdict is Verdict.FAIL
    assert found(run)["test01-verdict"].verdict is Verdict.PASS


def test_a_test_that_was_broken_off_is_told_as_that(run):
    shutil.rmtree(folder(run, "TEST04"))
    (run / "raw" / "TEST04" / "outcome.json").unlink()
    lines = [check.line() for name, check in found(run).items() if name.startswith("test04")]
    assert lines == ["[FAIL] TEST04 run: it was not finished"]


@pytest.mark.parametrize(
    ("division", "outcome"),
    [("open", Verdict.NA), ("closed", Verdict.FAIL), ("network", Verdict.FAIL)],
)
def test_a_test_that_is_not_there_fails_where_it_is_asked_for(run, division, outcome):
    base = runs.base(run)
    mapped = base / "results" / runs.SYSTEM / "bert-99"
    (base / "results" / runs.SYSTEM / "bert-tiny").rename(mapped)
    shutil.rmtree(mapped / "SingleStream" / "TEST01")
    shutil.rmtree(run / "raw" / "TEST01")
    (run / "open").rename(run / division)
    check = found(run)["test01"]
    assert check.verdict is outcome
    assert ("open division does not require it" in check.detail) == (division == "open")


def test_a_bare_submission_is_judged_by_the_logs_it_holds(complied, tmp_path):
    shutil.copytree(complied("SingleStream") / "open", tmp_path / "submission" / "open")
    checks = found(tmp_path / "submission")
    assert not failing(tmp_path / "submission")
    assert checks["test01-settings"].verdict is checks["test04-performance"].verdict is Verdict.PASS
    # 256 answers make a log that is truncated.
    assert checks["test01-answers"].verdict is Verdict.MANUAL


def test_of_a_test_too_long_to_choose_again_only_what_is_implausible_fails(complied, monkeypatch):
    monkeypatch.setattr(audited_answers, "MOST_SAMPLES", 10)
    assert found(complied("SingleStream"))["test01-samples"].verdict is Verdict.PASS
    monkeypatch.setattr(sampling, "selection_rate", lambda *_: (10**8, 0.5))
    assert found(complied("SingleStream"))["test01-samples"].verdict is Verdict.FAIL
