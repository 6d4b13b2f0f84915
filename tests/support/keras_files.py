"""`.keras` files as Keras 3 writes them, made of zipfile and json: a description of a model without
its weights.
"""

import json
import zipfile

FLOAT32 = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}}


def given(name, shape, dtype="float32", **more):
    """An input layer. `shape`: without the axis of samples."""
    config = {"batch_shape": [None, *shape], "dtype": dtype, "sparse": False, "ragged": False}
    return layer("InputLayer", name, **(config | more))


def layer(kind, name, reads=(), module="keras.layers", **config):
    """A layer that reads the outputs of other layers."""
    nodes = [
        {
            "args": [
                {"class_name": "__keras_tensor__", "config": {"keras_history": [read, 0, 0]}}
                for read in reads
            ],
            "kwargs": {},
        }
    ]
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": name, "dtype": FLOAT32, **config},
        "registered_name": None if module.startswith("keras") else f"Custom>{kind}",
        "name": name,
        "inbound_nodes": nodes if reads else [],
    }


def functional(layers, inputs, outputs):
    """A functional model. `inputs`, `outputs`: structures of [layer, call, tensor]."""
    config = {"layers": list(layers), "input_layers": inputs, "output_layers": outputs}
    return {"module": "keras.src.models.functional", "class_name": "Functional", "config": config}


def sequential(*layers):
    """A sequential model."""
    return {"module": "keras", "class_name": "Sequential", "config": {"layers": list(layers)}}


def write(path, config, version="3.15.1"):
    """Write the file, with weights that are no weights."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": version}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", bytes(4000))
    return path


def dense(path, **more):
    """A file with a model of one layer, compiled with a loss: 4 numbers → some."""
    model = sequential(given("x", [4]), layer("Dense", "dense"))
    return write(path, {**model, "compile_config": {"loss": "mse", "optimizer": "sgd"}}, **more)
