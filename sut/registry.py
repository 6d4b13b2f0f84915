"""All SUTs, in one dict. The parent process (list, environments) and the worker read it. This
module imports no framework.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from formats.cell import INT4, INT4_WEIGHTS, INT8, INT8_WEIGHTS, SHARDS, UNKNOWN
from formats.frameworks import ENGINE, FRAMEWORKS
from sut import option_kinds
from sut.devices import DEVICES

REFERENCE = "plain-transformers"
"""The reference that SUTs' answers are compared with (see REFERENCES). The models were made with
its library: config.json names its classes.
"""

COUNTER = "sut.evidence.torch_work"
"""The module that counts the work of REFERENCE. It needs the reference's environment."""

FIT = "fit"
"""The task of training; the others are `predict` and `generate`."""

LOAD = "load"
"""The function of a SUT's module that loads an Inference (`sut.contract`)."""

LOAD_TRAINING = "load_training"
"""The function of a SUT's module that loads a Training (`sut.contract`)."""

MATRIX = "matrix"
PER_HEAD = "per-head"
"""The two layouts of LoRA's factors; `sut.adapters` describes them."""

QUANTIZE = "quantize"
"""The `--sut-option` with the kind of quantised weights (`formats.cell.QUANTIZED`)."""

ONE_PACKAGE = (("tensorflow-cpu", "tensorflow"),)
"""Names of distributions that contain the same package, each built for another device."""

LIBRARIES_OF_FILES = ("transformers", "opencv")
"""The environments of the libraries that read a user's files: all but pictures by area, and
those.
"""
CPU_BUILDS = {"torch": ("--torch-backend", "cpu")}
"""Distribution → uv's options for its CPU builds, because PyPI has only its large CUDA builds."""

CPU_INDEXES = {"torch": "https://download.pytorch.org/whl/cpu"}
"""Distribution → the package index, for pip, with its builds for the CPU."""

COMES_WITH_TORCH = (
    "torch",
    "triton",
    "sympy",
    "mpmath",
    "networkx",
    "setuptools",
    "cuda-",
    "nvidia-",
)
"""Distributions that an interpreter with PyTorch for GPUs has: names, and beginnings of names."""


@dataclass(frozen=True, kw_only=True)
class SutSpec:
    """One framework + backend + execution.

    Attributes:
        module: template; the model's data name {architecture} (`bert`, `causal_lm`).
        environment: environments/<name>-<device>.txt; "core" is the harness' own.
        summary: description for the listing.
        process_env: environment variables that the framework needs before its import.
        unsupported: "model", "model/task", "model/precision", "model/task/precision" or an
            architecture → the reason. The model `*` is every model.
        architectures: the architectures that it supports; empty: those for which it has a file.
        options: name of each `--sut-option` → (its reader or its words, its description).
        precisions: the precisions it can compute in on some device.
        reads_weights: whether it needs a checkpoint.
        current: whether people choose it today. The other SUTs are here to be compared with
            earlier tables.
        reference: the name of the reference whose answers this SUT is compared with.
        references: architecture → its references, if they are others. If two references differ,
            none of them judges.
        devices: the devices on which it can run.
        classes: the library under which a model's data name its class; empty: it needs no class.
        packages: distributions whose versions the system's description reports.
        variables: beginnings of environment variables that change its figures, as regular
            expressions; one that ends with `$` is a whole name.
        out_of_memory: words of the errors that it raises if it is out of memory.
        without_keras: for Keras only, the SUT that computes the same on the same framework.
        on_keras2: for Keras 3 only, the SUT of Keras 2 with the same framework and execution.
        lora: the layout of the factors of its library's LoRA: MATRIX or PER_HEAD.
        remote: whether it sends its requests to an engine, wherever that runs. It forms its own
            batches, and neither its execution nor its precision is known.
        no_fit: why it trains no model; empty: it trains.
        scripted: whether its times are scripted. It computes next to nothing, so that several
            replicas may share a core.
        sharded: the models whose weights the option `shards` splits.
        whole_answers: whether it hands over no token before the answer is whole.
        ranks: whether each shard is a process of its own. The processes make the same calls, and
            the SUT has the method `held`.
    """

    module: str
    environment: str
    execution: str
    summary: str
    backend: str | None = None
    process_env: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    options: Mapping[str, tuple[Callable[[str], Any] | tuple[str, ...], str]] = field(
        default_factory=dict
    )
    reference: str = REFERENCE
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: tuple[str, ...] = tuple(DEVICES)
    precisions: tuple[str, ...] = ("float32", "tf32", "bfloat16", "float16")
    reads_weights: bool = True
    current: bool = True
    classes: str = ""
    packages: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    out_of_memory: tuple[str, ...] = ()
    without_keras: str | None = None
    on_keras2: str | None = None
    lora: str = MATRIX
    no_fit: str = ""
    remote: bool = False
    scripted: bool = False
    sharded: tuple[str, ...] = ()
    whole_answers: bool = False
    ranks: bool = False

    @property
    def runs_models(self) -> bool:
        """Whether it runs a model by itself, and not the mock's arithmetic or another's engine."""
        return self.reads_weights and not self.remote


