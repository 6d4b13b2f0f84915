"""The classes of names that real traces contain."""

import tomllib
from pathlib import Path

import pytest

from formats.profile import CLASSES, HOST, OTHER
from sut import onnxruntime
from sut.evidence import operation_classes
from sut.evidence.operation_classes import inductors_products, of, of_kernel, of_torch

NORM, POINTWISE, PRODUCT = "normalisation", "pointwise", "matrix product"
MOVED, GATHER, ATTENTION = "data movement", "embedding and gather", "attention"


def test_the_table_has_only_our_classes():
    table = Path(operation_classes.__file__).with_name("operations.toml")
    tables = tomllib.loads(table.read_text(encoding="utf-8"))
    own = Path(onnxruntime.__file__).with_name("operations.toml")
    tables["onnxruntime"] = tomllib.loads(own.read_text(encoding="utf-8"))
    for classes in (*tables.pop("together").values(), *tables.values()):
        assert set(classes) <= set(CLASSES) - {OTHER}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", PRODUCT),
        ("mkldnn::_linear_pointwise", PRODUCT),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", ATTENTION),
        ("aten::convolution_backward", "convolution"),
        ("aten::native_layer_norm", NORM),
        ("aten::_softmax", NORM),
        ("aten::sum", NORM),
        ("aten::add_", POINTWISE),
        ("aten::gelu_backward", POINTWISE),
        ("aten::_foreach_mul_", POINTWISE),
        ("aten::__rsub__", POINTWISE),
        ("aten::embedding_dense_backward", GATHER),
        ("aten::copy_", MOVED),
        ("aten::cat", MOVED),
        ("aten::linear", HOST),
        ("autograd::engine::evaluate_function: AddmmBackward0", HOST),
        ("cpp_fused_add_native_layer_norm_view_2", NORM),
        ("cpp_fused__unsafe_view_add_embedding_mean_mul_pow_rsqrt_0", NORM),
        ("cpp_fused_gelu_view_3", POINTWISE),
        ("cpp_fused_clone_permute_view_7", MOVED),
        ("triton_per_fused_native_layer_norm_4", NORM),
        ("triton_poi_fused_gelu_2", POINTWISE),
        ("triton_tem_fused_mm_5", PRODUCT),
        ("cpp_gemm_fused_addmm_gelu_view_3", PRODUCT),
        ("quantized::an_operator_of_tomorrow", OTHER),
    ],
)
def test_operators_of_torch(name, kind):
    assert of_torch(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8", PRODUCT),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", ATTENTION),
        ("void at::native::vectorized_layer_norm_kernel<float>", NORM),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDA>", POINTWISE),
        ("Memcpy HtoD (Pinned -> Device)", MOVED),
        ("void at::native::CatArrayBatchedCopy<float>", MOVED),
    ],
)
def test_kernels_for_gpus(name, kind):
    assert of("cuda", name) == kind


@pytest.mark.parametrize(
    ("names", "scope", "kind"),
    [
        (["fusion", "parameter", "dot", "add"], "jit(f)/dense/dot_general", PRODUCT),
        (["fusion", "multiply", "rsqrt", "subtract"], "jit(f)/mul", NORM),
        (["fusion", "multiply", "add"], "jit(f)/encoder/layer_norm_3/mul", NORM),
        (["fusion", "exponential", "subtract"], "jit(f)/jit(softmax)/exp", NORM),
        (["fusion", "multiply", "erf", "parameter"], "jit(f)/dense/erf", POINTWISE),
        (["multiply"], "jit(f)/normal/mul", POINTWISE),
        (["fusion", "dot", "reduce", "exponential", "multiply"], "jit(f)/dot_general", ATTENTION),
        (["transpose", "bitcast"], "jit(f)/transpose", MOVED),
        (["fusion", "gather", "add"], "jit(f)/embedding/gather", GATHER),
        (["while"], "jit(f)/while", HOST),
        (["custom-call-of-tomorrow", "parameter"], "jit(f)/call", OTHER),
    ],
)
def test_kernels_of_xla(names, scope, kind):
    assert of_kernel("hlo", names, [scope]) == kind


@pytest.mark.parametrize(
    ("name", "scope", "kind"),
    [
        ("_MklFusedMatMul", "functional_1/dense_1/MatMul", PRODUCT),
        ("Einsum", "functional_1/attention/einsum/Einsum", PRODUCT),
        ("AddV2", "functional_1/layer_normalization_2/add", NORM),
        ("AddV2", "functional_1/add/add", POINTWISE),
        ("SquaredDifference", "model/moments/SquaredDifference", NORM),
        ("ResourceGather", "model/embedding/embedding_lookup", GATHER),
        ("_MklTranspose", "model/transpose", MOVED),
        ("Reshape", "model/reshape", HOST),
    ],
)
def test_operators_of_tensorflow(name, scope, kind):
    assert of_kernel("tensorflow", [name], [scope]) == kind


# The shape of a module that Inductor wrote. A product and another kernel may have equal names.
CODE = """
cpp_fused_add_addmm_view_2 = async_compile.cpp_pybinding(['float*'], r'''
extern "C" void kernel(float* in_out_ptr0)
''')

cpp_fused_addmm_gelu_view_3 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
inline void kernel_micro_gemm(const float* A)
extern "C" void kernel(const float* X, float* Y)
''')

async_compile.wait(globals())
        cpp_fused_add_addmm_view_2(buf0)
"""


def test_inductors_own_products_are_found_by_their_code():
    assert inductors_products(CODE) == {"cpp_fused_addmm_gelu_view_3"}
