"""The time of a call is divided among its operators, and nothing of it is lost or counted twice."""

from hypothesis import given
from hypothesis import strategies as st

from formats.profile import CLASSES, HOST
from sut.evidence.wall_time import Span, Trace, divided

PRODUCT, POINTWISE, NORM = "matrix product", "pointwise", "normalisation"


def span(name, kind, start, end, lane="main"):
    return Span(lane, name, kind, start * 1e9, end * 1e9)


def seconds(spans, end, start=0.0, steps=1):
    step = divided(Trace("test", start * 1e9, end * 1e9, spans), steps, 1.0)
    return {kind: round(each, 9) for kind, each in step.seconds.items() if each}


def test_time_without_an_operator_is_overhead_of_the_host():
    spans = [span("mm", PRODUCT, 1, 4), span("add", POINTWISE, 6, 7)]
    assert seconds(spans, end=10) == {PRODUCT: 3, POINTWISE: 1, HOST: 6}


def test_an_operator_gets_its_time_without_those_that_it_calls():
    spans = [span("norm", NORM, 0, 10), span("add", POINTWISE, 2, 5), span("mul", POINTWISE, 5, 6)]
    assert seconds(spans, end=10) == {NORM: 6, POINTWISE: 4}


def test_operators_of_two_threads_share_the_time_in_which_both_run():
    spans = [span("mm", PRODUCT, 0, 4, "one"), span("add", POINTWISE, 2, 6, "two")]
    assert seconds(spans, end=6) == {PRODUCT: 3, POINTWISE: 3}


def test_only_the_profiled_steps_count():
    spans = [span("mm", PRODUCT, 0, 4), span("add", POINTWISE, 4, 9), span("mm", PRODUCT, 9, 12)]
    assert seconds(spans, start=3, end=8) == {PRODUCT: 1, POINTWISE: 4}


def test_a_step_has_its_share_of_time_and_calls():
    spans = [span("mm", PRODUCT, n, n + 0.5) for n in range(4)]
    step = divided(Trace("test", 0, 4e9, spans), 4, 1.0)
    assert (step.seconds[PRODUCT], step.seconds[HOST]) == (0.5, 0.5)
    assert step.kernels == 1
    assert [(each.name, each.seconds, each.calls) for each in step.operations] == [("mm", 0.5, 1)]


def test_an_operator_that_calls_others_of_its_class_is_no_kernel_of_its_own():
    spans = [
        span("convolution", PRODUCT, 0, 9),
        span("_convolution", PRODUCT, 1, 8),
        span("copy", "data movement", 1, 2),
        span("mkldnn_convolution", PRODUCT, 2, 7),
        span("mm", PRODUCT, 10, 11),
        span("mm", PRODUCT, 2, 3, "another thread"),
        span("view", HOST, 11, 12),
    ]
    step = divided(Trace("test", 0, 12e9, spans), 1, 1.0)
    assert step.kernels == 4
    assert step.seconds[PRODUCT] == 8 + 1


def test_an_operator_that_calls_another_class_counts():
    spans = [span("softmax", NORM, 0, 9), span("exp", POINTWISE, 1, 8)]
    assert divided(Trace("test", 0, 9e9, spans), 1, 1.0).kernels == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(CLASSES), st.integers(0, 50), st.integers(0, 50)
        ),
        max_size=25,
    )
)
def test_the_classes_add_up_to_the_call(drawn):
    """Even if spans overlap without one being within the other, as a clock's rounding may show."""
    spans = [span(kind, kind, min(a, b), max(a, b), lane) for lane, kind, a, b in drawn]
    step = divided(Trace("test", 5e9, 45e9, spans), 1, 1.0)
    assert abs(step.profiled_seconds - 40) < 1e-6
    assert min(step.seconds.values()) >= -1e-9
