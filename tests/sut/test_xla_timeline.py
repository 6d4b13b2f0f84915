"""What the events of XLA's profiler and the text of a program say of the time of a call."""

import pytest

from formats.profile import HOST
from sut.evidence import hlo
from sut.evidence.wall_time import divided
from sut.evidence.xla_timeline import WINDOW, Event, Program, trace_of

TEXT = """HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[8,64]{1,0})->f32[8,64]{1,0}}

%region_0.4 (a.1: f32[], b.1: f32[]) -> f32[] {
  %a.1 = f32[] parameter(0)
  %b.1 = f32[] parameter(1)
  ROOT %sum.2 = f32[] add(%a.1, %b.1), metadata={op_name="jit(step)/reduce_sum"}
}

%fused_computation.1 (param_0.3: f32[8,64], param_1: f32[8]) -> f32[8,64] {
  %param_0.3 = f32[8,64]{1,0} parameter(0)
  %param_1 = f32[8]{0} parameter(1)
  %rsqrt.1 = f32[8]{0} rsqrt(%param_1), metadata={op_name="jit(step)/rsqrt"}
  %broadcast.5 = f32[8,64]{1,0} broadcast(%rsqrt.1), dimensions={0}
  ROOT %multiply.4 = f32[8,64]{1,0} multiply(%param_0.3, %broadcast.5)
}

%parallel_copy.1 (p: f32[8,64]) -> f32[8,64] {
  %p = f32[8,64]{1,0} parameter(0)
  ROOT %copy.9 = f32[8,64]{0,1} copy(%p)
}

ENTRY %main.7 (Arg_0.1: f32[8,64]) -> (f32[8,64], /*index=1*/f32[8]) {
  %Arg_0.1 = f32[8,64]{1,0} parameter(0), metadata={op_name="x"}
  %dot.1 = f32[8,64]{1,0} dot(%Arg_0.1, %Arg_0.1), metadata={op_name="jit(step)/dense/dot_general"}
  %call.2 = f32[8,64]{0,1} call(%dot.1), to_apply=%parallel_copy.1
  %mul_fusion = f32[8,64]{1,0} fusion(%dot.1, %Arg_0.1), kind=kLoop, calls=%fused_computation.1
  %mul.5 = f32[8,64]{1,0} multiply(%dot.1, %dot.1), metadata={op_name="jit(step)/norm/mul"}
  %add.6 = f32[8,64]{1,0} add(%dot.1, %dot.1), metadata={op_name="jit(step)/dense/add"}
  %exp.3 = f32[8,64]{1,0} exponential(%dot.1), metadata={op_name="jit(step)/jit(_softmax)/exp"}
  %gemm.1 = (f32[8,64]{1,0}, s8[64]{0}) custom-call(%dot.1), custom_call_target="__cublas$gemm"
  ROOT %tuple.1 = (f32[8,64]{1,0}, /*index=1*/f32[8]{0}) tuple(%mul_fusion, %Arg_0.1)
}
"""


def test_the_text_of_a_program_says_the_class_of_each_instruction():
    classes = hlo.classes(hlo.read(TEXT))
    assert classes["dot.1"] == classes["gemm.1"] == "matrix product"
    assert classes["mul_fusion"] == classes["exp.3"] == "normalisation"
    assert (classes["mul.5"], classes["add.6"]) == ("normalisation", "pointwise")
    assert classes["copy.9"] == "data movement"
    assert classes["call.2"] == classes["tuple.1"] == HOST


def test_a_program_of_newer_text_without_percent_signs_is_read():
    plain = TEXT.replace("%", "")
    assert hlo.classes(hlo.read(plain)) == hlo.classes(hlo.read(TEXT))


def event(name, start, end, **facts):
    return Event(name, "thread", start, end, **facts)


def ran(instruction, start, end, run=1, **facts):
    return event(
        instruction, start, end, instruction=instruction, module="jit_step", run=run, **facts
    )


PROGRAMS = {"jit_step": [Program(hlo.classes(hlo.read(TEXT)))]}


def seconds(events, programs=PROGRAMS, **more):
    trace = trace_of("test", events, programs, **more)
    found = divided(trace, 1, 1.0).seconds
    return {kind: round(1e9 * each, 3) for kind, each in found.items() if each}


