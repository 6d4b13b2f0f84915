"""The first look at an accelerator: cells in a time box, a summary after each, gone on with however it ended. On the mock."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from benchmarks import accelerator, accelerator_page
from formats.result import Result, Status
from harness.execution.environments import ROOT
from harness.inputs import models
from harness.sweep import recipe
from tests.support.synthetic_runs import cell

# The program, with cells of the mock in place of the recipe's, and without torch.
_PROGRAM = """
import json, sys
from benchmarks import accelerator
from harness.sweep.recipe import Recipe
grids = tuple(json.loads(sys.argv.pop(1)))
accelerator.recipe.read = lambda name: Recipe(name=name, grids=grids, missing={})
accelerator._bytes_per_second = lambda flags: 1e9
sys.exit(accelerator.main())
"""


def grid(model, latency_ms=1.0, **more):
    cell = {"sut": ["mock"], "model": [model], "scenario": ["Offline"], "size": ["tiny"], "duration": ["0.3"]}
    return {**cell, "sut_option": [f"latency-ms={latency_ms}"], **more}


def start(out, grids, *flags):
    words = [
        json.dumps(grids),
        "--minutes",
        "1",
        "--device",
        "cpu",
        "--least",
        "0",
        "--out",
        str(out),
        "--cache",
        str(out / "cache"),
        *flags,
    ]
    return subprocess.Popen([sys.executable, "-c", _PROGRAM, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)


def measure(out, grids, *flags):
    process = start(out, grids, *flags)
    _, chatter = process.communicate(timeout=180)
    assert process.returncode == 0, chatter
    return json.loads((out / "accelerator.json").read_text())["cells"], (out / "accelerator.md").read_text()


def test_each_cell_has_a_row_and_each_failure_its_reason(tmp_path):
    cells, page = measure(tmp_path, [grid("mistral"), grid("bert", precision=["bfloat16"])])
    good, bad = cells.values()
    assert good["status"] == "ok"
    steps = good["metrics"]["tokens_per_second"] / 4  # a second, of batches of 4
    read = 251_200 - 1_000 * 64  # parameters, without the input's embedding
    assert good["bandwidth_share"] == pytest.approx(steps * 4 * read / 1e9)  # float32 at 1 GB/s
    assert (bad["status"], "mock computes in float32" in bad["reason"]) == ("unsupported", True)
    assert "1 of 1 cells ok, 1 cannot run here, 0 not measured yet" in page
    assert f": {bad['reason']}\n" in page.partition("## Cannot run here")[2]


def test_the_share_of_a_large_product_has_a_column():
    metrics = {"samples_per_second": 1.0, "flops_per_second": 5e12, "matrix_share": 0.125}
    of = cell("native-torch-eager")
    entry = accelerator._figures(Result(cell=of, mode="quick", round="v6.1", directory="", status=Status.OK, metrics=metrics), 8e11)
    assert list(accelerator_page.columns(entry))[5:7] == ["12.5%", ""]


def share_of_bandwidth(model, size, **changes):
    """Of 100 steps a second in bfloat16, on a device that copies 1 TB/s."""
    of = cell("native-torch-eager", model=model, size=size, task="generate", precision="bfloat16", batch_size=4, **changes)
    metrics = {"samples_per_second": 1.0, "tokens_per_second": 400.0}
    result = Result(cell=of, mode="quick", round="v6.1", directory="", status=Status.OK, metrics=metrics)
    return accelerator.bandwidth_share(result, 1e12)


def test_an_embedding_counts_as_bandwidth_only_if_it_is_the_head_too():
    llama, gemma = (models.load(name).sizes["full"] for name in ("llama", "gemma"))
    assert share_of_bandwidth("llama", "full") == pytest.approx(100 * 2 * (llama.parameters - 128_256 * 4_096) / 1e12)
    assert share_of_bandwidth("gemma", "full") == pytest.approx(100 * 2 * gemma.parameters / 1e12)


@pytest.mark.parametrize(("new_tokens", "given"), [(1, False), (7, False), (8, True), (None, True)])
def test_a_share_of_bandwidth_needs_eight_new_tokens(new_tokens, given):
    assert (share_of_bandwidth("mistral", "base", new_tokens=new_tokens) is not None) == given


def test_a_cell_that_takes_too_long_is_given_up(tmp_path):
    cells, page = measure(tmp_path, [grid("mistral", latency_ms=20_000)], "--box", "1")
    [entry] = cells.values()
    assert (entry["status"], entry["reason"]) == ("too slow", "not done within 2 s")  # the first one makes the reference too
    assert "0 of 1 cells ok, 0 cannot run here, 0 not measured yet" in page


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path):
    grids = [grid("mistral"), grid("bert", latency_ms=50)]
    process, summary = start(tmp_path, grids), tmp_path / "accelerator.json"
    end = time.monotonic() + 40
    while not summary.exists() or not json.loads(summary.read_text())["cells"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)  # within the second cell
    process.send_signal(signal.SIGKILL)
    process.communicate()
    [first] = json.loads(summary.read_text())["cells"].values()
    cells, _ = measure(tmp_path, grids)
    assert [*cells.values()][0] == first  # it was not measured again
    assert [entry["status"] for entry in cells.values()] == ["ok", "ok"]


def test_what_failed_or_keeps_being_cut_off_goes_last():
    series = [SimpleNamespace(command=command) for command in "abcdef"]
    cells = {"a": {"status": "error"}, "b": {"status": "ok"}, "f": {"status": "too slow"}}
    state = {"cells": cells, "cut": {"c": 2, "d": 1}}
    assert [one.command for one in accelerator._order(series, state)] == ["d", "e", "a", "c"]


def test_of_the_list_only_what_is_asked_for_is_measured(tmp_path):
    cells, page = measure(tmp_path, [grid("mistral"), grid("bert")], "--model", "bert", "--sut", "mock,keras3-jax")
    assert [("--model bert" in command, entry["status"]) for command, entry in cells.items()] == [(True, "ok")]
    assert "1 of 1 cells ok" in page


def test_when_the_time_is_up_the_rest_is_listed(tmp_path):
    cells, page = measure(tmp_path, [grid("mistral")], "--least", "100")
    assert cells == {}
    assert "## Not measured yet\n\n- mock mistral tiny" in page


def test_the_list_begins_with_every_sut_and_goes_on_with_full_models():
    first, second, *_ = grids = recipe.read("accelerator").grids
    assert (first["sut"], first["size"], second["size"]) == (["all"], ["tiny"], ["full"])
    assert {sut for each in grids for sut in each["sut"] if each["size"] == ["full"]} == {
        "keras3-jax", "keras3-torch", "native-jax", "native-torch-compile", "native-torch-eager"
    }  # fmt: skip
    assert {precision for each in grids for precision in each["precision"]} == {"float32", "tf32", "bfloat16"}
