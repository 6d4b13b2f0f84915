"""A report from run directories alone: the answer in words, the table, the page, the files, and
what the model answered.
"""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from formats.cell import SweepMark
from formats.result import Metric, Result, Status
from formats.writing import write_json
from harness import cli
from harness.execution.environments import ROOT
from harness.report import answer, details, exports, figures, page, sections
from harness.report.sections import comparisons, curves, numbers, ratios
from harness.samples import words
from harness.sweep import journal
from sut.registry import SUTS as REGISTERED
from tests.support.cells import measure, request
from tests.support.files import read_json
from tests.support.reports import gathered, groups, rendered
from tests.support.synthetic_runs import NOISE, cell, write

SCHEMA = read_json(ROOT / "compliance/schemas/report.json")
SUTS = ("keras3-jax", "native-torch-compile", "native-torch-eager")


@pytest.fixture
def three(tmp_path):
    """Three SUTs measured in turns, five times: the second is as fast as the first, the third half
    as fast.
    """
    for n, (sut, figure) in enumerate(zip(SUTS, (100, 100.5, 50), strict=True)):
        noise = np.array([1, 1.02, 0.98, 1.01, 0.99]) * [1, 1, 1, 1 + n / 100, 1 - n / 100]
        write(tmp_path, cell(sut), [figure * x for x in noise], first_minute=n)
    return tmp_path


@pytest.fixture(scope="session")
def mock_run(tmp_path_factory):
    """One real run of the mock that generates, on two prompts."""
    folder = tmp_path_factory.mktemp("mock")
    (folder / "prompts.txt").write_text("Once upon a time\n\n<script>alert(1)</script>")
    asked = request(folder / "runs", model="mistral", dataset=folder / "prompts.txt", duration=1)
    assert measure(asked).status == "ok"
    return folder / "runs"


def sentences(report):
    return sections.sentences(sections.of(report))


def told(root, beginning):
    """The only sentence of a report with this beginning."""
    (found,) = [text for text in sentences(gathered(root)) if text.startswith(beginning)]
    return found


def document(report):
    return exports.document(report, sections.of(report))


def compared(root):
    """The only comparison of a report."""
    (comparison,) = gathered(root).comparisons
    return comparison


SINGLE = {"scenario": "SingleStream", "batch_size": 1}
TINY = {"ranked": False, "unranked": ("size tiny only shows that a cell works",)}


def never_measured(root, sweep, of, reason):
    """A cell that a sweep skipped."""
    mark = SweepMark(id="sweep-1", series=2, repeat=1)
    run = {"mode": "quick", "round": "v6.1", "directory": "", "sweep": mark}
    result = Result(cell=of, status=Status.SKIPPED, reason=reason, **run)
    journal.keep_not_measured(root / "sweeps" / sweep, result)


def drawn(comparison):
    colours = {group.sut: figures.colour(group.cell.sut) for group in comparison.groups}
    return figures.draw(comparison, "x", colours)


def pairs(report, table):
    """Rows of the section on pairs, in the table whose title begins so."""
    (found,) = [t for t in ratios.section(report).tables if t.title.startswith(table)]
    return [row for rows in found.groups.values() for row in rows]


def test_the_one_that_is_shown_to_be_faster_leads_whatever_single_runs_say(tmp_path):
    slower, faster = cell("keras3-jax"), cell("native-torch-eager")
    write(tmp_path, slower, [100, 100.5, 99.5], sweep="s-1")
    write(tmp_path, faster, [105, 105.5, 104.5], sweep="s-1")
    write(tmp_path, slower, [120, 120], day=2)  # alone, on a quicker day
    comparison = compared(tmp_path)
    assert comparison.good[0].sut == "keras3-jax"
    assert "native-torch-eager is fastest: 1.05" in answer.sentence(comparison)
    best = [sut for sut, entry in comparison.entries.items() if entry.best]
    assert best == ["native-torch-eager"]
    assert comparison.entries["keras3-jax"].figure == pytest.approx(100, rel=1e-3)


def test_comparisons_of_one_name_are_told_apart_by_mode_and_machine(tmp_path):
    for mode, cpu in (("quick", "One"), ("valid", "One"), ("quick", "Another")):
        for sut in SUTS[:2]:
            record = {"machine": {"cpu": cpu}}
            write(tmp_path, cell(sut), [100, 101, 99], mode=mode, record=record)
    report = gathered(tmp_path)
    work = "bert mid predict, Offline, batch 32, 128 tokens"
    places = ("quick, machine 1", "valid, machine 1", "quick, machine 2")
    assert {each.name for each in report.comparisons} == {f"{work}, {place}" for place in places}
    machines = (f"machine {n}: {cpu}, 2 threads, 8 GiB" for n, cpu in ((1, "One"), (2, "Another")))
    assert report.preface == "; ".join(["all cells: float32, cpu", *machines])


