"""Two folders of runs: which cells belong together, the verdict, and what forbids or weakens a
comparison.
"""

import json
import re

import jsonschema
import pytest

from formats.writing import write_json
from harness.comparison import compare
from harness.comparison.runs import find
from harness.execution.environments import ROOT
from tests.support.commands import call
from tests.support.files import read_json
from tests.support.reports import groups
from tests.support.synthetic_runs import NOISE, VERSIONS, cell, write

SCHEMA = read_json(ROOT / "compliance/schemas/report.json")
STEADY = [100, 101, 99, 100, 102]


def compared(tmp_path):
    return compare.compare(groups(tmp_path / "a"), groups(tmp_path / "b"), ("a", "b"))


@pytest.fixture
def command(tmp_path, capsys):
    """Flags → exit code, standard output in one line, and standard error."""

    def run(*flags):
        code, out, said = call(["compare", tmp_path / "a", tmp_path / "b", *flags], capsys)
        return code, " ".join(out.split()), said

    return run


FAIL = ("--fail-if-slower", "5%")


def of_machine(**facts):
    """The record of a run on another machine."""
    return {"record": {"machine": facts}}


def test_equal_cells_are_compared_and_what_else_differs_is_named(tmp_path):
    write(tmp_path / "a", cell(), STEADY)
    versions = {"environment": {"versions": {**VERSIONS, "jax": "0.11"}}}
    write(tmp_path / "b", cell(), [1.2 * x for x in STEADY], day=2, record=versions)
    (c,) = compared(tmp_path)
    assert c.comparable and c.ratio.value == pytest.approx(1.2)
    assert c.verdict.startswith("b is 1.20 × a (")
    assert c.flags[0] == "other version of jax: 0.10.2 / 0.11"
    assert "not measured in turns" in c.flags[1]


def test_latencies_are_compared_as_speeds(tmp_path):
    single = cell(scenario="SingleStream", batch_size=1)
    write(tmp_path / "a", single, [10, 10.1, 9.9])
    write(tmp_path / "b", single, [5, 5.1, 4.9], day=2)
    assert compared(tmp_path)[0].ratio.value == pytest.approx(2, rel=0.02)


def test_another_machine_is_flagged_first(tmp_path):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "b", cell(), STEADY, **of_machine(cpu="Another", kernel="Linux 7"))
    flags = compared(tmp_path)[0].flags
    assert flags[0] == "other machine: A processor, 2 threads, 8 GiB / Another, 2 threads, 8 GiB"
    assert "other kernel: Linux 6 / Linux 7" in flags


@pytest.mark.parametrize("change", [{"precision": "bfloat16"}, {"weights": "ffffffffffff"}])
def test_other_work_is_not_compared(tmp_path, change):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "b", cell(**change), STEADY)
    found = compared(tmp_path)
    verdicts = [(c.verdict, c.comparable) for c in found]
    assert verdicts == [("only in b", False), ("only in a", False)]


def test_suts_differ_only_where_each_side_has_one(tmp_path):
    write(tmp_path / "a", cell("native-torch-eager"), STEADY)
    write(tmp_path / "b", cell("keras3-jax"), [2 * x for x in STEADY])
    assert compared(tmp_path)[0].verdict.startswith("keras3-jax is 2.00 × native-torch-eager")
    write(tmp_path / "b", cell("keras3-torch"), STEADY)
    assert {c.verdict for c in compared(tmp_path)} == {"only in a", "only in b"}


def test_a_cell_without_a_figure_says_why(tmp_path):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "b", cell(), [None])
    assert compared(tmp_path)[0].verdict == "no figure in b: oom: the kernel killed the worker"


def test_sweeps_of_the_same_cells_in_two_folders_were_not_measured_in_turns(tmp_path):
    write(tmp_path / "a", cell(), STEADY, sweep="sweep-0123-1")
    write(tmp_path / "b", cell(), STEADY, sweep="sweep-0123-1", day=2)
    (c,) = compared(tmp_path)
    assert c.ratio.method == "Welch t" and "not measured in turns" in c.flags[-1]


def test_a_cell_that_is_gone_is_told_where_slower_ones_fail(tmp_path, command):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "a", cell("keras3-torch"), STEADY)
    write(tmp_path / "b", cell(), STEADY)
    code, _, said = command(*FAIL)
    lost = "keras3-torch, bert mid predict, Offline, float32, batch 32, cpu, 128 tokens: only in a"
    assert code == 4 and re.findall(r"nothing proven: (.*)\n", said) == [lost]
    assert command(*FAIL, "--allow-unproven")[0] == 0


