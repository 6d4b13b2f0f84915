"""Which library multiplies matrices, read from what libraries, programs and the system report."""

from collections import Counter

import pytest

from sut.evidence import matrix_library

ONEDNN = (
    "onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16"
    " support\nonednn_verbose,v1,primitive,exec,cpu,matmul,{},undef,src:bf16::blocked:ab::f0"
    " wei:bf16::blocked:ba::f0,,64x384:384x384,7.7\n"
)
HLO = """HloModule jit_f, is_scheduled=true

%fused (a: f32[4,4]) -> f32[4,4] {
  ROOT %dot.0 = f32[4,4]{1,0} dot(%a, %a), lhs_contracting_dims={1}
}

%sums (a: f32[4,4]) -> f32[4] {
  ROOT %r = f32[4]{0} reduce(%a, %zero), dimensions={0}, to_apply=%add
}

ENTRY %main.1 (a: f32[4,4]) -> f32[4,4] {
  %y = f32[4,4]{1,0} fusion(%a), kind=kCustom, calls=%fused, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
  %s = f32[4]{0} fusion(%a), kind=kCustom, calls=%sums, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
  %p = f32[4,4]{1,0} dot(%a, %a), lhs_contracting_dims={1}
  ROOT %c = f32[4,4]{1,0} custom-call(%y, %p), custom_call_target="__onednn$matmul"
}
"""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (ONEDNN.format("brg_matmul:avx512_core_bf16"), ("oneDNN", "AVX-512")),
        (ONEDNN.format("brg_matmul:avx10_1_512_amx"), ("oneDNN", "AMX")),
        (ONEDNN.format("jit:avx2"), ("oneDNN", "AVX2")),
        (ONEDNN.format("ref:any"), ("oneDNN", "unknown")),
        ("", ("unknown", "unknown")),
    ],
)
def test_onednn_prints_what_multiplied(lines, told):
    assert matrix_library.printed(lines) == told


def test_a_program_of_xla_names_the_library_of_each_product_and_of_no_other_fusion():
    assert matrix_library.of_hlo(HLO) == {"YNNPACK": 1, "unknown": 1, "oneDNN": 1}


def test_most_products_decide_and_none_leave_the_library_unknown():
    assert matrix_library.most(Counter(YNNPACK=5, unknown=1)) == "YNNPACK"
    assert matrix_library.most({}) == "unknown"


def test_the_threads_of_a_pool_are_counted_by_their_names(tmp_path, monkeypatch):
    for number, name in enumerate(("tf_XLAEigen/1", "tf_XLAEigen/2", "python")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    monkeypatch.setattr(matrix_library, "_TASKS", tmp_path)
    assert matrix_library.pool("tf_XLAEigen") == 2
    assert matrix_library.fact(threads=matrix_library.pool("none"))["threads"] == "unknown"
