"""Environments are made once, redone when half-made, and made by one process at a time. uv is
played by a script that counts its calls.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from harness.execution import environments, interpreter, wheels
from harness.execution.environments import ROOT, EnvironmentFailure
from sut.registry import SUTS
from tests.support.commands import is_alive, until
from tests.support.files import program

pytestmark = pytest.mark.skipif(
    wheels.bundle(ROOT) == ROOT,
    reason="it makes environments as a checkout does, and this is a bundle",
)


@pytest.fixture
def locks(tmp_path):
    lock = tmp_path / "thing-cpu.txt"
    lock.write_text("six==1.17.0\n")
    return [lock]


@pytest.fixture
def uv(tmp_path):
    """`uv venv … DIR` makes DIR/bin/python; every call is a line of calls.txt."""
    text = f"""
import pathlib, sys, time
with open({str(tmp_path / "calls.txt")!r}, "a") as f:
    f.write(" ".join(sys.argv[1:3]) + "\\n")
if sys.argv[1] == "venv":
    (pathlib.Path(sys.argv[-1]) / "bin").mkdir(parents=True)
    (pathlib.Path(sys.argv[-1]) / "bin/python").touch()
time.sleep(0.05)
if pathlib.Path({str(tmp_path / "broken")!r}).exists():
    sys.exit("error: no such package")
