"""`bisect`: the step that a search names, what it does without one, and the command. Speeds are
drawn, so no machine decides.
"""

import json
import random
import re
from dataclasses import asdict, replace
from itertools import count

import jsonschema
import pytest

from formats.result import Metric, Status
from formats.writing import write_json
from harness import cli
from harness.execution import releases, rundir
from harness.execution.environments import ROOT
from harness.measurement import run
from harness.sweep import bisection
from harness.sweep.bisection import Trial, search
from tests.conftest import CACHE
from tests.support.files import read_json
from tests.support.wheels import wheel

RELEASES = [f"1.{n}" for n in range(9)]


class Bench:
    """Measures releases whose speeds are drawn around those of `speeds`."""

    def __init__(self, speeds, noise=0.02, seed=0, **trials):
        self.speeds, self.noise, self.trials = speeds, noise, trials
        self.random = random.Random(seed)
        self.stages = []

    def __call__(self, stage, versions, repeats):
        self.stages.append((stage, tuple(versions), repeats))
        found = {}
        for version in versions:
            mean = self.speeds.get(version, 1.0)
            speeds = {n: mean * self.random.gauss(1, self.noise) for n in range(repeats)}
            known = self.trials.get(version.replace("1.", "v"))
            found[version] = known or Trial(speeds=speeds, runs=repeats)
        return found


def slower_from(number, by=0.8):
    return dict.fromkeys(RELEASES[number:], by)


@pytest.mark.parametrize("step", range(1, 9))
def test_the_release_of_a_step_is_named_with_the_ratio_of_new_runs(step):
    bench = Bench(slower_from(step))
    found = search(RELEASES, bench, 6, answers=False)
    assert (found.before, found.after) == (RELEASES[step - 1], RELEASES[step])
    assert found.sentence.startswith(f"after {found.before} the cell is slower: {found.after} has")
    assert found.ratio.low < 0.8 < found.ratio.high and found.ratio.repeats == (6, 6)
    assert bench.stages[-1] == ("again", (found.before, found.after), 6)
    environments, measurements = bisection.most_trials(9, 6)
    assert len({v for _, versions, _ in bench.stages for v in versions}) <= environments == 5
    assert sum(len(versions) * n for _, versions, n in bench.stages) <= measurements == 78


def test_a_faster_release_is_a_step_too():
    found = search(RELEASES, Bench(slower_from(4, by=1.3)), 6, answers=False)
    assert found.sentence.startswith("after 1.3 the cell is faster: 1.4 has 1.")


def test_equal_releases_have_a_step_as_rarely_as_is_said():
    searches = 1000
    found = [search(RELEASES, Bench({}, seed=n), 6, answers=False) for n in range(searches)]
    named = sum(bool(each.after) for each in found)
    assert named / searches < 3 * bisection.false_alarms()
    ended = [each for each in found if each.sentence.startswith("no step is shown between 1.0")]
    assert len(ended) > 0.93 * searches


def test_the_larger_of_two_steps_is_named():
    speeds = {**slower_from(3, by=0.9), **slower_from(6, by=0.5)}
    assert search(RELEASES, Bench(speeds), 6, answers=False).after == "1.6"


def test_a_release_between_that_differs_from_neither_is_measured_more_often():
    bench = Bench({**slower_from(4, by=0.97), **slower_from(5, by=0.94)}, noise=0.03, seed=4)
    search(RELEASES, bench, 6, answers=False)
    assert {repeats for _, _, repeats in bench.stages} > {6}


def test_a_release_without_a_figure_is_left_out_and_named():
    bench = Bench(slower_from(4), v4=Trial(obstacle="unsupported: no wheel"))
    found = search(RELEASES, bench, 6, answers=False)
    assert (found.before, found.after) == ("1.3", "1.5")
    assert found.left_out == {"1.4": "unsupported: no wheel"}


def test_wrong_answers_are_a_find_of_their_own():
    wrong = Trial(wrong="logit_error 3", obstacle="invalid: logit_error 3")
    found = search(RELEASES, Bench(slower_from(4), v6=wrong), 6, answers=False)
    assert found.after == "1.4" and found.wrong == {}
    found = search(RELEASES, Bench(slower_from(7), v6=wrong), 6, answers=False)
    assert found.after == "1.7" and found.wrong == {"1.6": "logit_error 3"}


@pytest.mark.parametrize("step", [1, 5, 8])
def test_the_release_that_computes_wrongly_is_named(step):
    wrong = {f"v{n}": Trial(wrong="rows", obstacle="invalid: rows") for n in range(step, 9)}
    bench = Bench({}, **wrong)
    found = search(RELEASES, bench, 1, answers=True)
    assert (found.before, found.after) == (RELEASES[step - 1], RELEASES[step])
    assert found.sentence.startswith(f"after 1.{step - 1} the answers are refused")
    assert {repeats for _, _, repeats in bench.stages} == {1}


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (Trial(obstacle="error: it raised"), "1.8 has no figure: error: it raised"),
        (
            Trial(speeds=dict.fromkeys(range(6), 0.5), disturbed=4, runs=6),
            "because 4 of 6 runs of 1.8 were disturbed: measure again (--again)",
        ),
    ],
)
def test_an_end_that_says_nothing_decides_nothing(end, sentence):
    found = search(RELEASES, Bench({}, v8=end), 6, answers=False)
    assert not found.after and not found.decided
    assert found.sentence.startswith("nothing is decided") and sentence in found.sentence


