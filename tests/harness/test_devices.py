"""What a device and a framework are called stands in sut/ alone; the harness reads it there."""

import dataclasses
import os
import re
import sys
import types

import pytest

from harness.commands import run as run_command
from harness.errors import UsageError
from harness.execution import environments, machine
from harness.execution.environments import ROOT
from harness.inputs import models
from harness.request import plan
from harness.submission import inference
from scenarios.worker import failures, preflight
from sut import registry, variables
from sut.contract import Unsupported
from sut.devices import DEVICES, HOST, Device, accelerators
from sut.evidence import device_memory
from sut.registry import REFERENCE, SUTS
from tests.support import nvml
from tests.support.cells import request

TPU = Device(
    name="tpu",
    driver="TPU runtime",
    lacks={"tf32": "a format of NVIDIA GPUs"},
    process_env={"TPU_CHIPS": "1"},
    variables=("LIBTPU",),
)


@pytest.fixture
def tpu(monkeypatch):
    """One entry for the device, and a SUT that runs on it."""
    monkeypatch.setitem(DEVICES, "tpu", TPU)
    monkeypatch.setitem(
        SUTS, "keras3-jax", dataclasses.replace(SUTS["keras3-jax"], devices=("cpu", "tpu"))
    )


def test_every_device_is_named_as_its_entry_and_the_host_is_always_there():
    assert all(name == device.name for name, device in DEVICES.items())
    assert not DEVICES[HOST].accelerator
    assert accelerators() == ["cuda"]


def test_a_device_is_an_entry(tpu, tmp_path, monkeypatch):
    assert "{cpu,cuda,tpu}" in run_command.run_parser().format_help()
    monkeypatch.setattr(machine, "accelerators", list)
    words = r"no TPU runtime answers on this machine \(see ./run.sh doctor\): take --device cpu"
    with pytest.raises(UsageError, match=f"--device tpu: {words}"):
        request(tmp_path, sut="keras3-jax", device="tpu")
    card = machine.Accelerator(name="A", memory_bytes=int(80e9), driver="1")
    monkeypatch.setattr(machine, "accelerators", lambda: [card])
    asked = request(tmp_path, sut="keras3-jax", model="mistral", python="python3")
    assert (asked.device, asked.size.name) == ("tpu", "full")
    assert plan.memory_shortage(asked, "float32") is None  # its memory is its own
    tf32 = dataclasses.replace(asked, precision="tf32")
    assert plan.unsupported(tf32) == "--precision tf32: a format of NVIDIA GPUs"


def test_its_environments_are_found_by_its_name(tpu, tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "LOCKS", tmp_path)
    for name in ("thing-cpu", "thing-tpu", "loadgen-v6.1"):
        (tmp_path / f"{name}.txt").write_text(name)
    made = tmp_path / "environments" / "thing-tpu"
    made.mkdir(parents=True)
    (made / "lock.txt").write_text("thing-tpuloadgen-v6.1")
    assert environments.made_for(tmp_path, "thing") == ["tpu"]


def test_its_variables_are_recorded(tpu, monkeypatch):
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "x")
    assert variables.read_by_any(os.environ)["LIBTPU_INIT_ARGS"] == "x"


@pytest.mark.parametrize(
    ("own", "shown"),
    [({}, "0"), ({"CUDA_VISIBLE_DEVICES": "3, 1"}, "3"), ({"CUDA_VISIBLE_DEVICES": ""}, "")],
)
def test_a_worker_is_shown_one_gpu(own, shown):
    assert DEVICES["cuda"].environment(own) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": shown,
    }
    assert DEVICES["cpu"].environment(own) == own


