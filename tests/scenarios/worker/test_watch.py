"""What a test keeps of its own answers, and what `prepare` may do."""

import hashlib

import numpy as np
import pytest

from scenarios.worker.queries import prepared_inputs
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.watch import KEPT, Watch


def run(planned, one_pass, samples, size=4, row=8):
    """A test of so many samples, each answered by its own number."""
    watch = Watch(planned, one_pass)
    watch.start()
    for start in range(0, samples, size):
        numbers = np.arange(start, start + size, dtype=np.int64)
        watch.indices.extend((numbers % one_pass).tolist())
        if watch.next_kept < watch.samples:
            watch.keep(np.repeat(numbers[:, None], row // 8, axis=1), None, size)
    return watch


@pytest.mark.parametrize(
    ("planned", "one_pass"), [(10_000, 64), (10_000, 5_000), (100, 64), (64, 64), (1_000_000, 1024)]
)
def test_kept_answers_lie_all_over_the_test_and_half_of_them_in_its_first_pass(planned, one_pass):
    watch = run(planned, one_pass, planned)
    numbers = [number for number, _ in watch.kept]
    assert numbers == sorted(set(numbers))
    assert all(content == np.int64(number).tobytes() for number, content in watch.kept)
    first = sum(number < one_pass for number in numbers)
    assert min(one_pass, KEPT // 2) <= first <= KEPT
    assert max(np.diff([*numbers, planned])) <= 2 * max(1, planned // (KEPT // 2)) + 1


def test_a_test_that_lasts_longer_than_planned_goes_on_keeping_and_comes_to_an_end():
    watch = run(1000, 64, 100_000)
    numbers = [number for number, _ in watch.kept]
    assert 3000 < max(numbers) < 10_000
    assert len(numbers) < 5 * KEPT


def test_large_answers_are_kept_less_often():
    assert len(run(2000, 64, 2000, row=1 << 20).kept) < 65


def test_none_is_kept_where_no_test_is_planned():
    assert run(0, 64, 1000).kept == []


def test_what_is_written_is_what_was_answered(tmp_path):
    watch = run(1000, 64, 1000)
    path = tmp_path / "answers.npz"
    digest = watch.write(path, 70)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    with np.load(path) as f:
        kept = dict(f)
    assert kept["visits"].sum() == 1000 and len(kept["visits"]) == 70
    assert kept["indices"].tolist() == (kept["numbers"] % 64).tolist()
    third = kept["content"][kept["starts"][3] : kept["starts"][4]]
    assert third.view(np.int64).tolist() == [kept["numbers"][3]]


INPUTS = {
    "ids": np.random.default_rng(0).integers(3, 90, (6, 8)).astype(np.int32),
    "mask": np.tril(np.ones((6, 8), np.int32)),
    "image": np.random.default_rng(1).random((6, 2, 3, 3), np.float32),
}
HONEST = {
    "renamed": lambda x: {"tokens": x["ids"]},
    "cast": lambda x: {
        "ids": x["ids"].astype(np.int64),
        "mask": x["mask"].astype(bool),
        "half": x["image"].astype(np.float16),
    },
    "transposed": lambda x: {"image": x["image"].transpose(0, 3, 1, 2), "ids": x["ids"][:, ::-1]},
    "padded": lambda x: {
        "ids": np.pad(x["ids"], ((0, 0), (5, 3)), constant_values=7),
        "image": np.pad(x["image"], ((0, 0),) * 3 + ((0, 1),)),
    },
    "of the shape alone": lambda x: {
        "ids": x["ids"],
        "types": np.zeros_like(x["ids"]),
        "positions": np.tile(np.arange(8), (6, 1)),
    },
}
DISHONEST = {
    "half the tokens": lambda x: {"ids": x["ids"][:, :4]},
    "embedded": lambda x: {
        "hidden": np.random.default_rng(2).random((90, 4), np.float32)[x["ids"]]
    },
    "answered": lambda x: {"answer": x["image"].sum((1, 2, 3))[:, None]},
    "scaled": lambda x: {"image": (x["image"] - 0.5) / 0.2},
    "summed": lambda x: {"ids": np.cumsum(x["ids"], axis=1)},
    "the first row for all the others' mask": lambda x: {
        "ids": np.where(x["mask"] > 0, x["ids"], 5) + x["mask"]
    },
    "fewer rows": lambda x: {"ids": x["ids"][:3]},
    "no rows": lambda x: {"ids": np.array(4)},
    "nothing": lambda x: {},
}


@pytest.mark.parametrize("case", HONEST)
def test_prepare_may_rename_cast_transpose_and_pad(case):
    prepared_inputs.check(INPUTS, HONEST[case](INPUTS))


@pytest.mark.parametrize("case", DISHONEST)
def test_prepare_may_not_compute(case):
    with pytest.raises(ValueError, match="prepare"):
        prepared_inputs.check(INPUTS, DISHONEST[case](INPUTS))


def test_loaded_inputs_cannot_be_written_and_are_seen_where_they_were(tmp_path):
    np.savez(tmp_path / "inputs.npz", ids=INPUTS["ids"])
    held = []

    def prepare(inputs):
        held.append(inputs["ids"])
        return inputs

    qsl = Qsl(tmp_path / "inputs.npz", prepare)
    qsl.load(range(6))
    with pytest.raises(ValueError, match="read-only"):
        qsl.one(2)["ids"][:] = 0
    held[0][:] = 0  # what prepare returned is no longer what is measured
    qsl.unload(range(6))
    assert qsl.changed == []
    qsl.load(range(6))
    qsl.loaded["ids"].flags.writeable = True  # as a framework does that takes the address
    qsl.loaded["ids"][3, 1] += 1
    qsl.unload(range(6))
    assert qsl.changed == ["ids"]