def test_a_step_that_new_runs_do_not_show_is_not_named():
    bench = Bench(slower_from(8))

    def measure(stage, versions, repeats):
        if stage == "again":
            bench.speeds = {}
        return bench(stage, versions, repeats)

    found = search(RELEASES, measure, 6, answers=False)
    assert not found.after and found.decided
    assert "the ends differ, and new runs of 1.7 and 1.8, where the step would" in found.sentence


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """Wheels of numpy by their names, in a folder; no registry is asked."""
    for version in ("2.0.0", "2.1.0", "2.2.0", "2.3.0rc1", "2.3.0"):
        wheel(tmp_path / "wheels", "numpy", version=version)
    wheel(tmp_path / "wheels", "numpy", version="2.1.5", tag="cp38-cp38-win32")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    releases.of.cache_clear()
    yield
    releases.of.cache_clear()


@pytest.fixture
def measured(monkeypatch):
    """Each measurement of a sweep writes a drawn speed: numpy 2.2 and later are slower. It is
    interrupted after `stop` calls.
    """
    calls = []
    number = count()

    def measure(request, *_):
        if len(calls) == measure.stop:
            raise KeyboardInterrupt
        (pin,) = request.pins
        speed = random.Random(next(number)).gauss(80 if pin.version >= "2.2" else 100, 1)
        result = replace(
            run.not_measured(request, Status.OK, ""),
            metric=Metric("samples_per_second", speed, "samples/s", True),
            metrics={"samples_per_second": speed},
        )
        options = request.options
        with rundir.opened(options.out, request.cell(), "quick", options.sweep) as directory:
            result = replace(result, directory=str(directory))
            write_json(directory / "result.json", asdict(result))
        calls.append(pin.version)
        return result

    measure.stop = -1
    measure.calls = calls
    monkeypatch.setattr(run, "run", measure)
    return measure


def bisect(out, *flags):
    words = ["--sut", "mock", "--model", "bert", "--scenario", "Offline", "--package", "numpy"]
    words += ["--from", "2.0.0", "--to", "newest", "--cache", str(CACHE), "--out", str(out)]
    return cli.main(["bisect", *words, *flags])


def test_the_command_names_the_release_and_goes_on_after_an_interruption(
    toys, measured, tmp_path, capsys
):
    measured.stop = 17
    assert bisect(tmp_path / "runs", "--yes") == 130
    said = capsys.readouterr().err
    assert "4 releases of numpy with a wheel for this Python: 2.0.0, 2.1.0, 2.2.0, 2.3.0" in said
    assert "at most 4 environments, of which 4 have to be made, and 60 measurements" in said
    assert "a step is named in 0.13% of such searches" in said
    measured.stop = -1
    assert bisect(tmp_path / "runs", "--yes", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, read_json(ROOT / "compliance/schemas/report.json"))
    assert (found["before"], found["after"]) == ("2.1.0", "2.2.0")
    assert len(measured.calls) <= 60
    before = len(measured.calls)
    assert bisect(tmp_path / "runs", "--yes") == 0
    assert len(measured.calls) == before
    sentence = r"numpy: after 2\.1\.0 the cell is slower: 2\.2\.0 has 0\.(7|8)"
    assert re.search(sentence, capsys.readouterr().out)
    assert bisect(tmp_path / "runs", "--yes", "--again") == 0
    assert len(measured.calls) == 2 * before


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--from", "2.3.0", "--to", "2.0.0"], "--from is the older release"),
        (["--from", "2", "--to", "2.*"], "is no version"),
        (["--sut", "mock,native-jax"], "bisect measures one cell, and the flags give 2"),
        (["--package", "nothing"], "the registry has no release of nothing with a wheel"),
    ],
)
def test_a_mistake_gets_one_sentence(toys, tmp_path, capsys, flags, sentence):
    words = {
        "--sut": "mock",
        "--model": "bert",
        "--scenario": "Offline",
        "--package": "numpy",
        "--from": "2.0.0",
        "--to": "2.3.0",
        "--out": str(tmp_path),
    }
    words |= dict(zip(flags[::2], flags[1::2], strict=True))
    arguments = [word for pair in words.items() for word in pair]
    assert cli.main(["bisect", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_dry_run_measures_nothing(toys, measured, tmp_path, capsys):
    assert bisect(tmp_path / "runs", "--dry-run") == 0
    assert "60 measurements" in capsys.readouterr().out
    assert measured.calls == [] and not (tmp_path / "runs").exists()
