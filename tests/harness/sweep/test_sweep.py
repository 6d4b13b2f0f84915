"""A sweep of the mock, from the command line: rows of every kind, exit codes, interruptions, and
what is measured again.
"""

import re

import jsonschema

from formats import schemas
from formats.writing import write_json
from harness import cli, locks
from harness.execution import loadgen_run
from harness.sweep import journal, loop
from tests.conftest import CACHE
from tests.support.files import read_json, update_json
from tests.support.reports import groups

FAST = ["--duration", "0.2", "--cache", str(CACHE)]
MOCK = ["--sut", "mock", "--scenario", "Offline", "--model", "bert", *FAST]


def write(path, *suts_options, extra=""):
    cells = "".join(f'[[cells]]\nsut-option = ["{option}"]\n' for option in suts_options)
    path.write_text(
        '[defaults]\nsut = "mock"\nmodel = "bert"\nscenario = "Offline"\nbatch-size = 2\nduration'
        f" = 0.2\n{cells}{extra}"
    )
    return path


def test_failed_invalid_and_unsupported_cells_are_rows_and_the_sweep_goes_on(sweep, tmp_path):
    unsupported = '[[cells]]\nprecision = "bfloat16"\n[[missing]]\nwhat = "sam"\nwhy = "not yet"\n'
    recipe = write(
        tmp_path / "mine.toml", "raise-at=30", "wrong=swap-rows", "latency-ms=1", extra=unsupported
    )
    code, document, said = sweep(recipe, "--cache", CACHE, "--repeats", 2, "--json")
    assert code == 1
    found = [(c["status"], c["sweep"]["series"], c["sweep"]["repeat"]) for c in document["cells"]]
    errors = [("error", 0, 1), ("error", 1, 1)]  # its control too
    good = [(status, n, repeat) for n, status in ((2, "invalid"), (3, "ok")) for repeat in (1, 2)]
    assert found == errors + good
    (refused,) = document["refused"]
    assert "mock computes in float32" in refused["reason"]
    assert "not in this harness: sam: not yet" in said
    jsonschema.validate(document, schemas.named("result"))


def test_unsupported_cells_alone_cost_no_exit_code(sweep, tmp_path):
    recipe = write(
        tmp_path / "mine.toml", "latency-ms=1", extra='[[cells]]\nprecision = "bfloat16"\n'
    )
    assert sweep(recipe, "--cache", CACHE, "--repeats", 1)[0] == 0


def test_fail_fast_ends_at_the_first_failure_and_failed_cells_are_tried_again_last(
    sweep, tmp_path, tests_run
):
    recipe = write(tmp_path / "mine.toml", "raise-at=30", extra="[[cells]]\nbatch-size = 4\n")
    code, document, _ = sweep(recipe, "--cache", CACHE, "--repeats", 1, "--fail-fast", "--json")
    assert (code, [c["status"] for c in document["cells"]]) == (1, ["error"])
    _, document, _ = sweep(recipe, "--cache", CACHE, "--repeats", 1, "--json")
    assert [c["status"] for c in document["cells"]] == ["error", "ok"]
    assert tests_run == ["performance"] + ["performance", "accuracy"] + ["performance"]
    assert len(list(sweep.out.rglob("quick-*"))) == 2  # in its old place


def test_a_cell_that_was_skipped_for_want_of_space_is_tried_again(sweep):
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    skipped = {"status": "skipped", "reason": "free some space", "metric": None}
    update_json(next(sweep.out.rglob("result.json")), **skipped)
    code, document, _ = sweep(*MOCK, "--repeats", 1, "--json")
    assert (code, [c["status"] for c in document["cells"]]) == (0, ["ok"])


def test_a_finished_sweep_measures_nothing_and_more_repeats_are_added_to_it(sweep, tests_run):
    assert sweep(*MOCK, "--repeats", 2)[0] == 0
    assert len(tests_run) == 8  # the cell and its control, twice
    _, document, said = sweep(*MOCK, "--repeats", 2, "--json")
    assert (len(tests_run), len(document["cells"])) == (8, 4)
    assert "4 measurements, 4 done" in said
    sweep(*MOCK, "--repeats", 3)
    assert len(tests_run) == 12
    _, plan, _ = sweep(*MOCK, "--repeats", 2, "--again", "--dry-run", "--json")
    assert (plan["measurements"], plan["finished"], plan["folder"][-2:]) == (4, 0, "-2")


def test_the_same_cell_measured_outside_of_the_sweep_does_not_count(sweep, tests_run):
    assert cli.main([*MOCK, "--out", str(sweep.out)]) == 0
    code, _, said = sweep(*MOCK, "--repeats", 1)
    assert code == 0 and "1 cell: 1 measurement, none done yet" in said
    assert len(tests_run) == 4
    results = sorted(sweep.out.rglob("result.json"))
    marks = [read_json(path)["sweep"] for path in results]
    told = [mark and (mark["series"], mark["repeat"], mark["control"]) for mark in marks]
    assert told == [None, (0, 1, False)]
    assert all(read_json(path.parent / "record.json")["sweep"] in marks for path in results)