"""
    return [str(program(tmp_path / "uv", text, sys.executable))]


def calls(tmp_path):
    file = tmp_path / "calls.txt"
    return file.read_text().splitlines() if file.exists() else []


def make(tmp_path, locks, uv):
    return environments.make(tmp_path / "env" / "thing", locks, uv, lambda text: None)


def test_it_is_made_once(tmp_path, locks, uv):
    assert make(tmp_path, locks, uv) > 0
    assert make(tmp_path, locks, uv) == 0
    assert calls(tmp_path) == ["venv -q", "pip install"]


def test_a_changed_lock_makes_it_again(tmp_path, locks, uv):
    make(tmp_path, locks, uv)
    locks[0].write_text("six==1.16.0\n")
    assert make(tmp_path, locks, uv) > 0
    assert (tmp_path / "env/thing/lock.txt").read_text() == "six==1.16.0\n"


def test_a_half_made_one_is_redone(tmp_path, locks, uv):
    (tmp_path / "env/thing/lib").mkdir(parents=True)
    (tmp_path / "env/thing/lib/half").touch()
    assert make(tmp_path, locks, uv) > 0
    assert not (tmp_path / "env/thing/lib/half").exists()


def test_a_failed_installation_says_why_and_is_not_taken_for_made(tmp_path, locks, uv):
    (tmp_path / "broken").touch()
    with pytest.raises(EnvironmentFailure, match="no such package"):
        make(tmp_path, locks, uv)
    (tmp_path / "broken").unlink()
    assert make(tmp_path, locks, uv) > 0


def test_two_processes_make_it_once(tmp_path, locks, uv):
    threads = [threading.Thread(target=make, args=(tmp_path, locks, uv)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert calls(tmp_path) == ["venv -q", "pip install"]


def test_an_interpreter_that_lacks_packages_is_told_what_to_install(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    words = r"lacks .*torch==2\.13\.0.*mlcommons-loadgen==6\.0\.17: install with"
    with pytest.raises(EnvironmentFailure, match=words):
        environments.adopt(str(bare / "bin" / "python"), "native-torch")


def test_an_interpreter_with_other_versions_is_taken_and_the_difference_noted(tmp_path):
    versions = {"torch": "2.11.0", "transformers": "5.23.0", "safetensors": "1", "numpy": "2"}
    versions |= {"mlcommons-loadgen": "6.0.17", "segment-anything": "1.0", "diffusers": "0.42.0"}
    has = program(tmp_path / "fake-python", f"echo '{json.dumps(versions)}'")
    found = environments.adopt(str(has), "native-torch")
    assert found.python == has
    assert found.notes == (
        "torch 2.11.0, where the lock has 2.13.0",
        "accelerate is missing: --scenario Fit of models of Transformers needs it",
        "peft is missing: --scenario Fit of language models needs it",
    )


@pytest.mark.parametrize(
    ("name", "tensorflow"),
    [("keras3-torch", {}), ("keras3-tensorflow", {"tensorflow-cpu": "2.21.0"})],
)
def test_a_gpu_image_needs_what_the_lock_for_cuda_names_but_nvml(tmp_path, name, tensorflow):
    packages = "torch keras keras-hub safetensors ml-dtypes numpy mlcommons-loadgen"
    versions = dict.fromkeys(packages.split(), "1") | tensorflow
    has = program(tmp_path / "fake-python", f"echo '{json.dumps(versions)}'")
    found = environments.adopt(str(has), name, "cuda")
    assert "nvidia-ml-py is missing: the GPU's energy and clocks are not recorded" in found.notes


@pytest.mark.parametrize(("lock", "looks"), [("a-cpu.txt", True), ("a-cuda.txt", False)])
def test_a_cpu_torch_in_a_local_folder_is_not_for_cuda(tmp_path, monkeypatch, lock, looks):
    (tmp_path / "torch-2.13.0+cpu.whl").touch()
    (tmp_path / lock).write_text("torch==2.13.0\n")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    expected = ["--find-links", str(tmp_path)] if looks else []
    assert environments.sources([tmp_path / lock]) == expected


def test_an_installer_ends_with_the_harness_that_was_killed_and_the_next_command_succeeds(
    tmp_path, locks, uv
):
    script = f"mkdir -p {tmp_path}/env/thing/bin\necho $$ > {tmp_path}/pid\nexec sleep 60"
    slow = program(tmp_path / "fake-python", script)
    code = (
        "from pathlib import Path; from harness.execution import environments as"
        f" e;e.make(Path({str(tmp_path / 'env/thing')!r}), [Path({str(locks[0])!r})],"
        f" [{str(slow)!r}], print)"
    )
    harness = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    file = tmp_path / "pid"
    installer = int(until(lambda: file.exists() and file.read_text().strip()))
    harness.kill()
    harness.wait()
    until(lambda: not is_alive(installer))
    assert make(tmp_path, locks, uv) > 0


NEEDED = ("torch", "transformers", "safetensors", "numpy", "mlcommons-loadgen")
INVENTORY = json.dumps(dict.fromkeys(NEEDED, "1"))


def test_an_interpreter_may_print_a_banner_of_its_own(tmp_path):
    has = program(tmp_path / "fake-python", f"echo 'Welcome to the cluster {{'\necho '{INVENTORY}'")
    assert environments.adopt(str(has), "native-torch").python == has


def test_an_interpreter_is_looked_up_on_the_path(tmp_path, monkeypatch):
    has = program(tmp_path / "fake-python", f"echo '{INVENTORY}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert environments.adopt("fake-python", "native-torch").python == has


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo hello", "it printed 'hello"),
        ("exit 0", "it printed ''"),
        ("echo '[1]'", "it printed '\\[1\\]"),
        ("echo no such option -P >&2; exit 2", "no such option -P"),
    ],
)
def test_an_interpreter_that_is_none_is_said_without_a_traceback(tmp_path, script, words):
    with pytest.raises(EnvironmentFailure, match=words):
        environments.adopt(str(program(tmp_path / "fake-python", script)), "native-torch")


def test_an_interpreter_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "_PATIENCE_S", 0.5)
    with pytest.raises(EnvironmentFailure, match=r"said nothing for 0\.5 s"):
        environments.adopt(str(program(tmp_path / "fake-python", "sleep 60")), "native-torch")


@pytest.fixture
def checkout(tmp_path):
    """A copy of the source whose .cache cannot be written."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("harness", "results", "sut", "scenarios", "compliance", "formats", "environments"):
        (copy / name).symlink_to(ROOT / name)
    shutil.copy2(ROOT / "run.sh", copy / "run.sh")
    (copy / ".cache").write_text("in the way, as on a file system that cannot be written")
    return copy


def run(command, **places):
    return subprocess.run(command, capture_output=True, text=True, check=False, **places)


def test_on_a_checkout_that_cannot_be_written_the_core_environment_is_under_cache(
    checkout, tmp_path
):
    (tmp_path / "cache/environments").mkdir(parents=True)
    (tmp_path / "cache/environments/core").symlink_to(ROOT / ".cache/environments/core")
    for cache in (["--cache", "cache"], ["--cache=cache"]):
        done = run([checkout / "run.sh", "list", "--json", *cache], cwd=tmp_path)
        assert (done.returncode, done.stdout[:1]) == (0, "{"), done.stderr