_IN_FLIGHT = {
    "in_flight": (
        ("1", "2"),
        (
            "batches that Offline keeps submitted (default 1, as with Keras, whose calls wait for"
            " their answers)"
        ),
    )
}
_QUANTIZE_KERAS = {
    QUANTIZE: (
        (INT8, INT8_WEIGHTS),
        (
            'int8: keras.Model.quantize("int8"), of weights and of the activations that they'
            " multiply; int8-weights: only of weights (Int8QuantizationConfig)"
        ),
    )
}
_QUANTIZE_OPENVINO = {
    QUANTIZE: (
        (INT8_WEIGHTS,),
        (
            "keras.Model.quantize of only the weights (Int8QuantizationConfig); with int8, OpenVINO"
            " multiplies the rounded activations in float32"
        ),
    )
}
_QUANTIZE_BY_NNCF = {
    QUANTIZE: (
        (INT8_WEIGHTS, INT4_WEIGHTS),
        "weights of 8 or 4 bits, by nncf.compress_weights; they are multiplied in float32",
    )
}
_QUANTIZE_ONNX = {
    QUANTIZE: (
        (INT8, INT4),
        (
            "int8: weights of 8 bits, by onnxruntime.quantization.quantize_dynamic, and of language"
            " models by the builder's -p int8; int4: of language models, by -p int4. Activations"
            " are multiplied in 8 bits"
        ),
    )
}
_SHARDED = ("gemma", "llama", "mistral")
_SHARDS = {
    SHARDS: (
        option_kinds.several,
        f"number of devices on which the weights of {', '.join(_SHARDED)} are split",
    )
}
_KERAS = {"HF_HUB_OFFLINE": "1"}
_TORCH = {"KINETO_LOG_LEVEL": "99"}  # torch.profiler, which evidence uses, logs less
_NATIVE_TORCH = {"HF_HUB_OFFLINE": "1", **_TORCH}
_TORCH_VARIABLES = (r"TORCH\w*?", "PYTORCH", "INDUCTOR", "TRITON", "THP")
# The CPU client of JAX starts NPROC threads, if it is set.
_JAX_VARIABLES = ("JAX", "XLA", "NPROC$")
_TENSORFLOW_VARIABLES = ("TF(?!_CLI)", "XLA")
# KerasNLP uses the Keras of TensorFlow.
_KERAS2 = {"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "tensorflow"}
_HUGGING_FACE = {"TF_USE_LEGACY_KERAS": "1", "HF_HUB_OFFLINE": "1"}
# On a CPU torch reports a lack of memory only by its message. On a GPU, CUDA itself, its graphs and
# cuBLAS (which needs a workspace) have messages of their own.
_TORCH_OUT_OF_MEMORY = (
    "OutOfMemoryError",
    "can't allocate memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
_XLA_OUT_OF_MEMORY = (
    "ResourceExhausted",
    "RESOURCE_EXHAUSTED",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
)
_OPENVINO_OUT_OF_MEMORY = ("bad_alloc", "out of memory", "Can not allocate memory")

# Why a SUT cannot run a cell: "model", "model/task", "model/precision" or "model/task/precision" →
# the reason. `unsupported` gives the reasons that follow from the files of a SUT.
_KERAS2_LACKS = {
    "gemma": (
        "KerasNLP's Gemma is only for Keras 3 (ValueError: GemmaBackbone requires Keras 3): take"
        " keras3-tensorflow"
    ),
    **{
        model: (
            "KerasNLP 0.8.2, with which Keras' published table was measured, has no"
            f" {name}: take keras3-tensorflow"
        )
        for model, name in (("llama", "Llama"), ("qwen3", "Qwen 3"), ("gemma3", "Gemma 3"))
    },
    "mistral/bfloat16": (
        "KerasNLP's Mistral fails on Keras 2 in bfloat16 (AttributeError in its rotary embedding):"
        " take --precision float32 or keras3-tensorflow"
    ),
    **dict.fromkeys(
        ("gpt2/generate/bfloat16", "distilgpt2/generate/bfloat16"),
        "KerasNLP's GPT-2 fails on Keras 2 in bfloat16 (AttributeError in its attention): take"
        " --precision float32 or keras3-tensorflow",
    ),
    "mistral/fit": (
        "KerasNLP's LoRA trains nothing of Mistral on Keras 2 (enable_lora leaves no weight to"
        " train): take keras3-tensorflow"
    ),
}
_KERAS3_LACKS = {
    "token_classifier": "KerasHub 0.32 has no classifier of tokens: take native-torch-eager",
}
_OPENVINO_LACKS = {
    **_KERAS3_LACKS,
    "stable_diffusion": "KerasCV is not in the environment of OpenVINO: take keras3-jax",
    **dict.fromkeys(
        ("gemma3", "gemma3_text"),
        "KerasHub's Gemma 3 does not generate on OpenVINO (RuntimeError: unregistered parameters):"
        " take keras3-jax",
    ),
}
_KERAS_FILE = "keras_file"
_OWN_REFERENCE = {
    _KERAS_FILE: (
        "a .keras file is a model of Keras 3: take keras3-jax, keras3-tensorflow,"
        " keras3-tensorflow-graph, keras3-torch, keras3-openvino, onnxruntime or openvino"
    )
}
"""Architecture that only the SUTs with references for it have → the reason why others lack it."""
_HUGGING_FACE_LACKS = {
    "gemma": "Transformers 4 has no Gemma for TensorFlow: take keras3-tensorflow",
    "llama": "Transformers 4 has no Llama for TensorFlow: take keras3-tensorflow",
    "qwen3": "Transformers 4 has no Qwen 3 for TensorFlow: take keras3-tensorflow",
    "gemma3": "Transformers 4 has no Gemma 3 for TensorFlow: take keras3-tensorflow",
    "mistral/bfloat16": (
        "Transformers' Mistral for TensorFlow fails in bfloat16 (TypeError in its attention mask):"
        " take --precision float32 or keras3-tensorflow"
    ),
    "mistral/float16": (
        "Transformers' Mistral for TensorFlow fails in float16 (TypeError in its attention mask):"
        " take --precision float32 or native-torch-eager"
    ),
}
_NATIVE_JAX_LACKS = {
    **dict.fromkeys(
        ("gpt2/generate", "distilgpt2/generate"),
        "sut/native_jax/causal_lm.py is written for Llama's layout; GPT-2 has learned positions:"
        " take keras3-jax",
    ),
    "gemma3": (
        "sut/native_jax/causal_lm.py is written for Llama's layout; Gemma 3 has four norms in a"
        " layer, and windows in some layers: take keras3-jax"
    ),
}
_ONNX_LACKS = {
    **dict.fromkeys(
        ("gemma3", "gemma3_text"),
        "the builder of onnxruntime-genai 0.18.0 does not build Gemma 3 with Transformers 5"
        " (KeyError: 'rope_type'): take native-torch-eager",
    ),
    **dict.fromkeys(
        ("gpt2/generate", "distilgpt2/generate"),
        "the builder of onnxruntime-genai 0.18.0 has no GPT-2 (NotImplementedError: the model is"
        " not currently supported): take native-torch-eager",
    ),
}
_OPTIMUM_LACKS = dict.fromkeys(
    ("gemma", "gemma3", "gemma3_text"),
    "optimum-intel 2.2.0 exports no Gemma with Transformers 5.5.4 (ValueError: Maximum required is"
    " 5.0): take native-torch-eager",
)
_OTHER_ARCHITECTURES = "it is written for the architectures {written}, not for {architecture}"
_NOT_WRITTEN = "nothing is written for the architecture {architecture}: {missing}"
_NO_TRAINING = "no training is written for the architecture {architecture}: {missing}"
_STREAM = "\n    def stream("  # the method of `sut.contract.Inference`
_NO_FILE = "there is no {file}"
_NO_FUNCTION = "{file} has no {function}"

# Settings that the SUTs of one library share. An entry of `SUTS` may add to and override them.
_keras3 = partial(
    SutSpec,
    module="sut.keras3.{architecture}",
    references={_KERAS_FILE: ("keras-file-on-tensorflow", "keras-file-on-torch")},
    unsupported=_KERAS3_LACKS,
    classes="keras_hub",
    options=_QUANTIZE_KERAS,
    lora=PER_HEAD,
)
_keras3_tensorflow = partial(
    _keras3,
    environment="keras3-tensorflow",
    backend="tensorflow",
    process_env={"KERAS_BACKEND": "tensorflow", **_KERAS},
    packages=("keras", "keras-hub", "keras-cv", "tensorflow"),
    variables=("KERAS", *_TENSORFLOW_VARIABLES),
    out_of_memory=_XLA_OUT_OF_MEMORY,
)
_keras2 = partial(
    SutSpec,
    module="sut.keras2.{architecture}",
    current=False,
    environment="keras2-tensorflow",
    backend="tensorflow",
    process_env=_KERAS2,
    unsupported=_KERAS2_LACKS,
    classes="keras_nlp",
    packages=("tf-keras", "keras-nlp", "tensorflow"),
    variables=("KERAS", *_TENSORFLOW_VARIABLES),
    out_of_memory=_XLA_OUT_OF_MEMORY,
)
_torch = partial(
    SutSpec,
    environment="native-torch",
    process_env=_NATIVE_TORCH,
    classes="transformers",
    variables=_TORCH_VARIABLES,
    out_of_memory=_TORCH_OUT_OF_MEMORY,
)
_native_torch = partial(
    _torch,
    module="sut.native_torch.{architecture}",
    options={**_IN_FLIGHT, **_SHARDS},
    sharded=_SHARDED,
    ranks=True,
    packages=("torch", "transformers", "peft", "segment-anything", "diffusers"),
)
_hugging_face = partial(
    SutSpec,
    module="sut.hf_tensorflow.{architecture}",
    current=False,
    environment="hf-tensorflow",
    backend="tensorflow",
    process_env=_HUGGING_FACE,
    unsupported=_HUGGING_FACE_LACKS,
    classes="hf_tensorflow",
    packages=("tf-keras", "transformers", "tensorflow"),
    variables=_TENSORFLOW_VARIABLES,
    out_of_memory=_XLA_OUT_OF_MEMORY,
)

KERAS_PACKAGES = ("keras", "keras_hub")
"""The packages whose layers a `.keras` file may have without custom code."""

SUTS: dict[str, SutSpec] = {
    "mock": SutSpec(
        module="sut.mock",
        environment="core",
        execution="eager",
        summary="scripted latencies, no framework: for a quick look, and for tests of the harness",
        current=False,
        architectures=(
            "bert",
            "causal_lm",
            "hidden_states",
            "image_classifier",
            "sam",
            "span",
            "stable_diffusion",
        ),
        reference="mock",
        scripted=True,
        sharded=_SHARDED,
        ranks=True,
        devices=("cpu",),
        precisions=("float32",),
        reads_weights=False,
        options={
            "latency-ms": (float, "time of one batch, in milliseconds (default 1)"),
            "jitter-ms": (
                float,
                (
                    "latencies rise from latency-ms by this much over each 10 batches, then fall"
                    " back (default 0)"
                ),
            ),
            "raise-at": (int, "raise an error at this batch"),
            "hang-at": (int, "never return from this batch"),
            "kill-at": (int, "SIGKILL the worker at this batch"),
            "exhaust-memory-at": (int, "allocate until the system refuses or kills, at this batch"),
            "wrong": (
                ("swap-rows", "zero-position", "at-once"),
                "break the answers: swap the rows of each batch, zero position 0 of each input, or"
                " stream all tokens at once",
            ),
            "wrong-fit": (
                (
                    "learning-rate",
                    "skip-batch",
                    "shuffle",
                    "frozen",
                    "early-end",
                    "other-when-timed",
                ),
                (
                    "break the training: a larger learning rate, a batch left out, batches in"
                    " another order, a parameter that does not change, no wait for the last step,"
                    " or a larger learning rate after the first step if losses are not read"
                ),
            ),
            **_SHARDS,
        },
    ),
    "keras3-jax": _keras3(
        environment="keras3-jax",
        execution="xla",
        summary="Keras 3 with KerasHub or KerasCV on JAX, compiled by XLA",
        backend="jax",
        options={**_QUANTIZE_KERAS, **_SHARDS},
        sharded=_SHARDED,
        process_env={"KERAS_BACKEND": "jax", **_KERAS},
        packages=("keras", "keras-hub", "keras-cv", "jax", "jaxlib"),
        variables=("KERAS", *_JAX_VARIABLES),
        out_of_memory=_XLA_OUT_OF_MEMORY,
        without_keras="native-jax",
    ),
    "keras3-tensorflow": _keras3_tensorflow(
        execution="xla",
        summary="Keras 3 with KerasHub or KerasCV on TensorFlow, compiled by XLA",
        on_keras2="keras2-tensorflow",
    ),
    "keras3-tensorflow-graph": _keras3_tensorflow(
        execution="graph",
        summary="Keras 3 with KerasHub or KerasCV on TensorFlow, traced to graphs without XLA",
        on_keras2="keras2-tensorflow-graph",
    ),
    "keras3-torch": _keras3(
        environment="keras3-torch",
        execution="eager",
        summary="Keras 3 with KerasHub or KerasCV on PyTorch, nothing compiled",
        backend="torch",
        process_env={"KERAS_BACKEND": "torch", **_KERAS, **_TORCH},
        packages=("keras", "keras-hub", "keras-cv", "torch"),
        variables=("KERAS", *_TORCH_VARIABLES),
        out_of_memory=_TORCH_OUT_OF_MEMORY,
        without_keras="native-torch-eager",
    ),
    "keras3-openvino": _keras3(
        environment="keras3-openvino",
        options=_QUANTIZE_OPENVINO,
        execution="graph",
        summary="Keras 3 with KerasHub on OpenVINO, its backend for inference",
        backend="openvino",
        process_env={"KERAS_BACKEND": "openvino", **_KERAS},
        devices=("cpu",),
        precisions=("float32",),
        packages=("keras", "keras-hub", "openvino"),
        unsupported=_OPENVINO_LACKS,
        whole_answers=True,
        no_fit=(
            "Keras trains no model on OpenVINO (NotImplementedError: `fit` is not supported with"
            " openvino backend): take keras3-jax"
        ),
        variables=("KERAS", "OPENVINO", "OV"),
        out_of_memory=_OPENVINO_OUT_OF_MEMORY,
    ),
    "keras2-tensorflow": _keras2(
        execution="xla",
        summary="Keras 2 (tf_keras) with KerasNLP on TensorFlow, compiled by XLA",
    ),
    "keras2-tensorflow-graph": _keras2(
        execution="graph",
        summary="Keras 2 (tf_keras) with KerasNLP on TensorFlow, traced to graphs without XLA",
    ),
    "native-torch-eager": _native_torch(
        execution="eager",
        summary=(
            "PyTorch with Transformers, segment-anything or diffusers as they are, nothing compiled"
        ),
    ),
    "native-torch-compile": _native_torch(
        execution="compile",
        summary=(
            "PyTorch with Transformers, segment-anything or diffusers under"
            ' torch.compile(mode="reduce-overhead")'
        ),
    ),
    "native-jax": SutSpec(
        module="sut.native_jax.{architecture}",
        environment="keras3-jax",  # the same JAX, so that the two differ only in Keras
        execution="xla",
        summary="models written out in JAX, compiled by XLA, without a library of layers",
        unsupported=_NATIVE_JAX_LACKS,
        options=_IN_FLIGHT,
        packages=("jax", "jaxlib"),
        variables=_JAX_VARIABLES,
        out_of_memory=_XLA_OUT_OF_MEMORY,
    ),
    "hf-tensorflow": _hugging_face(
        execution="graph",
        summary="TensorFlow models of Transformers 4 on Keras 2, traced to graphs without XLA",
    ),
    "hf-tensorflow-xla": _hugging_face(
        execution="xla",
        summary="TensorFlow models of Transformers 4 on Keras 2, compiled by XLA",
    ),
}

SUTS["onnxruntime"] = SutSpec(
    module="sut.onnxruntime.{architecture}",
    environment="onnxruntime",
    execution="runtime",
    summary=("ONNX Runtime: models that PyTorch exports, and language models of onnxruntime-genai"),
    # Keras exports `.keras` files from PyTorch.
    process_env={"HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1", "KERAS_BACKEND": "torch"},
    references={_KERAS_FILE: ("keras-file-on-tensorflow", "keras-file-on-torch")},
    options=_QUANTIZE_ONNX,
    devices=("cpu",),
    precisions=("float32",),
    classes="transformers",
    unsupported=_ONNX_LACKS,
    no_fit="ONNX Runtime trains no model here: take native-torch-eager",
    packages=("onnxruntime", "onnxruntime-genai", "onnx", "onnxscript", "torch", "transformers"),
    variables=("ORT", "ORTGENAI"),
    out_of_memory=("bad_alloc", "Failed to allocate memory", "out of memory"),
)

SUTS["openvino"] = SutSpec(
    module="sut.openvino.{architecture}",
    environment="openvino",
    execution="runtime",
    summary="OpenVINO: models that it converts from PyTorch, and language models of openvino-genai",
    process_env={"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "openvino"},
    references={_KERAS_FILE: ("keras-file-on-tensorflow", "keras-file-on-torch")},
    options=_QUANTIZE_BY_NNCF,
    devices=("cpu",),
    precisions=("float32",),
    classes="transformers",
    unsupported=_OPTIMUM_LACKS,
    no_fit="OpenVINO trains no model: take native-torch-eager",
    packages=(
        "openvino",
        "openvino-genai",
        "optimum-intel",
        "nncf",
        "torch",
        "transformers",
    ),
    variables=("OPENVINO", "OV"),
    out_of_memory=_OPENVINO_OUT_OF_MEMORY,
)

SUTS["endpoint"] = SutSpec(
    module="sut.endpoint.{architecture}",
    environment="core",
    execution=ENGINE,
    summary="an engine behind the OpenAI protocol, such as vLLM or llama.cpp, wherever it runs",
    current=False,
    remote=True,
    devices=("cpu",),
    precisions=(UNKNOWN,),
    classes="transformers",
    options={
        "url": (option_kinds.http_url, "address of the API, such as http://127.0.0.1:8000/v1"),
        "api": (
            ("completions", "chat"),
            "/completions or /chat/completions (default chat with --chat, else completions)",
        ),
        "model": (str, "name of the model (default: the first that the engine lists)"),
        "key-env": (str, "name of the environment variable with the API key"),
        "key-file": (option_kinds.file, "file with the API key"),
        "timeout-s": (
            option_kinds.positive,
            "seconds without any part of an answer, after which the test ends (default 120)",
        ),
        "in_flight": (
            option_kinds.count,
            "requests that are sent at a time (default: in Offline as many as saturate the engine)",
        ),
        "weights": (
            ("same", "other"),
            (
                "other: the engine has other weights than --weights, such as quantised ones, so its"
                " answers are not judged (default same)"
            ),
        ),
    },
)

REFERENCES: dict[str, SutSpec] = {
    REFERENCE: _torch(
        module="sut.reference.{architecture}",
        execution="eager",
        summary=(
            "Transformers, segment-anything and diffusers called plainly, by files that share no"
            " code with a SUT"
        ),
        precisions=("float32",),
        packages=("torch", "transformers", "segment-anything", "diffusers"),
        options=_IN_FLIGHT,
    ),
    "keras-file-on-tensorflow": _keras3_tensorflow(
        module="sut.reference.{architecture}",
        execution="graph",
        summary="Keras 3 on TensorFlow without XLA in float64, called plainly",
        precisions=("float64",),
        packages=("keras", "tensorflow"),
    ),
    "keras-file-on-torch": _keras3(
        module="sut.reference.{architecture}",
        environment="keras3-torch",
        execution="eager",
        summary="Keras 3 on PyTorch in float64, called plainly",
        backend="torch",
        process_env={"KERAS_BACKEND": "torch", **_KERAS},
        precisions=("float64",),
        packages=("keras", "torch"),
        out_of_memory=_TORCH_OUT_OF_MEMORY,
    ),
}
"""The references. They are never measured: no command lists them, and `--sut` does not accept them.
"""

ALIASES = {"native-torch": "native-torch-compile"}
"""Other names of SUTs, from the published tables."""

GONE = {
    "native-torch-script": (
        "PyTorch has deprecated TorchScript: take native-torch-eager or native-torch-compile"
    )
}
"""SUTs of earlier releases → what to take instead."""

TRIED_FIRST = {
    "pytorch": "native-torch-eager",
    "torch": "native-torch-eager",
    "torch-compile": "native-torch-compile",
    "jax": "keras3-jax",
    "keras": "keras3-jax",
    "keras-jax": "keras3-jax",
    "tensorflow": "keras3-tensorflow",
    "tf": "keras3-tensorflow",
    "keras-tensorflow": "keras3-tensorflow",
    "keras-torch": "keras3-torch",
    "transformers": "native-torch-eager",
    "huggingface": "native-torch-eager",
}
"""Names that people try first → the SUT that is proposed."""


def of_keras(sut: str) -> bool:
    """Return whether a SUT runs Keras' own library of models, of Keras 2 or 3."""
    return sut in SUTS and sut.startswith("keras")


def framework_of(sut: str) -> str:
    """Return the name of the framework that computes. It is empty for the mock, and for a SUT that
    no longer exists.
    """
    packages = (SUTS | REFERENCES)[sut].packages if sut in SUTS | REFERENCES else ()
    names = (name for name, each in FRAMEWORKS.items() if each.package in packages)
    return next(names, "")


def adamw_of(sut: str) -> str:
    """Return whose AdamW the SUT has.

    "keras" adds epsilon to the second moment before its correction (Kingma & Ba 2015, end of
    section 2), and "torch" after it. "keras" subtracts weight × decay × rate. "torch" multiplies
    weights by 1 - decay × rate, which is rounded to float32. "keras-on-torch" has the epsilon of
    Keras and the decay of PyTorch. "jax" is that of native JAX: as "torch", but XLA fuses decay and
    update, and rounds once.
    """
    packages = {*spec_of(sut).packages} if sut in SUTS else set()
    if not {"keras", "tf-keras"} & packages:
        return "jax" if "jax" in packages else "torch"
    return "keras-on-torch" if "torch" in packages else "keras"


def keeps_programs(sut: str) -> bool:
    """Return whether the programs that the SUT compiles are kept on disk
    (`sut.variables.keeping_kernels`), or the models that it converts (`sut.converted_models`).
    """
    known = FRAMEWORKS.get(framework_of(sut))
    converts = sut in SUTS and SUTS[sut].execution == "runtime"
    return converts or bool(known and known.keeps_programs)


def profiler_of(sut: str) -> str | None:
    """Return the module whose `record` runs a call under the profiler of the SUT's framework. None:
    there is none for it.
    """
    known = FRAMEWORKS.get(framework_of(sut))
    return known.profiler if known else None


def recorded_names(wanted: Iterable[str], versions: Mapping[str, str]) -> dict[str, str]:
    """Return package → its name in `versions`, for each wanted package that `versions` contains.

    A distribution may spell its name with `_` for `-`, and a build for one device has its own name
    (ONE_PACKAGE).
    """
    spelt = {name.lower().replace("_", "-"): name for name in versions}
    builds = {package: build for build, package in ONE_PACKAGE}
    recorded = {}
    for name in wanted:
        for distribution in (builds.get(name, name), name):
            if distribution in spelt:
                recorded[name] = spelt[distribution]
    return recorded


def spec_of(name: str) -> SutSpec:
    """Return the entry of a SUT or of a reference. Raises KeyError."""
    return SUTS[name] if name in SUTS else REFERENCES[name]


def unsupported(
    sut: str, *, model: str, architecture: str, task: str, precision: str, device: str
) -> str | None:
    """Return why this SUT cannot run this cell, as far as known without running anything."""
    spec = SUTS[sut]
    lacking = DEVICES[device].lacks.get(precision)
    if lacking:
        return f"--precision {precision}: {lacking}"
    of_precision = (f"{model}/{task}/{precision}", f"{model}/{precision}", f"*/{precision}")
    for key in (*of_precision, f"{model}/{task}", model, architecture):
        if key in spec.unsupported:
            return spec.unsupported[key]
    if architecture in _OWN_REFERENCE and architecture not in spec.references:
        return _OWN_REFERENCE[architecture]
    if task == FIT and spec.no_fit:
        return spec.no_fit
    if spec.architectures and architecture not in spec.architectures:
        written = " and ".join(spec.architectures)
        return _OTHER_ARCHITECTURES.format(written=written, architecture=architecture)
    fault = missing(sut, architecture, task)
    if not fault:
        return None
    reason = _NO_TRAINING if task == FIT else _NOT_WRITTEN
    return reason.format(architecture=architecture, missing=fault)


def missing(sut: str, architecture: str, task: str) -> str | None:
    """Return which file or function a SUT or a reference lacks for this architecture and task.
    None: nothing is missing.

    The file is read and not imported.
    """
    module = module_of(sut, architecture)
    file = f"{module.replace('.', '/')}.py"
    source = _source(module)
    if source is None:
        return _NO_FILE.format(file=file)
    if task == FIT and f"\ndef {LOAD_TRAINING}(" not in source:
        return _NO_FUNCTION.format(file=file, function=LOAD_TRAINING)
    return None


def streams(sut: str, architecture: str) -> bool:
    """Return whether a SUT can hand over each token of this architecture at once.

    The file is read and not imported. An engine reports whether it can when it is asked.
    """
    if SUTS[sut].remote:
        return True
    written = SUTS[sut].architectures
    if SUTS[sut].whole_answers or (written and architecture not in written):
        return False
    return _STREAM in (_source(module_of(sut, architecture)) or "")


def _source(module: str) -> str | None:
    """Return the text of a module, or None if there is no such module."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return None
    return Path(found.origin).read_text(encoding="utf-8")


def module_of(sut: str, architecture: str) -> str:
    """Return the name of the module of a SUT or a reference for this architecture."""
    return spec_of(sut).module.format(architecture=architecture)


def load_module(sut: str, architecture: str) -> ModuleType:
    """Import the module that `module_of` names. Only the worker calls this function."""
    return importlib.import_module(module_of(sut, architecture))


def loader(sut: str, architecture: str, task: str) -> Callable[[Any], Any]:
    """Import the module that `module_of` names. Return its function that loads an Inference, or a
    Training, from a Workload.
    """
    module = load_module(sut, architecture)
    return getattr(module, LOAD_TRAINING if task == FIT else LOAD)


def packages() -> tuple[str, ...]:
    """Return the distributions of all frameworks. A system's description reports the versions of
    those that are installed.
    """
    names: list[str] = []
    for spec in SUTS.values():
        names += spec.packages
    return tuple(dict.fromkeys(names))