def test_a_report_says_once_how_large_its_model_is(tmp_path):
    facts = "6 layers of 384, 22.7 M parameters"
    for sut in ("keras3-jax", "keras3-torch"):
        write(tmp_path, cell(sut), [100, 101, 99], model_facts=facts)
    report = gathered(tmp_path)
    assert report.headline.startswith(f"bert mid ({facts}) predict, Offline, batch 32")
    assert facts not in report.preface + report.comparisons[0].name
    assert f"fastest for bert mid ({facts})?" in rendered(report)
    for sut in ("keras3-jax", "keras3-torch"):
        write(tmp_path, cell(sut, **SINGLE), [10, 10.1, 9.9], model_facts=facts)
    report = gathered(tmp_path)
    assert report.headline.startswith(f"bert mid ({facts}) predict: ")
    assert facts not in report.preface
    other = cell("keras3-jax", model="gpt2", task="generate")
    write(tmp_path, other, [10, 10.1, 9.9], model_facts=facts)
    write(tmp_path, replace(other, sut="keras3-torch"), [10, 10.1, 9.9], model_facts=facts)
    report = gathered(tmp_path)
    names = f"bert mid ({facts}); gpt2 mid ({facts}); all cells: float32, cpu; "
    assert report.preface.startswith(names) and names in rendered(report)


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        ([101, 99, 100], "1.00 × (0.98–1.03)"),
        ([110, 110.1, 109.9], "1.100 × (1.098–1.102), though both are the same"),
        ([110, None, 110], "1.1 × (no interval)"),
    ],
)
def test_a_control_run_states_the_machines_own_noise(tmp_path, figures, sentence):
    write(tmp_path, cell(), [100, 100, 100], sweep="s-1")
    write(tmp_path, cell(), figures, sweep="s-1", control=True)
    report = gathered(tmp_path)
    work = "bert mid predict, Offline, batch 32, 128 tokens"
    beginning = "control run: keras3-jax measured twice a round"
    assert sentences(report)[-1] == f"{beginning}, {work}: {sentence}"
    assert len(report.groups) == 1


def test_figures_that_may_not_be_ranked_have_no_best(tmp_path):
    for sut, figure in (("keras3-jax", 200), ("keras3-torch", 100)):
        write(tmp_path, cell(sut, size="tiny"), [figure] * 3, **TINY)
    comparison = compared(tmp_path)
    said = answer.sentence(comparison)
    assert said.endswith("; not ranked: size tiny only shows that a cell works")
    assert not any(entry.best for entry in comparison.entries.values())


def inconclusive(root):
    """The reason, after a check that nothing on the page calls a SUT the fastest."""
    report = gathered(root)
    (comparison,) = report.comparisons
    assert not any(entry.best for entry in comparison.entries.values())
    assert f"nothing is decided, because {comparison.inconclusive}; " in report.headline
    html = rendered(report)
    texts = [report.headline, *sentences(report), html]
    texts += [str(parts) for _, places in exports.cells(report) for _, parts in places]
    for claim in ("is fastest:", "best figure,", "★ leading<"):
        assert not any(claim in text for text in texts)
    return comparison.inconclusive


def test_an_engine_is_compared_with_suts_of_the_same_work(tmp_path):
    write(tmp_path, cell("keras3-jax"), [100, 101, 99])
    engine = cell("endpoint", precision="unknown", batch_size=1)
    write(tmp_path, engine, [50, 51, 49], record={"execution": "engine"})
    comparison = compared(tmp_path)
    assert [group.sut for group in comparison.good] == ["keras3-jax", "endpoint"]
    assert "batch 32" in comparison.name
    # With two batches it is not clear which of them is the engine's.
    write(tmp_path, cell("keras3-jax", batch_size=8), [90, 91, 89])
    comparisons = gathered(tmp_path).comparisons
    assert len(comparisons) == 3
    assert sum("precision unknown" in each.name for each in comparisons) == 1


def test_comparisons_that_are_all_disturbed_are_summed_up(tmp_path):
    for sut, batch in (("keras3-jax", 1), ("keras3-jax", 8), ("mock", 1), ("mock", 8)):
        write(tmp_path, cell(sut, batch_size=batch), [10] * 3, sweep="s-1", disturbance=NOISE)
    report = gathered(tmp_path)
    assert report.headline == (
        "bert mid predict, Offline: nothing is decided in batch 1 and batch 8, because 12 of 12"
        " runs were disturbed (other programs used 150% of a processor while it was measured);"
        " measure again (--again) with nothing else running: 3 runs of each"
    )


