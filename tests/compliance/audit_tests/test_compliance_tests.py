"""The compliance tests' checks: real logs of a good run, and each single thing changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compliance import audit, logs, rules
from compliance import subject as tree
from compliance.audit_tests import answers as audited_answers
from compliance.audit_tests import compliance_tests
from compliance.folders import result_folders
from compliance.loadgen import sampling
from formats.checks import Check, Verdict
from tests.support import mutations
from tests.support import tree as runs
from tests.support.mutations import Mutation
from tests.support.rounds import loosened

KINDS = ("SingleStream", "tokens")
LOOSE = loosened()
DETAIL, ANSWERS = "mlperf_log_detail.txt", "mlperf_log_accuracy.json"


@pytest.fixture(scope="module")
def complied(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A good run with its compliance tests, measured again if a busy machine made one of its tests
    slower than the others.
    """
    folder = tmp_path_factory.mktemp("complied")
    made = dict[str, Path]()

    def get(kind: str) -> Path:
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
def run(complied: Callable[[str], Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(
        shutil.copytree(complied(getattr(request, "param", "SingleStream")), tmp_path / "quick-1")
    )


def found(run: Path, of: rules.Rules = LOOSE) -> dict[str, Check]:
    (place,) = result_folders(run, of)
    return {check.key: check for check in compliance_tests.checks(tree.read(place, of))}


def failing(run: Path) -> set[str]:
    return {name for name, check in found(run).items() if check.verdict is Verdict.FAIL}


def folder(run: Path, test: str) -> Path:
    return runs.scenario_folder(run) / test


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_run_fails_nothing_and_says_what_does_not_apply(
    complied: Callable[[str], Path], kind: str
) -> None:
    checks = found(complied(kind))
    assert [c.line() for c in checks.values() if c.verdict is Verdict.FAIL] == []
    passed = {name for name, check in checks.items() if check.verdict is Verdict.PASS}
    assert passed >= {
        "test01-answers",
        "test01-samples",
        "test01-performance",
        "test04-performance",
        "test04-settings",
        "test01-hash",
    }
    na = {name for name, check in checks.items() if check.verdict is Verdict.NA}
    if kind == "SingleStream":
        assert na >= {"test06", "output-length"}
    else:
        assert na >= {"test06-first-token", "test06-token-count", "test06-eos"} and passed >= {
            "test06-samples",
            "output-length",
        }
    assert {check.level for check in checks.values()} == {"submission"}


def logged(test: str, **values: Any) -> Callable[[Path], Any]:
    return lambda run: runs.detail(run, test, **values)


def answers(test: str, how: Callable[[list[str]], list[str]]) -> Callable[[Path], Any]:
    """A forger who changes the raw log and makes everything that follows from it again."""

    def do(run: Path) -> None:
        path = run / "raw" / test / ANSWERS
        rows = path.read_text().splitlines()
        changed = how(rows)
        assert changed != rows
        path.write_text("\n".join(changed) + "\n")
        runs.resubmit_compliance(run, LOOSE)

    return do


def other_bytes(position: int, row: int = 1) -> Callable[[list[str]], list[str]]:
    """One hexadecimal digit of a row's answer, from its end: -1 is the highest byte of a
    little-endian number.
    """

    def how(rows: list[str]) -> list[str]:
        start, data, end = (
            rows[row].rpartition('"data" : "')[0],
            *rows[row].rpartition('"data" : "')[2].split('"', 1),
        )
        at = position % len(data)
        other = "1" if data[at] != "1" else "2"
        return [
            *rows[:row],
            f'{start}"data" : "{data[:at]}{other}{data[at + 1 :]}"{end}',
            *rows[row + 1 :],
        ]

    return how


def record(**values: Any) -> Callable[[Path], Any]:
    return mutations.record(lambda d: {**d, **values})


def edited(test: str, name: str, old: str, new: str) -> Callable[[Path], Any]:
    """In raw/ and, where it is submitted, in the tree."""

    def do(run: Path) -> None:
        for path in runs.both(run, test, name):
            if path.is_relative_to(run / "raw") or path.exists():
                before = path.read_text()
                assert old in before
                path.write_text(before.replace(old, new, 1))

    return do


def submitted(name: str, content: str | None) -> Callable[[Path], Any]:
    """Of a file in the tree alone; None: gone."""

    def do(run: Path) -> None:
        path = runs.scenario_folder(run) / name
        path.unlink() if content is None else path.write_text(content)

    return do


def of_outcome(test: str, **values: Any) -> Callable[[Path], Any]:
    return mutations.outcome(test, **values)


def two_ends(rows: list[str]) -> list[str]:
    start, data = (
        rows[1].rpartition('"data" : "')[0],
        rows[1].rpartition('"data" : "')[2].split('"')[0],
    )
    return [rows[0], f'{start}"data" : "{data[:-16]}0200000002000000" }},', *rows[2:]]


def half(rows: list[str]) -> list[str]:
    cut = []
    for row in rows:
        start, found, rest = row.rpartition('"data" : "')
        data, _, end = rest.partition('"')
        cut.append(f'{start}{found}{data[: len(data) // 2]}"{end}' if found else row)
    return cut


def latencies_of_the_performance_run(run: Path) -> None:
    keys = [f"result_{key}_latency_ns" for key in ("min", "mean", "max")]
    values = logs.read_detail(runs.both(run, "performance", DETAIL)[0]).values
    runs.detail(run, "TEST04", **{key: values[key] for key in keys})


TESTS_MUTATED = {
    ("test01-answers", "SingleStream"): {
        "another answer": answers("TEST01", other_bytes(-1)),
        "no answers": answers("TEST01", lambda rows: ["[", "]"]),
        "verify_accuracy.txt says other": submitted("TEST01/verify_accuracy.txt", "TEST FAIL\n"),
        "verify_accuracy.txt says it otherwise": submitted(
            "TEST01/verify_accuracy.txt", "TEST PASSED not at all\n"
        ),
        "verify_accuracy.txt says both": submitted(
            "TEST01/verify_accuracy.txt", "TEST PASS\nTEST FAIL\n"
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
        "another submitted log of answers": submitted(f"TEST01/accuracy/{ANSWERS}", "[\n]\n"),
        "another hash": submitted("TEST01/accuracy/accuracy.txt", f"{{}}\nhash={'0' * 64}\n"),
    },
    ("test04-loadgen", "SingleStream"): {
        "the latencies are the performance run's": latencies_of_the_performance_run,
        "another library": logged("TEST04", qsl_reported_total_count=7),
    },
    ("test01-performance", "SingleStream"): {
        "verify_performance.txt says other": submitted(
            "TEST01/verify_performance.txt", "TEST FAIL\n"
        ),
        "slower while sampled": logged("TEST01", early_stopping_latency_ss=lambda v: v * 9),
        "no score": logged(
            "TEST01", early_stopping_latency_ss=None, result_90__00_percentile_latency_ns=None
        ),
    },
    ("test04-files", "SingleStream"): {
        "verify_performance.txt gone": submitted("TEST04/verify_performance.txt", None),
    },
    ("test01-files", "SingleStream"): {
        "a stranger among the files": submitted("TEST01/notes.txt", "x"),
    },
    ("test01-settings", "SingleStream"): {
        "another sampling target": logged("TEST01", effective_accuracy_log_sampling_target=64),
        "another sampling seed": logged("TEST01", requested_accuracy_log_rng_seed=1),
        "another seed": logged("TEST01", effective_sample_index_rng_seed=1),
        "an accuracy run": logged("TEST01", effective_test_mode="AccuracyOnly"),
        "no audit.config found": edited("TEST01", DETAIL, "Found Audit Config", "Found nothing"),
    },
    ("test04-settings", "SingleStream"): {
        "a shorter test": logged("TEST04", requested_min_duration_ms=1),
        "another index again and again": logged("TEST04", effective_performance_issue_same_index=0),
        "many samples after all": logged("TEST04", effective_performance_issue_same=False),
    },
    ("test06-settings", "tokens"): {
        "more queries than asked for": logged("TEST06", effective_samples_per_query=101),
        "equal issue left on": logged("TEST06", effective_sample_concatenate_permutation=True),
    },
    ("test01-loadgen", "SingleStream"): {
        "another LoadGen": logged("TEST01", loadgen_version="6.0.16 @ 2b5f63eb56"),
        "an earlier date": logged(
            "TEST01", power_begin="01-01-2026 00:00:00.000", power_end="01-01-2026 00:00:09.000"
        ),
    },
    ("test04-log", "SingleStream"): {
        "an error": logged("TEST04", num_errors=1),
        "a summary that contradicts": edited(
            "TEST04", "mlperf_log_summary.txt", "Result is : VALID", "Result is : INVALID"
        ),
    },
    ("test04-performance", "SingleStream"): {
        "one sample is faster": logged("TEST04", early_stopping_latency_ss=lambda v: v // 9),
    },
    ("test01-run", "SingleStream"): {
        "another user.conf": edited("TEST01", "user.conf", "min_duration", "max_duration"),
        "another audit.config": edited("TEST01", "audit.config", "mode = 2", "mode = 0"),
        "another precision seen": of_outcome(
            "TEST01", evidence_after=mutations.seen(0, "bfloat16")
        ),
        "a worker that died": of_outcome("TEST01", status="oom", reason="no memory"),
    },
    ("test04-run", "SingleStream"): {
        "evidence that is none": of_outcome("TEST04", evidence_after=["none"]),
    },
}


def _moved(row: str) -> str:
    head, index, tail = row.partition('"qsl_idx" : ')
    number, comma, rest = tail.partition(",")
    return f"{head}{index}{(int(number) + 1) % 256}{comma}{rest}"


@pytest.mark.parametrize("mutation", list(mutations.mutations(TESTS_MUTATED)), ids=lambda m: m.name)
def test_a_single_change_fails_its_check(
    complied: Callable[[str], Path], tmp_path: Path, mutation: Mutation
) -> None:
    run = Path(shutil.copytree(complied(mutation.kind), tmp_path / "quick-1"))
    mutation.do(run)
    assert mutation.check in failing(run)


def test_a_submitted_log_of_a_test_is_the_raw_one(run: Path) -> None:
    submitted(f"TEST01/performance/run_1/{DETAIL}", ":::MLLOG {}\n")(run)
    (check,) = [check for check in audit.audit(run).checks if check.id == "raw-logs"]
    assert check.verdict is Verdict.FAIL and "differs from raw/TEST01/" in check.detail


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_a_submitted_log_of_answers_that_is_never_truncated_is_the_raw_one(run: Path) -> None:
    submitted(f"TEST06/accuracy/{ANSWERS}", "[\n]\n")(run)
    (check,) = [check for check in audit.audit(run).checks if check.id == "raw-logs"]
    assert check.verdict is Verdict.FAIL
    assert check.detail.endswith(f"{ANSWERS} differs from raw/TEST06/{ANSWERS}")


@pytest.mark.parametrize("run", ["tokens"], indirect=True)
def test_two_end_tokens_fail_where_the_tokenizer_says_which_they_are(run: Path) -> None:
    answers("TEST06", two_ends)(run)
    assert found(run)["test06-eos"].verdict is Verdict.NA
    record(end_tokens=[2])(run)
    runs.resubmit_compliance(run, LOOSE)
    assert found(run)["test06-eos"].verdict is Verdict.FAIL
    assert (
        "TEST06 verification failed" in (folder(run, "TEST06") / "verify_accuracy.txt").read_text()
    )
    record(end_tokens=[5])(run)
    runs.resubmit_compliance(run, LOOSE)
    assert found(run)["test06-eos"].verdict is Verdict.PASS


def test_answers_that_differ_within_the_models_tolerance_pass_and_say_so(run: Path) -> None:
    answers("TEST01", other_bytes(0))(run)  # the lowest bits of a float32
    check = found(run)["test01-answers"]
    assert (
        check.verdict is Verdict.PASS
        and "are not the accuracy run's bytes" in check.detail
        and "within the tolerance" in check.detail
    )
    assert "TEST FAIL" in (folder(run, "TEST01") / "verify_accuracy.txt").read_text()
    for name in ("baseline_accuracy.txt", "compliance_accuracy.txt"):
        assert json.loads((folder(run, "TEST01") / "accuracy" / name).read_text())["passed"]


def test_answers_that_differ_without_a_reference_are_left_to_a_person(run: Path) -> None:
    judged = runs.read_json(run / "record.json")
    record(
        accuracy={**judged["accuracy"], "reason": "too large here"},
        digests={**judged["digests"], "reference": ""},
    )(run)
    (run / "reference.npz").unlink()
    answers("TEST01", other_bytes(0))(run)
    check = found(run)["test01-answers"]
    assert check.verdict is Verdict.MANUAL and "too large here" in check.detail


def test_a_test_that_is_not_valid_counts_where_the_run_is_to_be(run: Path) -> None:
    logged("TEST04", result_validity="INVALID")(run)
    assert found(run)["test04-verdict"].verdict is Verdict.NA
    record(mode="valid")(run)
    assert found(run)["test04-verdict"].verdict is Verdict.FAIL
    assert found(run)["test01-verdict"].verdict is Verdict.PASS


def test_a_test_that_was_broken_off_is_told_as_that(run: Path) -> None:
    shutil.rmtree(folder(run, "TEST04"))
    (run / "raw" / "TEST04" / "outcome.json").unlink()
    assert [c.line() for n, c in found(run).items() if n.startswith("test04")] == [
        "[FAIL] TEST04 run: it was not finished"
    ]


@pytest.mark.parametrize(
    ("division", "outcome"),
    [("open", Verdict.NA), ("closed", Verdict.FAIL), ("network", Verdict.FAIL)],
)
def test_a_test_that_is_not_there_fails_where_it_is_asked_for(
    run: Path, division: str, outcome: Verdict
) -> None:
    base = runs.base(run)
    mapped = base / "results" / runs.SYSTEM / "bert-99"
    (base / "results" / runs.SYSTEM / "bert-tiny").rename(mapped)
    shutil.rmtree(mapped / "SingleStream" / "TEST01")
    shutil.rmtree(run / "raw" / "TEST01")
    (run / "open").rename(run / division)
    (place,) = result_folders(run, LOOSE)
    checks = {c.key: c for c in compliance_tests.checks(tree.read(place, LOOSE))}
    assert checks["test01"].verdict is outcome
    assert ("open division does not require it" in checks["test01"].detail) == (division == "open")


def test_a_bare_submission_is_judged_by_the_logs_it_holds(
    complied: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(complied("SingleStream") / "open", tmp_path / "submission" / "open")
    checks = found(tmp_path / "submission")
    assert not [c.line() for c in checks.values() if c.verdict is Verdict.FAIL]
    assert checks["test01-settings"].verdict is checks["test04-performance"].verdict is Verdict.PASS
    # 256 answers make a log that is truncated.
    assert checks["test01-answers"].verdict is Verdict.MANUAL


def test_of_a_test_too_long_to_choose_again_only_what_is_implausible_fails(
    complied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audited_answers, "MOST_SAMPLES", 10)
    assert found(complied("SingleStream"))["test01-samples"].verdict is Verdict.PASS
    monkeypatch.setattr(sampling, "selection_rate", lambda *_: (10**8, 0.5))
    assert found(complied("SingleStream"))["test01-samples"].verdict is Verdict.FAIL
