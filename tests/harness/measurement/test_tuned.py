"""Real SUTs with switches or quantised weights: these reach the SUT, and its answers and its
evidence are judged.
"""

from formats import reading
from formats.record import Record
from formats.result import Status
from results import disturbance
from tests.support.cells import measure, request


def test_switches_reach_the_sut_and_its_execution_is_still_proven(tmp_path):
    asked = request(
        tmp_path,
        sut="native-torch-eager",
        scenario="Offline",
        size="tiny",
        tuned="to-mkldnn+huge-pages",
    )
    result = measure(asked)
    assert result.status is Status.OK or result.cause in disturbance.BY_CLOCK, result.reason
    assert result.cell.switches == ("huge-pages", "to-mkldnn")
    detail = result.seen.detail
    assert detail["settings"] == {"to-mkldnn": "on"}
    assert detail["matrix_products"]["library"] == "oneDNN"
    assert detail["script_calls"] == detail["script_modules"] == 0
    record = reading.from_file(tmp_path / result.cell.name / "quick-1/record.json", Record)
    assert record.environment.variables["THP_MEM_ALLOC_ENABLE"] == "1"
    assert record.cell == result.cell


def test_quantised_weights_are_proven_and_judged(tmp_path):
    asked = request(
        tmp_path, sut="keras3-jax", scenario="Offline", size="tiny", options={"quantize": "int8"}
    )
    result = measure(asked)
    assert result.status is Status.OK or result.cause in disturbance.BY_CLOCK, result.reason
    assert result.cell.quantized == "int8"
    after = result.seen
    assert after.precision == "float32 with int8"
    elements = {dtype: of["elements"] for dtype, of in after.detail["weights"].items()}
    assert elements["int8"] > elements["float32"]
    assert result.accuracy.threshold == 0.15
