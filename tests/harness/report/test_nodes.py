"""Runs of several nodes: never pooled, and their spread in words."""

from harness.comparison import tables
from harness.comparison.runs import find
from harness.report.sections import comparisons, computing
from tests.support.reports import gathered
from tests.support.synthetic_runs import cell, write


def found(root):
    """The sentences on nodes."""
    return list(computing.node_sentences(gathered(root).groups))


def measured(root, node, rate, figures, sut="keras3-jax", minute=0, sweep=None, **changes):
    told = {"evidence": {"sentence": "", "after": {"matrix_flops": rate}}}
    told |= {"record": {"machine": {"node": node}}}
    write(root, cell(sut, **changes), figures, first_minute=minute, sweep=sweep, **told)


def test_equal_nodes_are_two_machines_and_their_spread_is_said(tmp_path):
    measured(tmp_path, "n1", 200e9, [50, 51, 49])
    measured(tmp_path, "n2", 210e9, [55, 54, 56], minute=60)
    assert [len(group.good) for group in tables.grouped(find(tmp_path)[0])] == [3, 3]
    kinds, products = found(tmp_path)
    assert kinds.startswith("2 nodes of one kind were measured: n1, n2")
    assert "of JAX in float32 on cpu reach 200 to 210 GFLOP/s on 2 nodes" in products
    assert products.endswith("n2 reaches 5.0% more than n1")


def test_products_of_replicas_are_compared_only_with_those_of_replicas(tmp_path):
    measured(tmp_path, "n1", 200e9, [50, 51, 49])
    measured(tmp_path, "n2", 100e9, [25, 24, 26], minute=60, replicas="1/2")
    (kinds,) = found(tmp_path)
    assert kinds.startswith("2 nodes of one kind")
    measured(tmp_path, "n1", 110e9, [25, 24, 26], minute=90, replicas="1/2")
    _, products = found(tmp_path)
    assert "in float32 on cpu (replicas 1/2) reach 100 to 110 GFLOP/s" in products


def test_suts_of_two_nodes_are_not_compared(tmp_path):
    measured(tmp_path, "n1", 200e9, [50, 51, 49])
    measured(tmp_path, "n2", 200e9, [90, 91, 89], sut="native-jax")
    assert not gathered(tmp_path).with_rivals


def both(root, node, minute, **changes):
    """Two SUTs in turns on one node."""
    for sut, figures in (("keras3-jax", [100, 102, 98]), ("native-jax", [50, 51, 49])):
        sweep = f"sweep-{minute}"
        measured(root, node, 200e9, figures, sut, minute, sweep=sweep, **changes)


def test_the_mean_of_ratios_is_over_nodes_of_one_kind_that_measured_other_work(tmp_path):
    both(tmp_path, "n1", 0)
    both(tmp_path, "n2", 100, batch_size=1)
    (sentence,) = comparisons.means(gathered(tmp_path)).sentences
    assert sentence.startswith(
        "machine 1, machine 2: mean speed (geometric) over the 2 comparisons"
    )
    both(tmp_path, "n1", 200, batch_size=1)
    (sentence,) = comparisons.means(gathered(tmp_path)).sentences
    assert sentence.startswith("machine 2: mean speed (geometric) over the 2 comparisons")


def test_one_node_and_a_machine_without_a_cluster_have_no_spread(tmp_path):
    measured(tmp_path, "n1", 200e9, [50, 51, 49])
    measured(tmp_path, None, 300e9, [90, 91, 89], batch_size=1)
    assert found(tmp_path) == []
