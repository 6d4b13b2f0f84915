"""Work, precision and place of the operators in a profile of ONNX Runtime, as version 1.31.1 writes
them.
"""

import pytest

from formats.writing import write_json
from sut.onnxruntime.profile import Observed, nodes, spans

CPU = "CPUExecutionProvider"


def node(name, inputs, output, **more):
    shapes = [{kind: shape} for kind, shape in inputs]
    outputs = [{"float": output}]
    given = {"op_name": name, "provider": CPU, "input_type_shape": shapes}
    return {**given, "output_type_shape": outputs, **more}


MATMUL = node("MatMul", [("float", [2, 16, 64])], [2, 16, 128])  # a packed weight has no shape
CONV = node("Conv", [("float", [2, 3, 8, 8]), ("float", [4, 3, 3, 3])], [2, 4, 6, 6])
TRANSPOSED = node("ConvTranspose", [("float", [2, 4, 6, 6]), ("float", [4, 3, 2, 2])], [2, 3, 9, 9])


def attention(cache):
    inputs = [("float", [3, 1, 128]), (cache, [3, 2, 12, 16]), (cache, [3, 2, 12, 16])]
    return node("GroupQueryAttention", inputs, [3, 1, 64])


@pytest.mark.parametrize(
    ("each", "flops"),
    [
        (MATMUL, 2 * 2 * 16 * 64 * 128),
        (CONV, 2 * 2 * 4 * 6 * 6 * 3 * 3 * 3),
        (TRANSPOSED, 2 * 2 * 4 * 6 * 6 * 3 * 2 * 2),
        (attention("float"), 3 * (2 * 64 * 12 + 2 * 64 * 12)),
        (node("Add", [("float", [2, 3])], [2, 3]), 0),
    ],
)
def test_the_work_of_an_operator(each, flops):
    observed = Observed()
    observed.add([each], times=3)
    assert observed.detail(CPU)["flops"] == 3 * flops


def test_a_product_without_shapes_leaves_the_work_unknown():
    observed = Observed()
    observed.add([MATMUL, node("Conv", [("float", [2, 3, 8, 8])], [2, 4, 6, 6])])
    assert observed.detail(CPU)["flops"] is None


@pytest.mark.parametrize(("cache", "bits"), [("float", "32"), ("float16", "16"), ("int8", "8")])
def test_a_cache_of_another_precision_is_seen(cache, bits):
    observed = Observed()
    observed.add([attention(cache)])
    detail = observed.detail(CPU)
    assert (detail["product_bits"], detail["cache"]) == ({bits: 1}, {cache: 1})


def test_quantised_products_have_8_bits_and_other_providers_are_counted():
    observed = Observed()
    observed.add([{**MATMUL, "op_name": "MatMulNBits"}, {**MATMUL, "provider": "Other"}])
    detail = observed.detail(CPU)
    assert detail["product_bits"] == {"32": 1, "8": 1}
    assert detail["nodes_elsewhere"] == 1


def test_threads_are_those_of_the_pool_and_the_caller():
    observed = Observed()
    observed.add([{**MATMUL, "thread_scheduling_stats": {"sub_threads": {"1": {}, "2": {}}}}])
    observed.add([{**MATMUL, "thread_scheduling_stats": ""}])
    assert observed.threads == 3


def test_only_operators_that_ran_are_read_from_a_file(tmp_path):
    ran = {"cat": "Node", "name": "a_kernel_time", "ts": 5, "dur": 7, "args": MATMUL}
    others = [{"cat": "Session", "name": "model_run"}, {**ran, "name": "a_fence_before"}]
    file = tmp_path / "profile.json"
    write_json(file, [ran, *others])
    assert nodes(file) == [MATMUL]
    assert spans(file) == [("MatMul", 5, 7)]