def test_a_core_environment_that_cannot_be_made_costs_exit_code_3_and_one_line(checkout):
    done = run([checkout / "run.sh", "list"])
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "give --cache DIR" in done.stderr


def test_run_sh_may_be_a_link(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bench").symlink_to(ROOT / "run.sh")
    (tmp_path / "bench").symlink_to("bin/bench")
    done = run([tmp_path / "bench", "--version"])
    assert done.returncode == 0, done.stderr
    done = run([tmp_path / "bench", "--sut"])
    assert f"(see {tmp_path / 'bench'} --help)" in done.stderr  # what is proposed can be pasted


def test_ctrl_c_while_the_core_environment_is_made_costs_exit_code_130(tmp_path):
    slow = program(tmp_path / "fake-python", "sleep 60")
    code = (
        "import sys; from pathlib import Path; from harness.execution import environments as e;"
        f"sys.executable = {str(slow)!r}; sys.exit(e.main(Path({str(tmp_path / 'env/core')!r})))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert "making the environment core" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert "interrupted" in process.stderr.read()


def test_no_lock_for_a_device_names_the_way_out():
    with pytest.raises(EnvironmentFailure, match="--python PATH"):
        environments.lock_files("keras3-jax", "tpu")


@pytest.mark.parametrize("lock", sorted(p.stem for p in environments.LOCKS.glob("*.in")))
def test_every_lock_pins_with_hashes_and_names_no_host(lock):
    text = (environments.LOCKS / f"{lock}.txt").read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    blocks = [b for b in text.split("\n") if b and not b.startswith((" ", "#"))]
    assert all("==" in b for b in blocks)
    assert [b for b in blocks if not b.rstrip().endswith("\\")] == (
        ["torch==2.13.0"] if "torch==2.13.0" in blocks else []
    )


def packages(lock):
    return set(
        re.findall(r"^([A-Za-z0-9._-]+)==", (environments.LOCKS / f"{lock}.txt").read_text(), re.M)
    )


SUT_ENVIRONMENTS = sorted(
    {spec.environment for spec in SUTS.values() if "cuda" in spec.devices} - {"core"}
)
CUDA_LIBRARY = {
    "keras3-jax": "jax-cuda13-plugin",
    "keras3-tensorflow": "nvidia-cudnn-cu12",
    "keras2-tensorflow": "nvidia-cudnn-cu12",
    "hf-tensorflow": "nvidia-cudnn-cu12",
    "keras3-torch": "triton",
    "native-torch": "triton",
}


@pytest.mark.parametrize("name", SUT_ENVIRONMENTS)
def test_every_sut_environment_has_a_lock_for_each_device(name):
    cpu, cuda = packages(f"{name}-cpu"), packages(f"{name}-cuda")
    assert CUDA_LIBRARY[name] in cuda
    assert "nvidia-ml-py" in cuda  # the worker reads the GPU's energy counter
    assert [p for p in cpu if p.startswith(("nvidia-", "cuda-", "triton"))] == []


@pytest.mark.parametrize("name", SUT_ENVIRONMENTS)
def test_the_frameworks_of_one_environment_are_the_same_versions_on_each_device(name):
    versions = [
        dict(
            re.findall(
                r"^(keras|keras-hub|tf-keras|keras-nlp|jax|torch|transformers|tensorflow)(?:-cpu)?==([0-9.]+)",
                text,
                re.M,
            )
        )
        for text in (
            (environments.LOCKS / f"{name}-{device}.txt").read_text() for device in ("cpu", "cuda")
        )
    ]
    assert versions[0] == versions[1]
    assert versions[0]


@pytest.mark.parametrize("name", SUT_ENVIRONMENTS)
def test_no_environment_holds_a_framework_that_is_not_its_own(name):
    own = {"keras3-jax": {"jax", "jaxlib"}, "keras3-torch": {"torch"}, "native-torch": {"torch"}}
    own |= dict.fromkeys(
        ("hf-tensorflow", "keras2-tensorflow", "keras3-tensorflow"), {"tensorflow"}
    )
    for device in ("cpu", "cuda"):
        held = {p.removesuffix("-cpu") for p in packages(f"{name}-{device}")}
        assert held & {"jax", "jaxlib", "tensorflow", "tensorflow-text", "torch"} == own[name]