@pytest.mark.parametrize(
    ("figures", "code"),
    [
        ([94, 95, 93, 94, 94], 1),
        ([96, 94, 95, 97, 93], 0),
        (STEADY, 0),
        ([80, 81], 4),
        ([20, 80, 150], 4),
        ([10, 25, 12], 1),
    ],
)
def test_a_cell_fails_only_where_the_whole_interval_is_slower(tmp_path, command, figures, code):
    write(tmp_path / "a", cell(), [100, 100.1, 99.9, 100, 100])
    write(tmp_path / "b", cell(), figures, day=2)
    found, _, said = command(*FAIL)
    assert found == code
    assert ("slower than 5%: keras3-jax, bert mid predict" in said) == (code == 1)
    assert ("nothing proven: keras3-jax, bert mid predict" in said) == (code == 4)


def test_no_build_fails_for_disturbed_repeats(tmp_path, command):
    write(tmp_path / "a", cell(), [100, 100.1, 99.9])
    write(tmp_path / "b", cell(), [50, 50.1, 49.9], day=2, disturbance=NOISE)
    code, out, said = command(*FAIL)
    assert code == 4 and "3 of 3 repeats were disturbed" in said
    assert "not ranked (b): 3 of 3 repeats were disturbed" in out


def test_the_newest_measurement_on_the_same_machine_is_compared_with(tmp_path):
    for family, figure, day in (("25", 100, 1), ("26", 51, 2)):
        write(
            tmp_path / "a",
            cell(),
            [figure, figure + 1, figure + 2],
            day=day,
            **of_machine(cpu_family=family),
        )
    write(tmp_path / "b", cell(), [71, 72, 73], day=3, **of_machine(cpu_family="25"))
    (c,) = compared(tmp_path)
    assert c.ratio.value == pytest.approx(0.71, rel=0.02)
    assert not any("other machine" in flag for flag in c.flags)


def test_no_build_fails_for_another_machine(tmp_path, command):
    write(tmp_path / "a", cell(), [100, 100.1, 99.9], **of_machine(cpu_family="25"))
    write(tmp_path / "b", cell(), [50, 50.1, 49.9], **of_machine(cpu_family="26"))
    code, out, said = command(*FAIL)
    assert code == 4 and "the two were measured on different machines" in said
    told = "! other machine: A processor family 25, 2 threads, 8 GiB / A processor family 26"
    assert told in out


def test_the_json_document_follows_its_schema(tmp_path, command):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "b", cell(), STEADY)
    write(tmp_path / "b", cell(batch_size=64), STEADY)
    code, out, _ = command("--json")
    assert code == 0
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert len(document["comparisons"]) == 2


@pytest.mark.parametrize("changes", [{"tuned": True}, {"quantized": "int8"}, {"replicas": "2"}])
def test_no_published_figure_is_of_switches_quantised_weights_or_replicas(changes):
    assert compare.published_for(cell(batch_size=256))
    assert compare.published_for(cell(batch_size=256, **changes)) == {}


def test_the_published_table_is_whole():
    table = compare.published()
    assert sum(map(len, table.values())) == 66
    models = {"sam", "stable-diffusion", "bert", "gemma", "mistral"}
    assert {model for model, _, _ in table} == models


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{a}", "nowhere"], "nowhere: there is no such directory"),
        (["{a}", "{empty}"], "has no finished run below it"),
        (["{a}", "{other}"], "the folders have no cell in common"),
        (
            ["{a}", "{a}", "--fail-if-slower", "fast"],
            "--fail-if-slower fast: a share such as 5% or 0.05",
        ),
        (["{a}", "{a}", "--allow-unproven"], "is for --fail-if-slower"),
        (["{a}", "published"], "has Keras' published ratio beside each of yours"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence_and_code_2(tmp_path, capsys, arguments, words):
    write(tmp_path / "a", cell(), STEADY)
    write(tmp_path / "other", cell("keras3-torch", model="gemma"), STEADY)
    (tmp_path / "empty").mkdir()
    places = {name: str(tmp_path / name) for name in ("a", "empty", "other")}
    code, _, said = call(["compare", *(word.format(**places) for word in arguments)], capsys)
    assert code == 2 and words in " ".join(said.split())


def test_a_second_run_says_what_it_is_beside_the_last(tmp_path):
    directories = write(tmp_path, cell(), [100, 110, 105])
    runs = find(tmp_path)[0]
    assert compare.beside_earlier(runs[0]) is None
    said = "1.1 × the speed of quick-1: no setting or version that is recorded differs"
    assert compare.beside_earlier(runs[1]) == said
    said = "; the 3 runs so far: 104.9 samples/s (93.21–118.1)"
    assert compare.beside_earlier(runs[2]).endswith(said)
    record = read_json(directories[2] / "record.json")
    record["environment"]["versions"]["jax"] = "0.11"
    write_json(directories[2] / "record.json", record)
    said = "0.955 × the speed of quick-2: other version of jax: 0.10.2 / 0.11"
    assert compare.beside_earlier(runs[2]) == said