def test_an_interrupted_sweep_says_so_and_goes_on_with_the_test_that_was_finished(
    sweep, tests_run, monkeypatch
):
    original = loadgen_run.run

    def interrupt(job, *rest):
        if job.test == "accuracy":
            raise KeyboardInterrupt
        return original(job, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loadgen_run, "run", interrupt)
        code, _, said = sweep(*MOCK, "--repeats", 1)
    assert (code, "the same command continues from there" in said) == (130, True)
    # Somebody else's run does not take the sweep's attempt over.
    cli.main([*MOCK, "--out", str(sweep.out)])
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    assert tests_run == ["performance"] + ["performance", "accuracy"] + ["accuracy"]


def test_progress_names_cell_repeat_and_what_is_left(sweep):
    _, _, said = sweep(*MOCK, "--repeats", 2)
    lines = said.splitlines()
    first = r"\[1/4\] mock bert tiny Offline float32 batch 4( \(control run\))?, repeat 1; about "
    assert any(re.match(first, line) for line in lines)
    assert any(line.startswith("    ok: ") for line in lines)
    assert "by its size and how fast this machine multiplies" in said
    _, plan, _ = sweep(*MOCK, "--repeats", 3, "--dry-run", "--json")
    assert "by 4 earlier runs of this cell" in plan["basis"]
    assert sweep(*MOCK, "--repeats", 2, "--quiet")[2] == ""


def test_a_disturbed_repeat_is_measured_again_at_once_up_to_a_limit_that_is_told(
    sweep, monkeypatch, tests_run
):
    monkeypatch.setattr(loop, "AGAIN_A_REPEAT", 2)
    monkeypatch.setattr(loop, "disturbed", lambda result: "the worker stood still")
    code, document, said = sweep(*MOCK, "--repeats", 2, "--json")
    assert (code, tests_run.count("performance")) == (0, 6)  # 4 repeats, and twice again in all
    assert "at most twice, and at most 2 times in the whole sweep" in said
    assert said.count("disturbed, so it is measured again") == 2
    assert said.count("; disturbed: the worker stood still") == 6
    assert len(document["cells"]) == 4
    (group,) = groups(sweep.out)
    assert len(group.good) == 2  # the last of each repeat counts


def test_what_another_machine_measured_is_measured_again_here(sweep, tests_run):
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    (path,) = sweep.out.rglob("record.json")
    record = read_json(path)
    write_json(path, {**record, "machine": {**record["machine"], "cpu_family": "of another"}})
    _, document, _ = sweep(*MOCK, "--repeats", 1, "--json")
    assert tests_run.count("performance") == 2 and len(document["cells"]) == 1


def test_a_sweep_whose_folder_was_moved_knows_its_machine(sweep, tmp_path):
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    sweep.out.rename(tmp_path / "moved")
    code, document, _ = sweep(*MOCK, "--repeats", 1, "--json", "--out", str(tmp_path / "moved"))
    assert code == 0 and "unknown machine" not in document["preface"]


def test_the_seed_of_the_order_is_recorded(sweep):
    _, plan, _ = sweep(*MOCK, "--repeats", 1, "--dry-run", "--json")
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    (path,) = sweep.out.glob("sweeps/*/sweep.json")
    assert read_json(path)["seed"] == plan["seed"] == journal.seed(path.parent)


def test_two_commands_do_not_measure_one_sweep_at_a_time(sweep):
    assert sweep(*MOCK, "--repeats", 1)[0] == 0
    folder = next(path for path in sweep.out.glob("sweeps/*") if path.is_dir())
    with locks.held(folder / ".lock"):
        code, _, said = sweep(*MOCK, "--repeats", 1)
    assert (code, "another process measures the sweep" in said) == (3, True)


def test_a_dry_run_of_a_sweep_makes_nothing(sweep):
    code, document, _ = sweep(*MOCK, "--dry-run", "--json")
    assert (code, document["measurements"], document["finished"]) == (0, 6, 0)
    assert document["seconds"] > 0 and document["disk_bytes"] > 0 and document["memory_bytes"] > 0
    assert not sweep.out.exists()


def test_other_prompts_are_another_sweep(sweep, tmp_path, tests_run):
    prompts = tmp_path / "prompts.txt"
    for text in ("one\n\ntwo", "one\n\nthree"):
        prompts.write_text(text)
        assert sweep(*MOCK, "--dataset", prompts, "--repeats", 1)[0] == 0
    assert tests_run.count("performance") == 2
