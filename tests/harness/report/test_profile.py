"""What a profile says in tables, in sentences and on its page."""

from formats.profile import (
    CLASSES,
    HOST,
    Operation,
    Profile,
    ProfiledSut,
    StepOperations,
    StepProfile,
)
from harness.report import profile

EAGER, COMPILED = "native-torch-eager", "native-torch-compile"


def step(kernels=10.0, other=0.0, **seconds):
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


def found(*suts, flops=None):
    return Profile(
        command="./run.sh profile",
        title="bert mid",
        machine="a processor",
        suts=suts,
        operations=StepOperations(flops=flops) if flops else None,
        no_operations="" if flops else "no reference",
    )


def profiled(sut, of):
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
    (_, _, (*classes, whole)), _ = profile.tables(found(profiled(EAGER, of)))
    assert [row[0] for row in classes] == ["matrix product", "pointwise", HOST]
    assert whole == ["profiled step", "    700 100 %"]


def test_four_suts_fit_into_100_columns():
    names = (EAGER, COMPILED, "keras3-jax", "keras3-tensorflow-graph", "native-jax")
    of = step(matrix_product=1.2, launch_and_host_overhead=0.1, embedding_and_gather=0.01)
    whole = found(*(profiled(name, of) for name in names), flops={"matrix product": 1e12})
    (_, first, rows), (_, second, _), _ = profile.tables(whole)
    assert (len(first), len(second)) == (6, 3)
    heads = [max(map(len, column.split("\n"))) for column in first]
    widths = [max(width, *(len(row[n]) for row in rows)) for n, width in enumerate(heads)]
    assert sum(widths) + 2 * len(widths) <= 100
