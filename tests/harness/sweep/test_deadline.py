"""A sweep with --for: its order, its end, what is cut off, and its table."""

import os
import signal
import subprocess
import sys
import time

import pytest

from formats.result import Status
from harness.execution.environments import ROOT
from harness.sweep import deadline, loop, recipe
from tests.conftest import CACHE

FLAGS = ["--cache", CACHE, "--repeats", 1, "--for", "60s"]
GOOD, SLOW = 'sut-option = ["latency-ms=1"]', 'sut-option = ["latency-ms=20000"]'


@pytest.fixture
def write(tmp_path):
    """Lines of cells → a recipe of them."""

    def make(*lines):
        path = tmp_path / "mine.toml"
        defaults = 'sut = "mock"\nmodel = "bert"\nscenario = "Offline"\nduration = 0.2\n'
        cells = "".join(f"[[cells]]\n{line}\n" for line in lines)
        path.write_text(f"[defaults]\n{defaults}{cells}")
        return path

    return make


def test_a_cell_that_takes_too_long_is_cut_off_and_others_go_on(sweep, write, monkeypatch):
    monkeypatch.setattr(loop, "LONGEST_CELL", 0.1)
    not_measured = loop.run.not_measured

    def allow_the_next(*arguments):
        monkeypatch.setattr(loop, "LONGEST_CELL", 1.0)  # a busy machine may take long for it
        return not_measured(*arguments)

    monkeypatch.setattr(loop.run, "not_measured", allow_the_next)
    code, document, _ = sweep(write(SLOW, "batch-size = 2"), *FLAGS, "--json")
    assert code == 1
    assert [c["status"] for c in document["cells"]] == ["skipped", "ok"]
    reason = "cut off after 6 s; the same command continues with this cell"
    assert document["cells"][0]["reason"] == reason


def test_a_cell_that_was_cut_off_goes_first_and_after_two_times_last(sweep, write, monkeypatch):
    measured = []

    def cut(request, *_):
        measured.append(request.batch_size)
        raise deadline.TimeUp(20, measuring=True)

    monkeypatch.setattr(loop.run, "run", cut)

    for _ in range(3):
        sweep(write("batch-size = 4", "batch-size = 2"), *FLAGS)
    assert measured == [4, 2] * 2 + [4, 2]  # both were cut off equally often
    (folder,) = (path for path in sweep.out.glob("sweeps/*"))
    (folder / "cut-off.txt").write_text("0\n0\n1\n")
    measured.clear()
    sweep(write("batch-size = 4", "batch-size = 2"), *FLAGS)
    assert measured == [2, 4]


@pytest.mark.parametrize("measures", [True, False])
def test_what_is_prepared_takes_no_time_of_a_cell(sweep, write, monkeypatch, measures):
    """The reference is made first, so it is not begun again under each SUT."""
    monkeypatch.setattr(loop, "LONGEST_CELL", 0.01)  # 0.3 s of the 30 s

    def measured(request, reporter, started_ns, while_measuring, zygotes):
        time.sleep(0.5 * (not measures))
        with while_measuring:
            time.sleep(0.5 * measures)
        return loop.run.not_measured(request, Status.OK, "")

    monkeypatch.setattr(loop.run, "run", measured)
    _, document, _ = sweep(write("batch-size = 4"), *FLAGS[:-1], "30s", "--json")
    (cell,) = document["cells"]
    assert (cell["status"], [*cell["refused"]]) == (
        ("skipped", ["cut off"]) if measures else ("ok", [])
    )


def test_a_sweep_whose_time_ends_before_all_is_prepared_says_so(sweep, write, monkeypatch):
    def cut(*_):
        raise deadline.TimeUp(30, measuring=False)

    monkeypatch.setattr(loop.run, "run", cut)
    _, document, _ = sweep(write("batch-size = 4"), *FLAGS, "--json")
    (cell,) = document["cells"]
    assert [*cell["refused"]] == ["not prepared"]
    assert "the same command continues" in cell["reason"]
    assert not list(sweep.out.glob("sweeps/*/cut-off.txt"))  # it is not the cell that is slow


def test_when_the_time_is_up_the_cells_that_are_left_are_listed(sweep, write, monkeypatch):
    monkeypatch.setattr(deadline, "_LAST", 1)
    code, document, said = sweep(write(GOOD), *FLAGS, "--json")
    assert (code, document["cells"]) == (0, [])
    assert "the time is up; the same command continues" in said


def test_killed_at_any_moment_the_sweep_goes_on(tmp_path, write):
    path = write(GOOD, SLOW.replace("20000", "50"))
    words = [ROOT / "run.sh", "sweep", path, *FLAGS, "--out", tmp_path]
    command = [str(word) for word in words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(tmp_path.rglob("result.json")):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)  # within the second cell
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (first,) = tmp_path.rglob("result.json")
    before = first.read_bytes()
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(tmp_path.rglob("result.json"))) == 2
    assert first.read_bytes() == before  # it was not measured again


@pytest.mark.parametrize("time_", ["30", "0s", "-1s", "1 h", "nan", "1d"])
def test_a_time_that_is_none_is_refused(sweep, write, time_):
    code, _, said = sweep(write(GOOD), f"--for={time_}")
    assert (code, f"--for {time_}: a time such as 90s, 30min or 2h" in said) == (2, True)


def test_suts_that_an_interpreter_lacks_are_unsupported(sweep, write):
    recipe_ = write('sut = "native-torch-eager"')
    code, document, _ = sweep(recipe_, *FLAGS, "--python", sys.executable, "--json")
    assert (code, document["cells"]) == (0, [])
    (refused,) = document["refused"]
    assert " lacks torch" in refused["reason"]
    assert sweep(recipe_, *FLAGS, "--python", "no-such-python")[0] == 3


def test_a_block_with_a_limit_ends_in_time():
    whole = deadline.Deadline(1.0, time.monotonic() + 1.0)
    with pytest.raises(deadline.TimeUp, match="cut off after 0 s") as cut:
        with whole.limit(), whole.limit(0.2):
            time.sleep(5)
    assert cut.value.measuring
    with deadline.Deadline(1.0, time.monotonic() + 0.1).limit():
        pass
    time.sleep(0.2)  # the limit is over with its block


def test_the_accelerators_list_begins_with_every_sut_and_goes_on_with_full_models():
    first, second, *_ = grids = recipe.read("accelerator").grids
    assert (first["sut"], first["size"], second["size"]) == (["all"], ["tiny"], ["full"])
    suts = {sut for each in grids for sut in each["sut"] if each["size"] == ["full"]}
    others = {"native-jax", "native-torch-compile", "native-torch-eager"}
    assert suts == {"keras3-jax", "keras3-torch"} | others
    precisions = {precision for each in grids for precision in each["precision"]}
    assert precisions == {"float32", "tf32", "bfloat16"}