def test_a_container_with_a_driver_and_without_nvml_can_be_measured_when_the_gpu_is_named(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(machine, "accelerators", list)
    monkeypatch.setattr(machine, "gpus_without_nvml", lambda: 1)
    asked = request(tmp_path, sut="keras3-jax", model="mistral", device="cuda", python="python3")
    assert (asked.device, asked.size.name) == ("cuda", "tiny")
    assert "NVML does not answer" in asked.reasons[0]
    assert request(tmp_path, sut="keras3-jax", model="mistral").device == HOST


def test_the_memory_of_a_slice_is_that_of_the_slice(monkeypatch):
    module = nvml.module()
    module.nvmlDeviceGetMigMode = lambda _: (1, 1)
    module.nvmlDeviceGetMigDeviceHandleByIndex = lambda _, index: f"slice {index}"
    module.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(
        total=10 if handle == "slice 0" else 80, used=1
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [a.memory_bytes for a in machine.accelerators()] == [10]


def test_the_peak_leaves_out_what_the_probe_of_the_devices_speed_held(monkeypatch):
    monkeypatch.setattr(device_memory, "_peaks", [])
    peaks = iter((14, 17))
    with device_memory.probing(lambda: next(peaks)):
        pass
    with device_memory.probing(lambda: 17):  # the second time nothing is probed
        pass
    assert [device_memory.peak(n) for n in (17, 18, None)] == [14, 18, None]


def test_the_packages_of_a_new_framework_stand_in_the_systems_description(monkeypatch):
    known = (
        "keras keras-hub keras-cv jax jaxlib tensorflow torch openvino tf-keras keras-nlp"
        " transformers peft segment-anything diffusers onnxruntime onnxruntime-genai onnx"
        " onnxscript openvino-genai optimum-intel nncf"
    )
    assert registry.packages() == tuple(known.split())
    monkeypatch.setitem(SUTS, "new", dataclasses.replace(SUTS["mock"], packages=("tinygrad",)))
    assert inference.packages()[-1] == "tinygrad"


@pytest.mark.parametrize(
    ("sut", "error", "status"),
    [
        ("native-torch-compile", RuntimeError("CUDA error: out of memory"), "oom"),
        ("native-torch-eager", RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), "oom"),
        ("keras3-jax", RuntimeError("failed call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"), "oom"),
        ("mock", MemoryError(), "oom"),
        ("mock", RuntimeError("told to raise"), "error"),
        ("none of ours", KeyError("none of ours"), "error"),
    ],
)
def test_running_out_of_memory_is_told_in_the_frameworks_own_words(sut, error, status):
    assert failures.outcome_of(error, sut).status == status


@pytest.mark.parametrize(
    ("sut", "kind", "text", "asked"),
    [
        (
            "native-torch-eager",
            RuntimeError,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 51539607552 bytes.",
            48 << 30,
        ),
        (
            "keras3-torch",
            RuntimeError,
            "CUDA out of memory. Tried to allocate 48.00 GiB. GPU 0 has a total of 139.8 GiB",
            48 << 30,
        ),
        (
            "keras3-jax",
            RuntimeError,
            "RESOURCE_EXHAUSTED: Out of memory allocating 51539607552 bytes.",
            48 << 30,
        ),
        (
            "keras3-tensorflow",
            ValueError,
            "ResourceExhausted:\nin a node\nOut of memory allocating 51539607552 bytes.",
            48 << 30,
        ),
        (
            "keras3-tensorflow-graph",
            ValueError,
            "ResourceExhausted: OOM when allocating tensor with shape[3,5] and type half on CPU",
            30,
        ),
        ("mock", MemoryError, "Unable to allocate 48.0 GiB for an array with shape (3,)", 48 << 30),
    ],
)
def test_out_of_memory_says_how_many_bytes_were_asked_for_and_how_many_there_were(
    sut, kind, text, asked
):
    error = kind(text)
    available = preflight.free_memory_bytes()
    outcome = failures.outcome_of(error, sut)
    numbers = r"asked for ([\d,]+) bytes; available ([\d,]+) bytes$"
    told = re.search(numbers, outcome.reason)
    assert outcome.status == "oom" and told, outcome.reason
    there = [int(number.replace(",", "")) for number in told.groups()]
    assert there == [asked, pytest.approx(available, rel=0.5)]
    assert failures.outcome_of(error, sut, "cuda").reason.endswith(f"asked for {asked:,} bytes")


def test_the_error_of_a_traced_function_is_told_by_its_innermost_line():
    """As TensorFlow raises it: the lines of source first, and the arguments of the call last."""
    inner = (
        "TypeError: Input 'e' of 'SelectV2' Op has type bfloat16 that does not match type float32"
        " of argument 't'."
    )
    layer = "    TypeError: Exception encountered when calling layer 'model' (type Model)."
    error = TypeError(
        f'in user code:\n\n    File "lm.py", line 3, in call  *\n{layer}\n        {inner}\n\n   '
        " Call arguments received:\n"
    )
    assert failures.outcome_of(error, "hf-tensorflow").reason == inner
    found = failures.outcome_of(TypeError("in user code:\n"), "hf-tensorflow").reason
    assert found == "TypeError: in user code:"


def test_the_error_of_a_keras_layer_is_told_by_the_cause_and_not_by_the_layer():
    error = RuntimeError(
        "Exception encountered when calling Dot.call().\n\n\x1b[1mThe size of tensor a (4) must"
        " match\x1b[0m\n\nArguments received by Dot.call():\n  • x1=1"
    )
    error._keras_call_info_injected = True
    told = failures.outcome_of(error, "keras3-torch")
    words = "RuntimeError: The size of tensor a (4) must match"
    assert (told.status, told.reason) == ("error", words)


def test_the_error_of_a_late_import_is_told_with_its_cause():
    error = RuntimeError("Failed to import it because of:\ncannot import name 'FLAX'")
    told = failures.outcome_of(error, "native-torch-eager").reason
    assert told == "RuntimeError: Failed to import it because of: cannot import name 'FLAX'"


def test_the_error_of_a_graphs_node_is_told_by_the_line_before_its_name():
    error = ValueError(
        "Graph execution error:\n\nDetected at node a defined at:\n  File 1\n\nIt is not supported."
        "\n\t [[{{node a}}]] [Op:b]"
    )
    reason = failures.outcome_of(error, "keras3-tensorflow").reason
    assert reason == "ValueError: It is not supported."


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (ValueError("strides"), "unsupported"),
        (MemoryError("no bytes"), "oom"),
        (None, "unsupported"),
    ],
)
def test_a_library_that_refuses_a_model_for_lack_of_memory_is_out_of_memory(cause, status):
    error = Unsupported("Keras does not run the file")
    error.__cause__ = cause
    assert failures.outcome_of(error, "keras3-jax").status == status


@pytest.mark.parametrize("model", models.names())
def test_every_model_names_a_class_of_each_framework_and_of_the_reference(model):
    known = models.load(model)
    cell = {"model": model, "architecture": known.architecture, "task": known.task}
    cell |= {"precision": "float32", "device": "cpu"}
    used = {
        spec.classes
        for name, spec in SUTS.items()
        if spec.classes and not registry.unsupported(name, **cell)
    }
    of_reference = "transformers"
    if known.architecture == "sam":
        used, of_reference = {"segment_anything", "keras_hub"}, "segment_anything"
    if known.architecture == "stable_diffusion":
        used, of_reference = {"diffusers", "keras_cv"}, "diffusers"
    assert used <= known.classes.keys()
    assert known.native_class == known.classes[of_reference]
    assert registry.spec_of(REFERENCE).classes == "transformers"


def test_no_code_outside_sut_decides_by_the_name_of_a_framework_or_a_card():
    """Sentences and examples may name one."""
    name = re.compile(
        r"""["'](cuda|keras|keras[-_]hub|jax|jaxlib|tensorflow|torch|transformers)["']"""
    )
    paths = [path for folder in ("harness", "scenarios") for path in (ROOT / folder).rglob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if name.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()
