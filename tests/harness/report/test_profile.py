"""What a profile says in tables, in sentences and on its page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from formats.profile import (
    CLASSES,
    HOST,
    Operation,
    Profile,
    ProfiledSut,
    Start,
    StepOperations,
    StepProfile,
)
from harness.commands.profile import _narrow
from harness.report import profile, profile_page

EAGER, COMPILED = "native-torch-eager", "native-torch-compile"


def step(kernels: float = 10.0, other: float = 0.0, **seconds: float) -> StepProfile:
    named = {kind.replace(" ", "_"): kind for kind in CLASSES}
    times = dict.fromkeys(CLASSES, 0.0) | {named[key]: each for key, each in seconds.items()}
    times["other"] = other
    strange = Operation(name="strange<&>", kind="other", seconds=other, calls=1.0)
    return StepProfile(
        profiler="torch.profiler",
        steps=3,
        unprofiled_seconds=0.5,
        seconds=times,
        kernels=kernels,
        operations=(strange,) if other else (),
    )


def found(*suts: ProfiledSut, flops: dict[str, float] | None = None) -> Profile:
    return Profile(
        command="./run.sh profile",
        title="bert mid",
        machine="a processor",
        suts=suts,
        operations=StepOperations(flops=flops) if flops else None,
        no_operations="" if flops else "no reference",
    )


def profiled(sut: str, of: StepProfile | None) -> ProfiledSut:
    status = "ok" if of else "error"
    return ProfiledSut(sut=sut, label=sut, status=status, reason="words", step=of)


def test_the_share_of_time_stands_beside_the_share_of_operations():
    of = step(matrix_product=0.61, normalisation=0.25, pointwise=0.14)
    flops = {"matrix product": 998.0, "normalisation": 1.0, "pointwise": 1.0}
    said = list(profile.sentences(found(profiled(EAGER, of), flops=flops)))
    assert said == [
        f"{EAGER}: products are 99.8% of the floating-point operations and 61% of the time; norms,"
        " softmax and sums take 25%, pointwise operators 14%"
    ]


def test_attention_and_convolutions_are_products():
    of = step(matrix_product=0.3, attention=0.2, convolution=0.1, pointwise=0.4)
    assert "products take 60% of the time" in next(profile.sentences(found(profiled(EAGER, of))))


def test_kernels_of_a_compiled_sut_are_compared_with_the_eager_one():
    suts = (profiled(EAGER, step(400.0, pointwise=1)), profiled(COMPILED, step(150.0, pointwise=1)))
    said = list(profile.sentences(found(*suts)))
    assert f"{COMPILED} runs 150 kernels a step, and {EAGER} 400" in said


def test_tuned_cells_of_one_eager_sut_are_no_compiled_ones():
    plain = profiled(EAGER, step(400.0, pointwise=1))
    tuned = replace(plain, label=f"{EAGER} tuned=dynamic")
    suts = (plain, tuned, profiled(COMPILED, step(150.0, pointwise=1)))
    said = [each for each in profile.sentences(found(*suts)) if "kernels a step" in each]
    assert said == [f"{COMPILED} runs 150 kernels a step, and {EAGER} 400"]
    assert list(profile.steps(found(*suts))) == [EAGER, f"{EAGER} tuned=dynamic", COMPILED]


def test_more_than_15_percent_of_other_is_said_with_its_names():
    little, much = step(other=0.14, pointwise=0.86), step(other=0.16, pointwise=0.84)
    few = list(profile.sentences(found(profiled(EAGER, little))))
    said = list(profile.sentences(found(profiled(EAGER, much))))
    assert not any("in no class" in sentence for sentence in few)
    assert any("16% of the time" in each and "strange<&>" in each for each in said)


def test_a_sut_without_a_profile_says_why():
    said = list(profile.sentences(found(profiled(EAGER, None))))
    assert f"{EAGER}: error: words" in said


def test_the_classes_of_the_table_add_up_to_the_profiled_step():
    of = step(matrix_product=0.4, pointwise=0.2, launch_and_host_overhead=0.1)
    table = profile.by_class(found(profiled(EAGER, of)))
    *classes, whole = table.groups[""]
    assert [row[0] for row in classes] == ["matrix product", "pointwise", HOST]
    assert whole == ["profiled step", "700", "100 %"]


def test_four_suts_fit_into_100_columns():
    names = (EAGER, COMPILED, "keras3-jax", "keras3-tensorflow-graph")
    of = step(matrix_product=1.2, launch_and_host_overhead=0.1, embedding_and_gather=0.01)
    whole = found(*(profiled(name, of) for name in names), flops={"matrix product": 1e12})
    columns, rows = _narrow(profile.by_class(whole), names)
    heads = [max(map(len, column.split("\n"))) for column in columns]
    widths = [max(width, *(len(row[n]) for row in rows)) for n, width in enumerate(heads)]
    assert sum(widths) + 2 * len(widths) <= 100


def test_the_page_has_the_picture_and_escapes_names():
    flops = {"matrix product": 1e12, "normalisation": 1e9}
    suts = (profiled(EAGER, step(other=0.2, pointwise=1)), profiled("keras3-jax", None))
    whole = found(*suts, flops=flops)
    html = profile_page.render(whole, datetime(2026, 1, 1, tzinfo=UTC))
    assert html.startswith(profile_page.BEGINNING)
    assert "<svg" in html and "FLOPs" in html
    assert "strange&lt;&amp;&gt;" in html and "strange<&>" not in html
    assert profile_page.picture(whole).startswith("<svg xmlns")


def test_a_profile_of_no_sut_has_a_page_without_a_picture():
    nothing = found(profiled(EAGER, None))
    assert profile_page.picture(nothing) == ""
    assert "<svg" not in profile_page.render(nothing, datetime(2026, 1, 1, tzinfo=UTC))


def test_what_compiling_costs_is_shown_with_an_empty_and_with_a_filled_cache():
    def start(cached: int, call: float, compiling: float) -> Start:
        return Start(
            cached=cached,
            compiled=0,
            import_seconds=1.0,
            load_seconds=2.0,
            first_call_seconds=call,
            compile_seconds=compiling,
        )

    eager = replace(profiled(EAGER, step(pointwise=1)), starts=(start(0, 0.5, 0.2),))
    fast = replace(step(pointwise=1), unprofiled_seconds=0.25)
    starts = (start(0, 9.5, 9.0), start(3, 2.0, 1.5))
    compiled = replace(profiled(COMPILED, fast), starts=starts)
    kept_none = replace(profiled("keras3-tensorflow", fast), starts=(starts[0], starts[0]))
    whole = found(eager, compiled, kept_none)
    assert profile.starts(whole).groups[""] == [
        (EAGER, "3.5 s", "", "", "", "", "", ""),
        (COMPILED, "12.5 s", "5.0 s", "9.0 s", "1.5 s", "36 batches", "6 batches", EAGER),
        ("keras3-tensorflow", "12.5 s", "", "9.0 s", "", "", "", ""),
    ]
    said = list(profile.sentences(whole))
    assert [each for each in said if "second start" in each] == [
        "keras3-tensorflow: at the second start not all compiled programs were found on disk, so"
        " every start compiles"
    ]


def test_compiling_that_saves_no_time_does_not_pay():
    starts = (
        Start(
            cached=0,
            compiled=1,
            import_seconds=1,
            load_seconds=1,
            first_call_seconds=1,
            compile_seconds=1,
        ),
    )
    eager, compiled = profiled(EAGER, step(pointwise=1)), profiled(COMPILED, step(pointwise=1))
    (row,) = profile.starts(found(eager, replace(compiled, starts=starts))).groups[""]
    assert row[5:] == ("not here", "", EAGER)