@pytest.mark.parametrize(
    ("scenario", "slowest", "last_tick"),
    [("SingleStream", 1800.0, 35), ("SingleStream", 20.0, 25), ("Offline", 1800.0, 2000)],
)
def test_the_axis_of_latencies_ends_before_one_that_is_far_above_the_others(
    tmp_path, scenario, slowest, last_tick
):
    for sut, figure in (("keras3-jax", 4.0), ("native-jax", 5.0), ("keras3-torch", slowest)):
        write(tmp_path, cell(sut, scenario=scenario), [figure] * 3, sweep="s-1")
    comparison = compared(tmp_path)
    ticks = re.findall(r">(\d+)</text>", drawn(comparison))
    assert max(map(int, ticks)) == last_tick


def test_a_comparison_whose_ratio_may_be_anything_is_inconclusive(tmp_path):
    write(tmp_path, cell("keras3-jax"), [100, 300, 50], sweep="s-1")
    write(tmp_path, cell("native-torch-eager"), [700, 60, 900], sweep="s-1")
    assert inconclusive(tmp_path).startswith(
        "every ratio is uncertain by more than a factor of two (0.0"
    )


def test_a_wide_interval_that_shows_a_difference_decides(tmp_path):
    write(tmp_path, cell("keras3-jax"), [100, 60, 90], sweep="s-1")
    write(tmp_path, cell("native-torch-eager"), [8, 12, 7], sweep="s-1")
    comparison = compared(tmp_path)
    assert answer.claim(comparison).startswith("keras3-jax is fastest: at least ")


@pytest.mark.parametrize(("slower", "is_open"), [(80, True), (20, False)])
def test_a_wide_control_run_leaves_open_only_what_is_within_it(tmp_path, slower, is_open):
    noise = (1, 1.4, 0.75)
    for sut, figure in (("keras3-jax", 100), ("native-torch-eager", slower)):
        write(tmp_path, cell(sut), [figure * share for share in noise], sweep="s-1")
    write(tmp_path, cell("keras3-jax"), [75, 100, 140], sweep="s-1", control=True)
    comparison = compared(tmp_path)
    assert bool(comparison.inconclusive) is is_open, answer.sentence(comparison)


def test_one_sut_whose_runs_were_all_disturbed_leaves_the_comparison_open(tmp_path):
    write(tmp_path, cell("keras3-jax"), [200, 201, 199], sweep="s-1")
    write(tmp_path, cell("native-torch-eager"), [100, 101, 99], sweep="s-1", disturbance=NOISE)
    assert inconclusive(tmp_path).startswith(
        "with native-torch-eager, 3 of 3 repeats were disturbed"
    )


def test_each_control_run_is_looked_at(tmp_path):
    for sut, figure in (("keras3-jax", 100), ("native-torch-eager", 50)):
        for sweep in ("s-1", "s-2"):
            write(tmp_path, cell(sut), [figure, 1.001 * figure, 0.999 * figure], sweep=sweep)
    write(tmp_path, cell("keras3-jax"), [100, 100.1, 99.9], sweep="s-1", control=True)
    write(tmp_path, cell("native-torch-eager"), [75, 75, 75.1], sweep="s-2", control=True)
    comparison = compared(tmp_path)
    twice = "native-torch-eager, measured twice a round, was 1.5 × as fast as itself"
    assert comparison.inconclusive.startswith(twice)
    assert len(comparisons.noise(gathered(tmp_path)).sentences) == 2


def test_a_sut_with_too_few_runs_is_not_in_the_leading_group(tmp_path):
    for sut, figures_ in zip(SUTS, ([100, 101, 99], [90, 91, 89], [50, 51]), strict=True):
        write(tmp_path, cell(sut), figures_, sweep="s-1")
    comparison = compared(tmp_path)
    assert [g.sut for g in comparison.leading] == ["keras3-jax"]
    said = answer.sentence(comparison)
    assert said.startswith("keras3-jax is fastest: 1.1")
    assert said.endswith("; without native-torch-eager (too few runs)")


def test_a_disturbed_repeat_that_then_failed_does_not_count_as_ok(tmp_path):
    first, *_ = write(tmp_path, cell(), [100, 101, 99], sweep="s-1", disturbance=NOISE)
    write(tmp_path, cell(), [None], sweep="s-1", day=2)
    (group,) = groups(tmp_path)
    assert str(first) not in [run.result.directory for run in group.good] and len(group.good) == 2
    assert group.failure.startswith("1 of 3 runs is not ok: oom")


def test_equal_suts_of_many_are_not_called_slower_for_one_lucky_pair(tmp_path):
    noise = np.random.default_rng(3).normal(0, 0.02, (11, 3))
    suts = [sut for sut in REGISTERED if sut != "mock"][:11]
    for sut, logs in zip(suts, noise, strict=True):
        write(tmp_path, cell(sut), 100 * np.exp(logs), sweep="s-1")
    comparison = compared(tmp_path)
    assert all(ratio.low <= 1 <= ratio.high for ratio in comparison.ratios.values())
    assert all(entry.best for entry in comparison.entries.values())
    assert answer.claim(comparison).startswith("all 11 SUTs lead, and no difference between them")


