"""A user's own .keras file is understood without Keras, or refused in one sentence."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from harness.errors import UsageError
from harness.inputs import checkpoint, dataset, keras_file
from harness.inputs.architectures import UserFile
from harness.inputs.architectures import keras_file as architecture
from harness.inputs.keras_file import Input
from harness.inputs.keras_labels import Label
from harness.inputs.models import Size
from harness.request import options, plan
from harness.sweep import cells, journal
from sut.registry import REFERENCES, SUTS
from tests.support.cells import WHERE, request
from tests.support.keras_files import dense, functional, given, layer, sequential, write

KERAS3 = [sut for sut in SUTS if sut.startswith("keras3")]


def read(path, config, custom=False):
    return keras_file.read(write(path / "m.keras", config), custom)


def own_model(path, custom=None):
    return architecture.model(path, custom)


def keras(path, sut="keras3-jax", **flags):
    """The request of a run of the file."""
    return request(path.parent, sut=sut, model=str(path), **flags)


FIT = {"scenario": "Fit", "duration": None}


def test_a_sequential_model_has_one_input_and_one_output(tmp_path):
    found = keras_file.read(dense(tmp_path / "m.keras"), False)
    assert found.inputs == (Input(name="x", shape=(4,), dtype="float32"),)
    assert (found.outputs, found.depth, found.policies) == (("dense",), 1, ("float32",))
    assert (found.version, found.weight_bytes) == ("3.15.1", 4000)


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        (["a", 0, 0], ("a",)),
        ([["a", 0, 0], ["b", 0, 0]], ("a", "b")),
        ({"z": ["a", 0, 0], "y": ["b", 0, 0]}, ("y", "z")),
        ([["a", 0, 0], ["a", 1, 0], ["b", 0, 0]], ("a_0", "a_1", "b")),
        ({"class_name": "__tuple__", "items": [["b", 0, 0], ["a", 0, 0]]}, ("b", "a")),
    ],
)
def test_outputs_are_named_after_their_keys_or_their_layers(tmp_path, structure, names):
    layers = [given("x", [4]), layer("Dense", "a", ["x"]), layer("Dense", "b", ["x"])]
    assert read(tmp_path, functional(layers, ["x", 0, 0], structure)).outputs == names


def test_inputs_of_a_dict_are_in_the_order_of_its_keys(tmp_path):
    layers = [given("first", [2]), given("second", [3, None]), layer("Add", "sum", ["first"])]
    inputs = {"b": ["first", 0, 0], "a": ["second", 0, 0]}
    found = read(tmp_path, functional(layers, inputs, ["sum", 0, 0])).inputs
    assert [(each.name, each.shape) for each in found] == [("second", (3, None)), ("first", (2,))]


def test_ids_are_those_of_the_embedding_that_reads_them_even_in_a_model_within_the_model(tmp_path):
    inner = functional(
        [given("tokens", [5]), layer("Embedding", "table", ["tokens"], input_dim=9)],
        ["tokens", 0, 0],
        ["table", 0, 0],
    )
    nested = {**layer("Functional", "inner", ["ids"]), "config": {"name": "inner"}}
    nested["config"] |= inner["config"]
    layers = [given("ids", [5], "int32"), nested]
    found = read(tmp_path, functional(layers, ["ids", 0, 0], ["inner", 1, 0])).inputs
    assert found == (Input(name="ids", shape=(5,), dtype="int32", ids=9),)


def compared(value):
    """A layer that makes a mask: whether its input is not this value."""
    made = layer("NotEqual", "mask", ["x"])
    made["inbound_nodes"][0]["args"].append(value)
    return made


@pytest.mark.parametrize(
    ("readers", "given_input", "padding"),
    [
        ([layer("Embedding", "t", ["x"], input_dim=7, mask_zero=True)], given("x", [6]), 0),
        ([layer("Embedding", "t", ["x"], input_dim=7), compared(1)], given("x", [6]), 1),
        ([layer("Embedding", "t", ["x"], input_dim=7), compared(-1)], given("x", [6]), None),
        ([compared(0.0), layer("Dense", "d", ["x"])], given("x", [6, 3]), 0),
        ([layer("Masking", "m", ["x"], mask_value=-2.0)], given("x", [6, 3]), -2),
        ([layer("Dense", "d", ["x"])], given("x", [6, 3]), None),
    ],
)
def test_random_inputs_end_in_the_padding_of_which_the_model_makes_a_mask(
    tmp_path, readers, given_input, padding
):
    config = functional([given_input, *readers], ["x", 0, 0], [readers[0]["name"], 0, 0])
    (found,) = read(tmp_path, config).inputs
    assert found.padding == padding
    size = replace(arrays_of(), inputs={"arrays": (found,)})
    drawn = architecture.ARCHITECTURE.synthetic(size, 64, 0)["x"]
    is_padding = (drawn == padding).reshape(64, 6, -1)
    if padding is None:
        assert not is_padding.any()
        return
    lengths = 6 - is_padding.all(-1).sum(1)
    assert set(lengths) == {1, 2, 3, 4, 5, 6} and lengths[0] == 6
    ends = np.arange(6) >= lengths[:, None]
    assert (is_padding == ends[..., None]).all()
    again, _ = architecture.ARCHITECTURE.synthetic_like({"x": drawn}, size, 1)
    before = {row.tobytes() for row in drawn == padding}
    assert {row.tobytes() for row in again["x"] == padding} <= before


def function(name):
    return {"module": "builtins", "class_name": "function", "config": name}


INT8 = {"class_name": "QuantizedDTypePolicy", "config": {"name": "int8_from_float32"}}
INT8 |= {"module": "keras"}
REFUSED = {
    "unbuilt": (sequential(layer("Dense", "d")), "has no inputs, because it was saved before"),
    "lambda": (
        sequential(given("x", [2]), layer("Lambda", "l", function={"class_name": "__lambda__"})),
        "has a Lambda layer or .*, whose Python code Keras does not load in its safe mode",
    ),
    "custom class": (
        sequential(given("x", [2]), layer("Scale", "s", module="__main__")),
        "Keras could not locate class 'Scale', .* give --custom FILE.py",
    ),
    "custom function": (
        sequential(given("x", [2]), layer("Dense", "d", activation=function("bent"))),
        "Keras could not locate function 'bent'",
    ),
    "subclass": (
        {"module": "keras", "class_name": "Model", "config": {"units": 3}},
        "its class Model is neither Functional nor Sequential",
    ),
    "text": (sequential(given("x", [1], "string"), layer("Dense", "d")), "its input x is text"),
    "a name of savez": (
        sequential(given("file", [1]), layer("Dense", "d")),
        "its input is called file",
    ),
    "sparse": (sequential(given("x", [1], sparse=True), layer("Dense", "d")), "is sparse or ragg"),
    "stateful": (
        sequential(given("x", [1, 1]), layer("LSTM", "l", stateful=True)),
        "its layer l is stateful",
    ),
    "quantised": (
        sequential(given("x", [1]), layer("Dense", "d", dtype=INT8)),
        "has quantised layers",
    ),
    "nonsense": (functional([], ["x", 0, 0], ["y", 0, 0]), "its config.json is not one of Keras 3"),
    "a list": ([], "its config.json or metadata.json is no JSON object"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_cannot_be_measured_is_refused_in_one_sentence(tmp_path, case):
    config, sentence = REFUSED[case]
    with pytest.raises(UsageError, match=sentence) as refused:
        read(tmp_path, config)
    assert str(refused.value).startswith(f"--model {tmp_path / 'm.keras'}: ")


def test_custom_code_allows_classes_that_keras_lacks_but_no_lambda(tmp_path):
    config, _ = REFUSED["custom class"]
    assert read(tmp_path, config, custom=True).outputs == ("s",)
    with pytest.raises(UsageError, match="Lambda"):
        read(tmp_path, REFUSED["lambda"][0], custom=True)


def test_a_function_that_keras_hub_registered_needs_no_code(tmp_path):
    gelu = function("keras_hub>gelu_approximate")
    config = sequential(given("x", [4]), layer("Dense", "d", activation=gelu))
    assert read(tmp_path, config).outputs == ("d",)


def test_classes_of_losses_are_not_looked_for(tmp_path):
    config = sequential(given("x", [4]), layer("Dense", "dense"))
    config["compile_config"] = {"loss": layer("Loss", "mine", module="__main__")}
    assert read(tmp_path, config).outputs == ("dense",)


COMPILED = {"loss": "mse", "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.1}}}


def two_outputs(**compiled):
    layers = [given("x", [4]), layer("Dense", "a", ["x"]), layer("Dropout", "b", ["x"], rate=0.1)]
    config = functional(layers, ["x", 0, 0], [["a", 0, 0], ["b", 0, 0]])
    return {**config, "compile_config": {**COMPILED, **compiled}}


@pytest.mark.parametrize(
    ("loss", "names"),
    [
        ("mse", ("mse", "mse")),
        (["mse", "mae"], ("mse", "mae")),
        ({"class_name": "__tuple__", "items": ["mse", None]}, ("mse", None)),
        ({"b": "mae"}, (None, "mae")),
        (layer("Huber", "h", module="keras.losses"), ("Huber", "Huber")),
        ({"a": function("steep")}, ("custom steep", None)),
    ],
)
def test_each_output_has_the_loss_that_compile_gave_it(tmp_path, loss, names):
    path = write(tmp_path / "m.keras", two_outputs(loss=loss))
    found = keras_file.read(path, True, trains=True)
    assert found.losses == names
    assert found.drops_out


@pytest.mark.parametrize(
    ("compiled", "sentence"),
    [
        ({"loss": None}, "was saved without a loss, so it cannot be trained"),
        ({"loss": {"c": "mse"}}, "its losses do not fit its outputs a, b"),
        ({"loss": layer("Mine", "m", module="mine")}, "could not locate class 'Mine'"),
        ({"loss": {"a": {"class_name": "__lambda__"}}}, "has a Lambda layer or another lambda"),
    ],
)
def test_a_file_that_cannot_be_trained_is_refused_for_fit_only(tmp_path, compiled, sentence):
    path = write(tmp_path / "m.keras", two_outputs(**compiled))
    keras(path)
    with pytest.raises(UsageError, match=sentence):
        keras(path, **FIT)


def test_labels_that_cannot_be_drawn_have_to_be_given(tmp_path):
    path = write(tmp_path / "m.keras", two_outputs(loss=["mse", "ctc"]))
    with pytest.raises(UsageError, match="its loss is ctc, .* the inputs and label_b with --data"):
        keras(path, **FIT)
    np.savez(tmp_path / "all.npz", x=np.zeros((64, 4)), label_a=np.zeros(64), label_b=np.zeros(64))
    dataset = tmp_path / "all.npz"
    keras(path, **FIT, dataset=dataset)


def test_an_input_may_not_have_the_name_of_labels(tmp_path):
    config = {**sequential(given("labels", [4]), layer("Dense", "d")), "compile_config": COMPILED}
    path = write(tmp_path / "m.keras", config)
    with pytest.raises(UsageError, match="its input is called labels, and names that begin"):
        keras(path, **FIT)


def test_a_training_takes_the_labels_of_the_users_file(tmp_path):
    size = arrays_of(("x", (4,), "float32", None))
    labels = (Label(name="label", loss="mse", shape=(2,)),)
    size = replace(size, inputs={**size.inputs, "labels": labels})
    trained = architecture.ARCHITECTURE.trained
    drawn = trained.synthetic(size, 6, 0)
    assert {name: array.shape for name, array in drawn.items()} == {"x": (6, 4), "label": (6, 2)}
    path = tmp_path / "own.npz"
    np.savez(path, x=np.ones((6, 4)), label=np.ones((6, 2)))
    model = own_model(dense(tmp_path / "m.keras"))
    arrays, _ = trained.read(UserFile(path=path, model=model, size=size))
    assert arrays["label"].dtype == np.float32
    np.savez(path, x=np.ones((6, 4)))
    with pytest.raises(UsageError, match="holds x, and a training of m-.* takes x, label"):
        trained.read(UserFile(path=path, model=model, size=size))


def test_losses_are_judged_by_how_far_rounding_moves_them():
    size = arrays_of(("x", (4,), "float32", None))
    size = replace(size, inputs={**size.inputs, "random": False})
    losses = np.linspace(1.0, 3.0, 22)

    def limits(moved, losses=losses):
        reference = {"loss": losses, "rounded": losses + moved * losses.std()}
        return architecture.loss_limits(size, "float32", reference)

    least = {"first_loss_error": 1e-3, "loss_error": 1e-2, "update_error": 5e-2}
    assert limits(1e-6) == (least, "")
    assert limits(3e-3)[0]["loss_error"] == pytest.approx(3e-2)
    assert "rounding of the weights alone" in limits(0.1)[1]
    assert "hardly differ" in limits(0.0, 1 + 1e-5 * losses)[1]
    endless = architecture.loss_limits(size, "float32", {"loss": losses * np.inf})
    assert "not all finite" in endless[1]
    random = replace(size, inputs={**size.inputs, "random": True})
    reason = architecture.loss_limits(random, "float32", {"loss": losses})[1]
    assert "draw random numbers" in reason


def test_values_that_a_layer_sorts_into_bins_are_of_all_bins(tmp_path):
    bins = layer("Discretization", "bins", bin_boundaries=[18.0, 35.0, 60.0])
    (found,) = read(tmp_path, sequential(given("age", [1]), bins)).inputs
    size = replace(arrays_of(), inputs={"arrays": (found,)})
    drawn = architecture.ARCHITECTURE.synthetic(size, 64, 0)["age"]
    assert set(np.searchsorted(found.bins, drawn).flat) == {0, 1, 2, 3}


def test_pictures_that_a_rescaling_reads_have_the_values_of_pixels(tmp_path):
    rescaling = layer("Rescaling", "r", scale=1 / 255)
    (found,) = read(tmp_path, sequential(given("x", [4, 4, 3]), rescaling)).inputs
    assert found.pixels
    size = replace(arrays_of(), inputs={"arrays": (found,)})
    drawn = architecture.ARCHITECTURE.synthetic(size, 50, 0)["x"]
    assert drawn.dtype == np.float32 and 200 < drawn.max() <= 255


def test_other_files_are_refused_with_the_way_to_a_keras_file(tmp_path):
    (tmp_path / "old.h5").write_bytes(b"")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "m.txt").write_bytes(b"")
    whole = dense(tmp_path / "whole.keras").read_bytes()
    (tmp_path / "half.keras").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as archive:
        archive.writestr("a.txt", "")
    refused = {
        "old.h5": r'convert it with python -c .*load_model\(".*old.h5", .*save\("old.keras"\)',
        "saved": r"is a SavedModel, .*TF_USE_LEGACY_KERAS=1 python .* and then python",
        "empty": "is a folder; give a .keras file",
        "m.txt": "give a .keras file",
        "gone.keras": "there is no such file",
        "half.keras": "is no whole .keras file",
        "other.keras": "is no .keras file of Keras 3",
        "two.keras": (
            "is a file of Keras 2.21.0, which Keras 3 does not load and no SUT here runs: convert"
            " it with TF_USE_LEGACY_KERAS=1 python .* and then python"
        ),
    }
    dense(tmp_path / "two.keras", version="2.21.0")
    for name, sentence in refused.items():
        with pytest.raises(UsageError, match=sentence):
            keras_file.read(tmp_path / name, False)


def test_a_file_of_a_newer_keras_is_refused(tmp_path):
    path = dense(tmp_path / "m.keras", version="3.99.0")
    with pytest.raises(UsageError, match="was saved by Keras 3.99.0, and the environments here"):
        keras(path)
    assert not keras_file.newer("3.15.9", "3.15.1")
    assert not keras_file.newer("unknown", "3.15.1")


@pytest.mark.parametrize(
    ("compiled", "notes"),
    [
        ({"jit_compile": False}, "jit_compile=False,"),
        ({"jit_compile": False, "run_eagerly": True}, "jit_compile=False and run_eagerly=True,"),
        ({"jit_compile": True, "run_eagerly": False}, None),
        (None, None),
    ],
)
def test_a_note_names_what_the_file_keeps_from_compiling(tmp_path, compiled, notes):
    config = {**sequential(given("x", [4]), layer("Dense", "d")), "compile_config": compiled}
    found = own_model(write(tmp_path / "m.keras", config)).file.notes
    kept = [note for note in found if note.startswith("the file keeps")]
    assert kept == [] if notes is None else kept[0].startswith(f"the file keeps {notes}")


def test_damaged_weights_are_found_when_the_file_is_copied(tmp_path):
    path = dense(tmp_path / "m.keras")
    data = bytearray(path.read_bytes())
    data[data.index(bytes(100)) + 50] = 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="model.weights.h5 is damaged"):
        checkpoint.of_file(own_model(path), tmp_path)


def test_the_copy_in_the_cache_has_the_files_digest_and_outlives_the_file(tmp_path):
    path = dense(tmp_path / "my model.keras")
    code = tmp_path / "layers.py"
    code.write_text("1")
    model = own_model(path, code)
    copy = checkpoint.of_file(model, tmp_path / "cache")
    path.rename(tmp_path / "moved.keras")
    assert checkpoint.of_file(model, tmp_path / "cache") == copy
    assert checkpoint.digest_of([copy.path / "model.keras"]) == copy.digest == model.file.digest
    assert checkpoint.files(copy.path) == ["model.keras"]
    assert (copy.path / "custom.py").read_text() == "1"
    assert model.name == f"my_model-{copy.digest[:8]}"


def test_the_cell_names_file_and_code_by_their_digests(tmp_path):
    path = dense(tmp_path / "m.keras")
    code = tmp_path / "layers.py"
    code.write_text("1")
    plain = keras(path).cell()
    own = keras(path, custom=code).cell()
    code.write_text("2")
    other = keras(path, custom=code).cell()
    assert plain.custom is None and len(own.custom) == 12
    assert len({plain.digest, own.digest, other.digest}) == 3
    assert plain.model.startswith("m-") and plain.size == "user"


def test_only_keras_3_and_what_it_exports_to_run_it_and_two_backends_in_float64_judge_each(
    tmp_path,
):
    path = dense(tmp_path / "m.keras")
    for sut in SUTS:
        if SUTS[sut].remote:
            continue
        cell = keras(path, sut)
        reason = plan.unsupported(cell)
        assert (reason is None) is (sut in (*KERAS3, "onnxruntime", "openvino")), sut
        if reason:
            assert reason.startswith("a .keras file is a model of Keras 3: take keras3-jax")
        else:
            judges = [REFERENCES[name] for name in cell.references]
            found = [(each.backend, each.execution, each.precisions) for each in judges]
            double = ("float64",)
            assert found == [("tensorflow", "graph", double), ("torch", "eager", double)]
    path = write(tmp_path / "c.keras", two_outputs())
    for sut in KERAS3:
        reason = plan.unsupported(keras(path, sut, **FIT))
        assert (reason is None) is (sut != "keras3-openvino")
    assert "`fit` is not supported with openvino backend" in reason


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"size": "tiny"}, "--size tiny: the file of --model decides it"),
        ({"task": "predict"}, "--task predict: the file of --model decides it"),
        ({"seq_len": 9}, "--seq-len 9: the inputs of .*m.keras have fixed shapes"),
        ({"eos": "stop"}, "--eos stop: is for models that generate"),
        ({"standard": "uneven"}, "--dataset uneven: the inputs of m-.* have one length"),
    ],
)
def test_flags_that_the_file_decides_are_refused(tmp_path, flags, sentence):
    path = dense(tmp_path / "m.keras")
    with pytest.raises(UsageError, match=sentence):
        keras(path, **flags)


def test_custom_code_is_for_a_keras_file(tmp_path):
    with pytest.raises(UsageError, match="--custom .*: is for a model in a .keras file"):
        request(tmp_path, custom=tmp_path / "layers.py")
    path = dense(tmp_path / "m.keras")
    with pytest.raises(UsageError, match="--custom .*: cannot be read"):
        keras(path, custom=tmp_path / "gone.py")


def test_a_path_becomes_absolute_and_a_name_stays_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert options.spelt("model", "m.keras") == str(tmp_path / "m.keras")
    assert options.spelt("model", "Bert") == "bert"
    (tmp_path / "bert").mkdir()
    assert options.spelt("model", "bert") == "bert"
    assert request(tmp_path).model.name == "bert"


def test_a_sweep_goes_on_after_the_file_was_moved(tmp_path):
    path = dense(tmp_path / "m.keras")
    folders = []
    for place in (path, tmp_path / "there" / "m.keras"):
        place.parent.mkdir(exist_ok=True)
        place = path.rename(place)
        grid = {"sut": ["keras3-jax"], "model": [str(place)], "scenario": ["Offline"]}
        series = cells.make([grid], WHERE, control=False)
        folders.append(journal.folder(tmp_path / "runs", "sweep", series, again=False))
    assert folders[0] == folders[1]


def arrays_of(*inputs):
    """The size of a model with these inputs: (name, shape, dtype, ids)."""
    arrays = [Input(name=n, shape=s, dtype=d, ids=i) for n, s, d, i in inputs]
    return Size(
        name="user",
        precision="float32",
        batch_size={},
        config={"num_hidden_layers": 4, "outputs": ["output_y"]},
        tensors=(),
        inputs={"arrays": arrays},
        stored_bytes=4000,
    )


def test_random_inputs_have_the_dtypes_and_ranges_of_the_file():
    size = arrays_of(
        ("ids", (50,), "int64", 5),
        ("table", (50,), "float32", 3),
        ("pixels", (50,), "uint8", None),
        ("mask", (50,), "bool", None),
        ("x", (50,), "float32", None),
    )
    arrays = architecture.ARCHITECTURE.synthetic(size, 20, 0)
    for each in size.inputs["arrays"]:
        assert arrays[each.name].dtype == each.dtype
    assert {each.shape for each in arrays.values()} == {(20, 50)}
    assert set(np.unique(arrays["ids"])) == {0, 1, 2, 3, 4}
    assert set(np.unique(arrays["table"])) == {0.0, 1.0, 2.0}
    assert arrays["pixels"].max() > 200 and set(np.unique(arrays["mask"])) == {False, True}
    assert 0 <= arrays["x"].min() < 0.1 and 0.9 < arrays["x"].max() <= 1


def test_inputs_like_a_users_keep_their_padding_and_take_no_new_value():
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 9, (6, 5)) * (np.arange(5) < rng.integers(1, 6, (6, 1)))
    size = arrays_of(("ids", (5,), "int64", 9))
    drawn, count = architecture.ARCHITECTURE.synthetic_like({"ids": ids}, size, 1)
    assert count == 1 and drawn["ids"].shape == (7, 5)
    assert set(np.unique(drawn["ids"])) <= set(np.unique(ids))
    padding = {tuple(row) for row in ids == 0}
    assert {tuple(row) for row in drawn["ids"] == 0} <= padding


def test_a_length_that_the_file_leaves_open_is_given_by_flag_or_data(tmp_path):
    config = sequential(
        given("ids", [None], "int32"), layer("Embedding", "table", input_dim=9), layer("Dense", "d")
    )
    path = write(tmp_path / "m.keras", config)
    with pytest.raises(UsageError, match=r"its input ids is \[\?\]: give its length with --seq-l"):
        keras(path)
    long = keras(path, seq_len=6)
    assert architecture.ARCHITECTURE.synthetic(long.size, 2, 0)["ids"].shape == (2, 6)
    assert long.cell().seq_len == 6
    np.save(tmp_path / "ids.npy", np.array([[1, 2, 0], [3, 8, 8]]))
    own = keras(path, dataset=tmp_path / "ids.npy")
    prepared = prepare(own, tmp_path)
    with np.load(prepared.path) as arrays:
        assert arrays["ids"].dtype == np.int32 and arrays["ids"].shape == (2, 3)


def test_whole_numbers_that_no_table_reads_need_data(tmp_path):
    config = sequential(given("n", [2], "int32"), layer("Dense", "d"))
    path = write(tmp_path / "m.keras", config)
    with pytest.raises(UsageError, match="its input n holds whole numbers, and no Embedding"):
        keras(path)


def prepare(cell, cache):
    data = cell.options.dataset
    return dataset.prepare(cell.model, cell.size, cell.samples, data, cache, batch_size=4)


def test_a_users_arrays_are_checked_against_the_files_specification(tmp_path):
    layers = [
        given("ids", [3], "int32"),
        given("x", [2]),
        layer("Embedding", "table", ["ids"], input_dim=9),
        layer("Add", "sum", ["table", "x"]),
    ]
    config = functional(layers, [["ids", 0, 0], ["x", 0, 0]], ["sum", 0, 0])
    path = write(tmp_path / "m.keras", config)
    good = {"ids": np.ones((4, 3), np.int64), "x": np.zeros((4, 2))}
    data = tmp_path / "data.npz"
    np.savez(data, **good)
    cell = keras(path, dataset=data)
    assert prepare(cell, tmp_path).count == 4
    refused = {
        "holds ids, and the inputs of m-.* are ids, x": {"ids": good["ids"]},
        r"x has shape \[4, 3\], and the model takes \[samples, 2\]": good | {"x": np.ones((4, 3))},
        "arrays have 4, 5 samples": good | {"x": np.ones((5, 2))},
        "ids is float64, and the model takes int32": good | {"ids": np.ones((4, 3))},
        "x has values that are NaN": good | {"x": np.full((4, 2), np.nan)},
        "ids has values from 9 to 9, and its Embedding takes 0 to 8": good
        | {"ids": np.full((4, 3), 9)},
    }
    for sentence, arrays in refused.items():
        np.savez(data, **arrays)
        with pytest.raises(UsageError, match=sentence):
            prepare(cell, tmp_path)
    data.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="is no array file of numpy"):
        prepare(cell, tmp_path)
    with pytest.raises(UsageError, match="there is no such file"):
        keras(path, dataset=tmp_path / "gone.npz")


def test_a_folder_of_pictures_is_resized_to_the_models_input(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("RGB", (9, 5), (255, 0, 10)).save(folder / "a.png")
    Image.new("L", (3, 3), 200).save(folder / "b.jpg")
    config = sequential(given("image", [4, 6, 3]), layer("Conv2D", "c"))
    path = write(tmp_path / "m.keras", config)
    cell = keras(path, dataset=folder)
    prepared = prepare(cell, tmp_path)
    with np.load(prepared.path) as arrays:
        assert arrays["image"].shape == (2, 4, 6, 3)
        assert (arrays["image"][0, 0, 0] == (255, 0, 10)).all()
    assert "values from 0 to 255" in prepared.notes[0]
    with pytest.raises(UsageError, match="a folder of pictures is for a model with one input"):
        prepare(keras(dense(tmp_path / "d.keras"), dataset=folder), tmp_path)


def test_limits_follow_from_precision_depth_and_the_spread_of_the_answers():
    size = arrays_of(("x", (2,), "float32", None))
    answers = np.random.default_rng(0).standard_normal((8, 5))
    found, reason = architecture.limits(size, "float32", {"output_y": answers})
    deeper = replace(size, config={**size.config, "num_hidden_layers": 16})
    more, _ = architecture.limits(deeper, "float32", {"output_y": answers})
    assert not reason and 0 < found["output_y_error"] <= more["output_y_error"] <= 1e-3
    kinds = "error mean_iou smallest_iou equal_fraction psnr"
    assert set(found) == {f"output_y_{kind}" for kind in kinds.split()}


def test_answers_that_hardly_differ_or_are_not_finite_judge_nothing():
    size = arrays_of(("x", (2,), "float32", None))
    same = 1 + 1e-6 * np.random.default_rng(0).standard_normal((8, 5))
    ignoring = np.broadcast_to(np.arange(5.0), (8, 5))
    alike = np.ones((8, 5)), ignoring, np.arange(5.0)[None]
    cases = [(answers, "hardly differ") for answers in (same, *alike)]
    cases.append((same * np.nan, "finite"))
    for answers, sentence in cases:
        found, reason = architecture.limits(size, "float32", {"output_y": answers})
        assert not found and sentence in reason and "--dataset" in reason
