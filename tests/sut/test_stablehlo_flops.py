"""The operations of a program, from its text in StableHLO as JAX 0.10 writes it."""

from math import nan

import pytest

from sut.evidence import stablehlo_flops

PRODUCT = (
    "%1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0], precision = [DEFAULT,"
    " DEFAULT] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"
)
OF_PRODUCT = 2 * 4 * 8 * 16
PROGRAM = """module @jit_f {{
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x16xf32>) {{
    %c = stablehlo.constant dense<{first}> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_1 = %c) : tensor<4x8xf32>, tensor<i32>
    cond {{
      %c_2 = stablehlo.constant dense<6> : tensor<i32>
      %3 = stablehlo.compare LT, %iterArg_1, {end}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    }} do {{
      %3 = func.call @layer(%iterArg) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      stablehlo.return %3, %iterArg_1 : tensor<4x8xf32>, tensor<i32>
    }}
    {product}
    return %1 : tensor<4x16xf32>
  }}
  func.func private @layer(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {{
    {product}
    return %1 : tensor<4x8xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    ("first", "end", "products"), [(0, "%c_2", 7), (1, "%c_2", 6), (0, "%arg1", nan)]
)
def test_a_function_counts_as_often_as_the_loop_around_its_call_goes_round(first, end, products):
    text = PROGRAM.format(first=first, end=end, product=PRODUCT)
    expected = pytest.approx(products * OF_PRODUCT, abs=0, nan_ok=True)
    assert stablehlo_flops.of(text) == expected


@pytest.mark.parametrize(
    ("product", "flops"),
    [
        (
            "stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]"
            " : (tensor<3x4x8xf32>, tensor<3x8x5xf32>) -> tensor<3x4x5xf32>",
            2 * 3 * 4 * 8 * 5,
        ),
        (
            "stablehlo.convolution(%4, %5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],"
            " window = {stride = [1, 1]} {feature_group_count = 1 : i64} :"
            " (tensor<4x8x8x3xf32>, tensor<3x3x3x5xf32>) -> tensor<4x8x8x5xf32>",
            2 * (4 * 8 * 8 * 5) * (3 * 3 * 3),
        ),
    ],
)
def test_each_multiplication_counts_as_two_operations(product, flops):
    text = f"  func.func public @main(%arg0: tensor<f32>) {{\n    %1 = {product}\n  }}"
    assert stablehlo_flops.of(text) == flops