def test_latencies_are_compared_by_their_median_and_the_plain_90th_percentile_is_told(tmp_path):
    for sut, ms, tail in (("keras3-jax", 2.0, 9.0), ("native-jax", 3.0, 4.0)):
        for n in range(3):
            metrics = {
                "latency_p50_ms": ms + n / 100,
                "latency_p90_ms": tail + n / 50,
                "samples_per_second": 1000 / ms,
            }
            few = sut == "keras3-jax"
            method = "early stopping" if few else "percentile"
            values = {"metric": Metric("latency_p90", 50.0, "ms", False, method)}
            values |= {"metrics": metrics, "measured": {"samples": 100 if few else 2000}}
            single = cell(sut, scenario="SingleStream")
            write(tmp_path, single, [ms], first_minute=n, **values)
    assert "keras3-jax is fastest: 1.498 × native-jax" in gathered(tmp_path).headline
    asked = "90th percentile of the latency (less is better), of 100 to 2,000 queries a run"
    figures = "native-jax 4.02 ms, keras3-jax 9.02 ms (2.24 times as long, 2.2"
    assert told(tmp_path, "90th percentile").startswith(f"{asked}: {figures}")


def test_suts_with_equal_90th_percentiles_are_listed(tmp_path):
    for n, sut in enumerate(SUTS[:2]):
        of = cell(sut, scenario="SingleStream")
        write(tmp_path, of, [2, 2.1, 2.2], first_minute=n, measured={"samples": 100})
    figures = "keras3-jax 2.308 ms, native-torch-compile 2.308 ms (not shown to be higher)"
    assert told(tmp_path, "90th percentile").endswith(f"of 100 queries a run: {figures}")


def test_a_90th_percentile_of_few_queries_is_not_compared(tmp_path):
    for sut in SUTS[:2]:
        write(tmp_path, cell(sut, scenario="SingleStream"), [2, 2.1, 2], measured={"samples": 20})
    reason = "64 are needed, so it is not compared (--duration sets a longer test)"
    assert told(tmp_path, "90th percentile").endswith(f"of 20 queries a run: {reason}")


def test_figures_of_other_statistics_are_refused_in_words(tmp_path):
    for sut in SUTS:
        old = {"metrics": {"latency_p90_ms": 2.2}} if sut == SUTS[0] else {}
        write(tmp_path, cell(sut, scenario="SingleStream"), [2, 2.1, 2], **old)
    comparison = compared(tmp_path)
    assert "another statistic" in comparison.entries[SUTS[0]].reason
    assert {g.sut for g in comparison.good} == {*SUTS[1:]}


def test_failed_and_invalid_cells_stand_in_the_table_with_their_reason(tmp_path, capsys):
    write(tmp_path, cell("keras3-jax"), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [None])
    wrong = {"status": "invalid", "cause": "accuracy", "reason": "wrong answers", "ranked": False}
    write(tmp_path, cell("native-torch-eager"), [70], **wrong)
    report = gathered(tmp_path)
    ((_, places),) = exports.cells(report)
    invalid = [("70", "strike dim"), " invalid (accuracy): wrong answers"]
    assert dict(places)["native-torch-eager"] == invalid
    assert dict(places)["keras3-torch"] == ["oom: the kernel killed the worker"]
    html = rendered(report)
    assert "<del>70</del><br>invalid (accuracy): wrong answers" in html
    assert cli.main(["report", str(tmp_path)]) == 0
    assert "oom: the kernel killed the worker" in " ".join(capsys.readouterr().out.split())