def test_work_that_other_threads_do_lasts_until_its_end_is_marked():
    events = [
        event(WINDOW, 0, 10),
        ran("dot.1", 1, 2),
        event("end: dot.1", 5, 5),
        ran("mul_fusion", 5, 8),
        event("end: mul_fusion", 8, 8),
    ]
    assert seconds(events) == {"matrix product": 4, "normalisation": 3, HOST: 3}


def test_an_instruction_that_runs_others_has_no_time_of_its_own():
    events = [event(WINDOW, 0, 10), ran("call.2", 0, 9), ran("copy.9", 2, 8)]
    assert seconds(events) == {"data movement": 6, HOST: 4}


def test_an_unknown_instruction_is_other():
    assert seconds([event(WINDOW, 0, 2), ran("tomorrow.1", 0, 2)]) == {"other": 2}


def test_kernels_of_an_accelerator_count_and_not_those_who_start_them():
    events = [event(WINDOW, 0, 10), ran("dot.1", 0, 2), ran("dot.1", 3, 9, on_device=True)]
    assert seconds(events) == {"matrix product": 6, HOST: 4}


def test_kernels_of_a_framework_outside_of_a_program_have_the_class_of_their_name():
    events = [
        event(WINDOW, 0, 10),
        event("MemcpyH2D", 0, 2, on_device=True),
        ran("dot.1", 2, 5, on_device=True),
        event("void tensorflow::functor::ReduceKernel<float>", 5, 9, on_device=True),
        event("on the host", 9, 10),
    ]
    divided = {"data movement": 2, "matrix product": 3, "normalisation": 4, HOST: 1}
    assert seconds(events) == divided


PRODUCT, POINTWISE = "matrix product", "pointwise"
FORWARD = Program({"fusion.1": PRODUCT, "dot.2": PRODUCT})
UPDATE = Program({"fusion.1": POINTWISE, "add.3": POINTWISE})
TWINS = {"jit_step": [FORWARD, UPDATE]}


def test_the_instructions_of_a_run_say_which_program_of_a_name_it_is():
    events = [
        event(WINDOW, 0, 10),
        ran("fusion.1", 0, 4, 1),
        ran("dot.2", 4, 5, 1),
        ran("fusion.1", 5, 7, 2),
        ran("add.3", 7, 10, 2),
    ]
    assert seconds(events, TWINS) == {PRODUCT: 5, POINTWISE: 5}


@pytest.mark.parametrize("run", [1, None])
def test_the_number_of_a_program_tells_it_from_others_of_its_name(run):
    kinds = {56: POINTWISE, 50: "data movement", 41: POINTWISE}
    programs = [Program({"copy.1": kind}, number) for number, kind in kinds.items()]
    # Program 50 was read from a cache: its events have another number.
    events = [event(WINDOW, 0, 4), ran("copy.1", 0, 3, run, program=48)]
    assert seconds(events, {"jit_step": programs}) == {"data movement": 3, HOST: 1}


@pytest.mark.parametrize("run", [1, None])
def test_an_instruction_that_programs_of_a_name_class_differently_is_other(run):
    events = [event(WINDOW, 0, 4), ran("fusion.1", 0, 4, run)]
    assert seconds(events, TWINS) == {"other": 4}


def test_an_instruction_of_a_run_without_number_belongs_to_the_program_that_has_it():
    events = [event(WINDOW, 0, 4), ran("dot.2", 0, 3, None), ran("add.3", 3, 4, None)]
    assert seconds(events, TWINS) == {PRODUCT: 3, POINTWISE: 1}


def test_operators_outside_of_a_program_have_the_class_of_their_name():
    events = [event(WINDOW, 0, 4), event("model/add:AddV2", 1, 3), event("model/x:Reshape", 3, 4)]
    classes = {"model/add:AddV2": "pointwise", "model/x:Reshape": HOST}
    assert seconds(events, class_of=lambda name: classes.get(name, "")) == {"pointwise": 2, HOST: 2}


def test_a_trace_without_the_profiled_steps_is_an_error():
    with pytest.raises(ValueError, match="recorded nothing of the profiled steps"):
        trace_of("test", [ran("dot.1", 0, 1)], PROGRAMS)
