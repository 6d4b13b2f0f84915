"""`--sut-option quantize=`: a cell of its own, judged by the limits of bfloat16."""

import pytest

from formats.cell import cell_words
from harness.errors import UsageError
from harness.inputs import limits, models
from tests.support.cells import cells_of, request

SUT = "keras3-jax"


def asked(tmp_path, kind="int8", **changes):
    flags = {"sut": SUT, "scenario": "Offline", "size": "tiny", "options": {"quantize": kind}}
    return request(tmp_path, **flags | changes)


def test_quantised_weights_are_part_of_the_cell_and_of_its_name(tmp_path):
    cell = asked(tmp_path).cell()
    plain = asked(tmp_path, options={}).cell()
    assert (cell.quantized, plain.quantized) == ("int8", None)
    assert cell.digest != plain.digest
    assert "int8" in cell_words(cell) and "int8" not in cell_words(plain)
    assert cell.computed_precision == "float32 with int8"
    assert (cell.judged_precision, plain.judged_precision) == ("bfloat16", "float32")
    assert "int8" in asked(tmp_path).label


def test_it_is_never_compared_with_the_same_sut_in_float32():
    plain, quantized = cells_of({"sut": SUT}, {"sut": SUT, "sut_option": "quantize=int8"})
    assert plain.comparison != quantized.comparison
    assert plain.rivals == quantized.rivals


def test_its_limits_are_the_loosest_of_bfloat16_without_a_root_mean_square():
    bert = models.load("bert")
    assert limits.of_quantized(bert) == {"logit_error": bert.tolerance["bfloat16"]["logit_error"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario": "Fit"}, "is for answers, and Fit trains: leave it out"),
        (
            {"model": "roberta"},
            "the limits of bfloat16 judge quantised weights, and roberta has none",
        ),
        ({"kind": "int4"}, "unknown"),
        ({"sut": "native-jax"}, "has no such option"),
        ({"sut": "native-torch-eager"}, "has no such option"),
    ],
    ids=str,
)
def test_what_nothing_judges_or_quantises_is_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        asked(tmp_path, **changes)
