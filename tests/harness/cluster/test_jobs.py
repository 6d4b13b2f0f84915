"""Cells → jobs: comparisons stay together, and a recipe has exactly the cells of its job."""

from harness.cluster import jobs
from harness.sweep import cells, recipe


def words(**flags):
    return tuple(word for name, value in flags.items() for word in (f"--{name}", value))


def test_suts_with_the_same_work_are_one_job_and_other_work_is_another():
    each = [
        words(sut=sut, model=model, scenario=scenario)
        for model in ("bert", "mistral")
        for scenario in ("Offline", "SingleStream")
        for sut in ("native-jax", "keras3-jax")
    ]
    grouped = jobs.comparisons(each)
    assert [len(group) for group in grouped] == [2, 2, 2, 2]
    assert [cell for group in grouped for cell in group] == each


def test_options_and_switches_of_a_sut_do_not_separate_rivals():
    plain = words(sut="native-jax", model="bert")
    tuned = (*plain, "--tuned", "on")
    other = (*words(sut="mock", model="bert"), "--sut-option", "latency-ms=1")
    assert jobs.comparisons([plain, tuned, other]) == [[plain, tuned, other]]


def test_a_default_may_be_the_value_of_a_rival_so_both_are_on_one_node():
    large = (*words(sut="a", model="bert"), "--batch-size", "32")
    small = (*words(sut="a", model="bert"), "--batch-size", "1")
    assert jobs.comparisons([large, small]) == [[large], [small]]
    default = words(sut="b", model="bert")
    assert jobs.comparisons([large, small, default]) == [[large, small, default]]


def test_the_recipe_of_a_job_has_exactly_its_cells(tmp_path):
    grid = {
        "sut": ["mock"],
        "model": ["bert"],
        "scenario": ["Offline"],
        "sut_option": ["latency-ms=1", "seed=2"],
        "dataset": ['say "one" \\ two.txt'],
    }
    each = [*cells.expand(grid), *cells.expand({**grid, "model": ["mistral"]})]
    first, second = jobs.of(each, tmp_path / "sweep-1", ["--repeats", "2"])
    for job in (first, second):
        job.write("./run.sh sweep …")
        read = recipe.read(str(job.recipe))
        assert [cell for each in read.grids for cell in cells.expand(each)] == job.cells
    assert first.name == "sweep-1.1" and first.log.read_text() == ""
    assert first.command[1:] == ["sweep", str(first.recipe), "--repeats", "2"]
    assert "model bert" in first.label and first.label.endswith("(mock)")
