"""The worked example of a SUT runs as it stands in docs/extend/adding-a-sut.md."""

import pytest

from tests.documents import blocks, copy_of_the_source, insert, run


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source with the example's SUT put in."""
    copy, example = (
        copy_of_the_source(tmp_path_factory.mktemp("copy")),
        blocks("extend/adding-a-sut.md"),
    )
    insert(copy / "sut/registry.py", "SUTS: dict[str, SutSpec] = {", example["registry"])
    (copy / "sut/native_numpy").mkdir()
    (copy / "sut/native_numpy/bert.py").write_text(example["sut/native_numpy/bert.py"])
    return copy


def test_the_worked_example_passes_accuracy_and_audit(tree, interpreter):
    interpreter("native-torch")  # the reference's
    cell = run(tree, blocks("extend/adding-a-sut.md")["sut"], "--duration", "1")
    assert (cell["status"], cell["reason"]) == ("ok", "")
    assert cell["accuracy"]["passed"]
    assert cell["accuracy"]["value"] > 0  # another implementation, not the reference itself
    assert (tree / "runs").exists()