def test_a_sut_that_has_no_such_model_says_why(tmp_path, capsys):
    able = ("keras3-jax", "keras3-tensorflow", "keras3-torch", "native-torch-eager")
    unable = ("keras2-tensorflow", "hf-tensorflow")
    for sut in able + unable:
        write(tmp_path, cell(sut), [100])
        if sut in able:
            write(tmp_path, cell(sut, model="gemma", task="generate"), [100])
    report = gathered(tmp_path)
    of_keras2, of_hugging_face = report.obstacles
    assert of_keras2.startswith("keras2-tensorflow, gemma generate: ")
    assert of_hugging_face.startswith("hf-tensorflow, gemma generate: ")
    assert rendered(report).count("<small>unsupported</small>") == 2
    assert cli.main(["report", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "  keras2-tensorflow   unsupported\n" in printed
    assert f"! unsupported: {of_hugging_face}\n" in printed


def test_means_are_over_what_all_suts_have(tmp_path):
    for batch, factor in ((1, 2), (8, 8), (32, 100)):
        write(tmp_path, cell("native-torch-eager", batch_size=batch), [10, 10, 10])
        if batch < 32:
            write(tmp_path, cell("keras3-jax", batch_size=batch), [10 * factor] * 3)
    for sut, figure in (("keras3-jax", 700), ("native-torch-eager", 10), ("mock", 10)):
        write(tmp_path, cell(sut, size="tiny"), [figure] * 3, **TINY)
    assert comparisons.means(gathered(tmp_path)).sentences == [
        "mean speed (geometric) over the 2 comparisons that all SUTs have, compared with"
        " native-torch-eager: keras3-jax 4.00 × (4.00–4.00)"
    ]


def test_compiling_pays_after_as_many_batches_as_its_time_is_worth(tmp_path):
    write(tmp_path, cell("keras3-jax"), [64, 64, 64])  # 500 ms a batch, 4 s of compiling
    write(tmp_path, cell("native-torch-eager"), [32, 32, 32])  # 1000 ms a batch
    write(tmp_path, cell("native-torch-compile"), [16, 16, 16])
    report = gathered(tmp_path)
    assert [(row[0], row[1], row[5]) for row in pairs(report, "Compiled")] == [
        ("keras3-jax", "native-torch-eager", "pays after 8 batches cold"),
        ("native-torch-compile", "native-torch-eager", "does not pay here"),
    ]
    overheads = document(report)["keras_overheads"]
    assert [o["bare"] for o in overheads] == ["native-torch-eager", "native-torch-compile"]
    assert [o["ratio"]["value"] for o in overheads] == pytest.approx([2, 4])


def test_compiling_with_an_empty_and_with_a_filled_cache_is_in_one_table(tmp_path):
    write(tmp_path, cell("native-torch-eager"), [32, 32, 32])
    write(tmp_path, cell("keras3-torch"), [33, 33, 33])  # another eager SUT, which is faster
    cold = {"ms_per_step": 500.0, "compile_seconds": 6.0, "first_answer_seconds": 9.0}
    warm = {"ms_per_step": 500.0, "cached_compile_seconds": 1.0, "cached_first_answer_seconds": 4.0}
    write(tmp_path, cell("native-torch-compile"), [64, 64], metrics=cold)
    write(tmp_path, cell("native-torch-compile"), [64, 64], metrics=warm)
    report = gathered(tmp_path)
    ((sut, base, *_, remark),) = pairs(report, "Compiled")
    assert (sut, base) == ("native-torch-compile", "keras3-torch")
    assert "batches cold, pays after" in remark and remark.endswith("batches warm")
    (table,) = numbers.section(report).tables
    row = next(dict(zip(table.columns, row, strict=True)) for row in table.groups[""])
    assert (row["first answer, s"], row["first answer from cache, s"]) == ("9", "4")
    assert (row["compiling, s"], row["compiling from cache, s"]) == ("6", "1")


def test_what_keras_costs_is_told_beside_the_same_framework_without_it(tmp_path):
    suts = {"keras3-jax": [64, 65, 63], "native-jax": [128, 130, 126]}
    for sut, speeds in (suts | {"native-torch-compile": [32, 32, 32]}).items():
        write(tmp_path, cell(sut), speeds, sweep="s-1")
    report = gathered(tmp_path)
    overheads = document(report)["keras_overheads"]
    (cost,) = [o for o in overheads if o["cost"]]
    assert (cost["keras"], cost["bare"]) == ("keras3-jax", "native-jax")
    assert (cost["keras_ms"], cost["bare_ms"]) == (500, 250)
    assert cost["ratio"]["value"] == pytest.approx(0.5) and cost["ratio"]["different"]
    html = rendered(report)
    assert "+250,000 µs" in html and "native-torch-compile" in html.split("Keras 3 over")[1]


def test_what_keras_costs_is_told_for_each_token_of_a_model_that_generates(tmp_path):
    for sut, rate in (("keras3-torch", 1600.0), ("native-torch-eager", 3200.0)):
        text = cell(sut, model="mistral", task="generate", seq_len=None)
        write(tmp_path, text, [40, 41, 39], metrics={"ms_per_step": 800, "tokens_per_second": rate})
    report = gathered(tmp_path)
    (cost,) = document(report)["keras_overheads"]
    assert (cost["keras_token_ms"], cost["bare_token_ms"]) == (20, 10)
    assert "20 and 10 ms a token" in rendered(report)


def test_keras_3_stands_beside_the_keras_2_that_runs_in_the_same_way(tmp_path):
    with_xla = {"keras3-tensorflow": 40, "keras2-tensorflow": 50}
    without = {"keras3-tensorflow-graph": 60, "keras2-tensorflow-graph": 30}
    for sut, speed in {**with_xla, **without, "keras3-jax": 9}.items():
        write(tmp_path, cell(sut), [speed, speed * 1.01, speed], sweep="s-1")
    report = gathered(tmp_path)
    written = json.loads(json.dumps(document(report)))
    upgrades = written["keras_upgrades"]
    assert [(u["keras3"], u["keras2"], round(u["ratio"]["value"], 3)) for u in upgrades] == [
        ("keras3-tensorflow-graph", "keras2-tensorflow-graph", 2),
        ("keras3-tensorflow", "keras2-tensorflow", 0.8),
    ]
    assert "<h3>Keras 3 over Keras 2</h3>" in rendered(report)
    rows = {row[:2]: row[4] for row in pairs(report, "Keras 3 over Keras 2")}
    assert rows["keras3-tensorflow", "keras2-tensorflow"][0] == "0.80 ×"
    jsonschema.validate(written, SCHEMA)


def test_the_published_ratio_of_the_same_pair_stands_beside_ours(tmp_path):
    speeds = {"keras3-tensorflow": 90, "keras3-torch": 20, "keras2-tensorflow": 30}
    for sut, speed in (speeds | {"native-torch-eager": 45}).items():
        write(tmp_path, cell(sut, batch_size=256), [speed - 1, speed, speed + 1], sweep="s-1")
    report = gathered(tmp_path)
    # The A100 table: bert, predict, batch 256.
    ((*_, over_keras2),) = pairs(report, "Keras 3 over Keras 2")
    assert over_keras2 == f"published {470.12 / 466.01:.3g} ×"
    remarks = {row[:2]: row[5] for row in pairs(report, "Keras 3 over the same")}
    over_torch = remarks["keras3-tensorflow", "native-torch-eager"]
    assert over_torch.endswith(f"published {1849.80 / 466.01:.3g} ×")


def test_what_earlier_files_of_suts_measured_is_left_out_and_said(tmp_path):
    for source, speed in (("1", 100), ("2", 50)):
        record = {"git": {"worker_source_sha256": source}}
        write(tmp_path, cell(), [speed - 1, speed, speed + 1], day=int(source), record=record)
    report = gathered(tmp_path)
    assert [g.figures for g in report.current] == [[49, 50, 51]]
    assert report.advice == [
        "left out: 1 cell measured earlier, with other versions, other files of SUTs, or another"
        " duration (see ./run.sh report --history)"
    ]


def test_of_several_batches_the_fastest_of_each_sut_is_told(tmp_path):
    speeds = {"keras3-jax": {1: 20, 8: 96, 32: 64}, "native-jax": {1: 18, 8: 90, 32: 160}}
    for sut, by_batch in speeds.items():
        for batch, speed in by_batch.items():
            write(tmp_path, cell(sut, batch_size=batch), [speed, speed, speed])
    (sentence,) = [text for text in sentences(gathered(tmp_path)) if "batches" in text]
    assert (
        sentence
        == "bert mid predict, Offline, 128 tokens, quick: of the batches 1, 8, 32 the fastest of"
        " each SUT: native-jax at 32 (160 samples/s, 200 ms a batch), keras3-jax at"
        " 8 (96 samples/s, 83.33 ms a batch)"
    )


def test_lengths_of_prompts_and_answers_tell_works_apart_and_make_a_chart(tmp_path):
    for prompt in (64, 512):
        for sut in SUTS[:2]:
            work = {"model": "mistral", "task": "generate", "seq_len": None}
            work |= {"prompt_tokens": prompt, "new_tokens": 45}
            write(tmp_path, cell(sut, **work), [100, 101, 99])
    report = gathered(tmp_path)
    names = [comparison.name for comparison in report.comparisons]
    assert names == [f"mistral mid generate, Offline, batch 32, {n} + 45 tokens" for n in (64, 512)]
    (lines,) = curves.scales(report, "prompt_tokens")
    assert lines.work == "mistral mid generate, Offline, batch 32, … + 45 tokens, quick"
    assert "speed over tokens a prompt" in rendered(report)


def test_every_sut_has_a_colour_of_its_own():
    assert len({figures.colour(sut) for sut in REGISTERED}) == len(REGISTERED)


def test_a_new_failure_is_not_hidden_by_an_old_success(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [50, 51, 49])
    write(tmp_path, cell(), [None], day=2, record={"git": {"worker_source_sha256": "2"}})
    report = gathered(tmp_path)
    (comparison,) = report.comparisons
    assert comparison.older == 1
    assert comparison.entries["keras3-jax"].reason == "oom: the kernel killed the worker"
    assert report.headline.endswith(
        ": keras3-torch computes 49.99 samples/s (47.57–52.54); without keras3-jax (out of memory)"
    )


def test_suts_that_were_measured_under_other_conditions_are_named(tmp_path):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [50, 51, 49], day=2, planned_ms=2000)
    where = "keras3-jax compared with keras3-torch, bert mid predict, Offline, batch 32, 128 tokens"
    assert gathered(tmp_path).advice[:2] == [
        f"other planned duration: 10.0 / 2.0: {where}",
        (
            "the repeats were not measured in turns, so a drift of the machine between the two"
            f" counts as a difference: {where}"
        ),
    ]


def test_a_cell_that_was_never_started_stands_beside_those_that_were(tmp_path, capsys):
    write(tmp_path, cell(), [100, 101, 99])
    write(tmp_path, cell("keras3-torch"), [50, 51, 49])
    of = cell("native-torch-eager", weights="seeded", seq_len=None)
    never_measured(tmp_path, "sweep-1", of, "preflight: it needs 9 GB")
    folder = tmp_path / "sweeps" / "sweep-1"
    cells = [
        {"label": "ctrl tiny", "obstacle": "--seq-len 512: at most 256"},
        {"label": "bert tiny", "obstacle": None},
    ]
    write_json(folder / "sweep.json", {"cells": cells, "missing": {"transfo-xl": "no model of it"}})
    assert cli.main(["report", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "skipped: preflight: it needs 9 GB" in out
    assert "unsupported: ctrl tiny: --seq-len 512: at most 256" in out
    assert "unsupported: transfo-xl: no model of it" in out
    comparison = compared(tmp_path)
    assert list(comparison.entries) == ["keras3-jax", "keras3-torch", "native-torch-eager"]
    assert comparison.name.endswith("128 tokens")
    journal.forget_not_measured(folder)
    assert len(gathered(tmp_path).groups) == 2


def test_a_cell_that_was_cut_off_is_in_the_comparison_of_the_other_suts(tmp_path):
    def cut_off(sut, **changes):
        of = cell(sut, weights="seeded", seq_len=None, **changes)
        never_measured(tmp_path, f"sweep-{sut}", of, "cut off after 80 s")

    def found():
        return [list(comparison.entries) for comparison in gathered(tmp_path).comparisons]

    write(tmp_path, cell(dataset="f02d5ac20539", seq_len=32), [100, 101, 99])
    cut_off("keras3-torch")
    assert found() == [["keras3-jax", "keras3-torch"]]
    cut_off("native-jax", batch_size=8)
    assert sorted(found()) == [["keras3-jax", "keras3-torch"], ["native-jax"]]
    write(tmp_path, cell("keras3-tensorflow", seq_len=32), [50, 51, 49])  # synthetic inputs
    assert ["keras3-tensorflow", "keras3-torch"] in found()
    own = cell("keras3-tensorflow", dataset="f02d5ac20539", seq_len=32)
    write(tmp_path, own, [50, 51, 49], sweep="sweep-1")
    assert ["keras3-jax", "keras3-tensorflow", "keras3-torch"] in found()


def test_all_numbers_have_shares_errors_and_the_time_of_loading(tmp_path):
    accuracy = {"value": 2e-6, "threshold": 1e-5, "metric": "logit_error", "passed": True}
    share = {"flops_per_second": 1.5e12, "matrix_share": 0.5}
    first = {"metrics": share, "accuracy": accuracy, "seconds": {"load": 3.0}}
    write(tmp_path, cell("keras3-jax"), [40, 41, 39], **first)
    write(tmp_path, cell("keras3-torch"), [10, 11, 10], metrics={"operators_per_pass": 6000.0})
    (table,) = numbers.section(gathered(tmp_path)).tables
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.groups[""]]
    names = ("GFLOP/s", "% of a large product", "operators a pass", "loading, s")
    names += ("error, % of limit",)
    assert [[row[name] for name in names] for row in rows] == [
        ["1,500", "50", "–", "3", "20"],
        ["–", "–", "6,000", "–", "–"],
    ]


def test_all_numbers_name_the_batch_that_a_switch_changed(tmp_path):
    tuned = {"tuned": True, "switches": ("batch-x4",), "batch_size": 128, "requested_batch": 32}
    write(tmp_path, cell("keras3-jax", **tuned), [100, 101, 99])
    write(tmp_path, cell("keras3-torch", tuned=True, switches=("huge-pages",)), [100, 101, 99])
    (table,) = numbers.section(gathered(tmp_path)).tables
    (rows,) = table.groups.values()
    names = {row[0] for row in rows}
    assert names == {"keras3-jax tuned=batch-x4, batch 128", "keras3-torch tuned=huge-pages"}


def test_trainings_have_columns_of_their_own(tmp_path):
    seen = {"first_step_seconds": 7.125, "trained_parameters": 3328}
    seen |= {"tokens_per_second": 1234.5, "samples_per_second": 9.64}
    steps = {"step_median_ms": 48.5, "step_p90_ms": 61.5, "drift_fraction": 0.1}
    score = {"metric": "loss_error", "value": 0.0012, "threshold": 0.05, "passed": True}
    score["detail"] = {"first_loss_error": 3e-6}
    of_training = {"task": "fit", "scenario": "Fit", "batch_size": 8}
    write(tmp_path, cell("keras3-jax", **of_training), [50, 51, 49], metrics=seen, accuracy=score)
    both = {"metrics": seen | steps, "accuracy": score, "first_minute": 1}
    write(tmp_path, cell("native-torch-eager", **of_training), [90, 91, 89], **both)
    report = gathered(tmp_path)
    assert report.comparisons[0].name.startswith("bert mid Fit, batch 8")
    # A step has tokens, and makes none.
    (overhead,) = document(report)["keras_overheads"]
    assert (overhead["keras_ms"], overhead["keras_token_ms"]) == (None, None)
    (table,) = numbers.section(report).tables
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.groups[""])
    assert (first["SUT"], first["single steps: median, ms"]) == ("keras3-jax", "–")
    names = ("single steps: median, ms", "first step, s", "samples/s", "tokens/s")
    names += ("trained parameters", "error, % of limit", "error of the first loss")
    texts = ["48.5", "7.125", "9.64", "1,234", "3,328", "2.4", "3e-06"]
    assert [second[name] for name in names] == texts
    assert all(text in rendered(report) for text in texts)


def test_the_page_loads_nothing_and_is_well_formed(three):
    for batch in (1, 8):
        write(three, cell(batch_size=batch), [50, 51, 49])
        single = cell("native-torch-eager", scenario="SingleStream", batch_size=batch)
        write(three, single, [5, 5.1, 4.9])
    html = rendered(gathered(three))
    assert html.startswith(page.BEGINNING)
    assert not re.search(r"<script \w|<link|<img|@import|https?://(?!www\.w3\.org/)", html)
    drawings = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(drawings) >= 2
    for drawing in drawings:
        ET.fromstring(drawing.replace("xlink:href", "href"))
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', html)) <= set(ids)
    assert "Speed over batch" in html and "Compiled over eager" in html


def test_bars_begin_at_zero_and_each_sut_has_one_colour(three):
    drawing = drawn(gathered(three).comparisons[0])
    assert ">0</text>" in drawing
    assert len({figures.colour(sut) for sut in SUTS}) == 3
    assert all(figures.colour(sut) in drawing for sut in SUTS)


def test_a_cells_section_explains_the_run(mock_run):
    (group,) = groups(mock_run)
    cell_details = details.of(group, ())
    meanings = {label: meaning for label, _, meaning in cell_details["summary"]}
    assert meanings["min_duration (ms)"] == "a shorter test is INVALID"
    # Every line LoadGen writes is explained.
    assert not [label for label, meaning in meanings.items() if not meaning]
    html = rendered(gathered(mock_run))
    for text in (
        "Once upon a time",
        "What it answered",
        "Evidence of what ran",
        cell_details["directory"],
    ):
        assert text in html
    assert "<script>alert(1)" not in html and "&lt;script&gt;alert(1)" in html


def test_words_say_where_an_answer_leaves_the_reference(mock_run, capsys):
    (directory,) = (p.parent for p in mock_run.rglob("words.json"))
    samples = words.read(directory)
    assert [s.prompt for s in samples] == ["Once upon a time", "<script>alert(1)</script>"]
    assert samples[0].differs_at is None and samples[0].answer == samples[0].reference
    other = words.Words(prompt="p", answer="a cat", reference="a dog", tokens=5, differs_at=3)
    assert other.shared == "a "
    assert cli.main(["show", str(directory)]) == 0
    out = capsys.readouterr().out
    for text in ("status     ok", "prompt     Once upon a time", "tokens are the reference's"):
        assert text in out


def test_page_and_json_have_the_same_answer(three, tmp_path, capsys):
    page_file = tmp_path / "report.html"
    assert cli.main(["report", str(three), "--html", str(page_file), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    jsonschema.validate(written, SCHEMA)
    assert written["answer"] in page_file.read_text()
    assert set(written["rows"][0]) == set(SCHEMA["$defs"]["row"]["properties"])


def test_a_folder_that_is_not_there_is_one_sentence(capsys):
    assert cli.main(["report", "nowhere"]) == 2
    assert "there is no such directory" in capsys.readouterr().err


def test_a_result_that_cannot_be_read_is_named(three, capsys):
    (three / "broken").mkdir()
    (three / "broken/result.json").write_text("{")
    assert "broken/result.json" in rendered(gathered(three))
    assert cli.main(["report", str(three)]) == 0
    assert "left out: " in capsys.readouterr().err
