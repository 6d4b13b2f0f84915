"""A bundle holds what its locks name and is refused if it cannot work. Real pip and uv, tiny
wheels.
"""

import os
import re
import subprocess
import sys
import zipfile

import pytest

from formats.writing import write_json
from harness.errors import EnvironmentFailure
from harness.execution import bundle, environments, wheels
from tests.support.wheels import HERE, PYTHON, lock, source, wheel
from tests.support.wheels import bundle as made_bundle

pytestmark = pytest.mark.skipif(
    wheels.bundle(environments.ROOT) == environments.ROOT,
    reason="it makes environments as a checkout does, and this is a bundle",
)


TARGET = "manylinux_2_28_x86_64"


@pytest.fixture
def index(tmp_path, monkeypatch, made_environment):
    """A folder that stands for the package index, and the only one. pip is that of the core."""
    monkeypatch.setattr(sys, "executable", str(made_environment.python))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "index"


def download(tmp_path, locks, *platforms, device="cpu"):
    """→ the files that the environment `thing` has."""
    plan = {"thing": bundle.packages(locks, "3.12", platforms or [TARGET])}
    folder = tmp_path / "wheels"
    return bundle.download(plan, "3.12", device, folder, lambda text: None)["thing"]


def test_of_each_package_the_best_wheel_for_each_platform_is_taken(tmp_path, index):
    machines = ("2_17_x86_64", "2_28_x86_64", "2_28_aarch64")
    tags = ["py3-none-any", *(f"cp312-cp312-manylinux_{machine}" for machine in machines)]
    there = [wheel(index, "fast", tag) for tag in (*tags, "cp313-cp313-manylinux_2_17_x86_64")]
    locked = [lock(tmp_path / "thing-cpu.txt", *there)]
    for machine, tag in zip(machines, tags[1:], strict=True):
        assert download(tmp_path, locked, f"manylinux_{machine}") == [f"fast-1.0-{tag}.whl"]
    both = download(tmp_path, locked, "manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
    assert both == sorted(f"fast-1.0-{tag}.whl" for tag in tags[2:])


def test_markers_are_those_of_the_other_python(tmp_path):
    locked = tmp_path / "thing-cpu.txt"
    locked.write_text(
        "a==1 ; python_full_version < '3.12'\n"
        "a==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:00\n"
        "b==1 ; sys_platform == 'win32'\n"
        "c==1 ; platform_machine == 'aarch64'\n"
    )
    named = {python: bundle.packages([locked], python, [TARGET]) for python in ("3.11", "3.12")}
    assert [str(package) for package in named["3.11"]] == ["a==1"]
    assert [str(package) for package in named["3.12"]] == ["a==2"]
    assert named["3.12"][0].hashes == ("--hash=sha256:00",)
    other = bundle.packages([locked], "3.12", ["manylinux_2_28_aarch64"])
    assert [str(package) for package in other] == ["a==2", "c==1"]


def test_a_package_without_a_wheel_for_the_target_is_named(tmp_path, index):
    there = wheel(index, "fast", "cp312-cp312-manylinux_2_28_x86_64")
    locked = [lock(tmp_path / "thing-cpu.txt", there)]
    words = "no wheel of fast==1.0 for Python 3.12 on manylinux_2_28_aarch64: Could not find"
    with pytest.raises(EnvironmentFailure, match=words):
        download(tmp_path, locked, "manylinux_2_28_aarch64")


def test_a_package_without_any_wheel_is_built_and_its_environment_is_made_without_a_network(
    tmp_path, index, monkeypatch
):
    locked = lock(tmp_path / "thing-cpu.txt", source(index, "slow"))
    [name] = download(tmp_path, [locked], "manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
    assert name == "slow-1.0-py3-none-any.whl"
    assert download(tmp_path, [locked]) == [name], "the same command continues"
    folder = made_bundle(tmp_path, {"thing-cpu": [tmp_path / "wheels" / name]})
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    make(tmp_path, locked)
    subprocess.run(
        [tmp_path / "environments/thing-cpu/bin/python", "-c", "import slow"], check=True
    )


def test_a_built_wheel_that_is_not_pure_python_is_refused(tmp_path, index):
    locked = lock(tmp_path / "thing-cpu.txt", source(index, "slow", "cp312-cp312-linux_x86_64"))
    with pytest.raises(EnvironmentFailure, match=r"no wheel of slow==1.0 .* is not pure Python\."):
        download(tmp_path, [locked])
    assert list((tmp_path / "wheels").iterdir()) == []


def test_a_file_that_the_lock_does_not_name_is_refused(tmp_path, index):
    locked = lock(tmp_path / "thing-cpu.txt", wheel(index, "fast"))
    locked.write_text(re.sub("sha256:..", "sha256:00", locked.read_text()))
    with pytest.raises(EnvironmentFailure, match="fast==1.0 .*HASHES"):
        download(tmp_path, [locked])
    assert list((tmp_path / "wheels").iterdir()) == []


def test_a_wheel_that_is_there_is_kept_and_a_damaged_one_is_replaced(tmp_path, index):
    locked = [lock(tmp_path / "thing-cpu.txt", wheel(index, "fast"))]
    path = tmp_path / "wheels" / download(tmp_path, locked)[0]
    content = path.read_bytes()
    inode = path.stat().st_ino
    download(tmp_path, locked)
    assert path.stat().st_ino == inode
    path.write_bytes(content[:-1])
    download(tmp_path, locked)
    assert path.read_bytes() == content


@pytest.mark.parametrize(("device", "version"), [("cpu", "1.0+cpu"), ("cuda", "1.0")])
def test_each_device_has_its_own_build_of_torch(tmp_path, index, device, version):
    for each in ("1.0", "1.0+cpu"):
        wheel(index, "torch", version=each)
    locked = tmp_path / f"thing-{device}.txt"
    locked.write_text("torch==1.0\n")
    name = f"torch-{version}-py3-none-any.whl"
    assert download(tmp_path, [locked], device=device) == [name]
    whole = (index / name).read_bytes()
    (tmp_path / "wheels" / name).write_bytes(whole[:-9])
    download(tmp_path, [locked], device=device)
    assert (tmp_path / "wheels" / name).read_bytes() == whole, "an interrupted copy is replaced"


def test_a_build_for_the_cpu_comes_from_its_own_index(tmp_path, index, monkeypatch):
    for name, version in (("pypi", "1.0"), ("cpu", "1.0+cpu")):
        page = tmp_path / name / "torch"
        file = wheel(page, "torch", version=version).name
        (page / "index.html").write_text(f'<a href="{file.replace("+", "%2B")}">{file}</a>')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "pypi").as_uri())
    monkeypatch.setattr(bundle, "CPU_INDEXES", {"torch": (tmp_path / "cpu").as_uri()})
    locked = tmp_path / "thing-cpu.txt"
    locked.write_text("torch==1.0\n")
    assert download(tmp_path, [locked]) == ["torch-1.0+cpu-py3-none-any.whl"]
    assert download(tmp_path, [locked], device="cuda") == ["torch-1.0-py3-none-any.whl"]


def _versions(text):
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))


def test_the_keras_part_holds_no_framework_and_a_machine_that_measures_needs_no_figures():
    core, beside = map(_versions, bundle.parts("cuda", [], reference=False))
    assert {"keras", "keras-hub", "h5py"} <= beside.keys()
    frameworks = "jax|torch|tensorflow|nvidia-(?!ml-py)|triton|cuda"
    assert not [name for name in beside if re.match(frameworks, name)]
    assert {"numpy", "scipy", "uv"} <= core.keys()
    assert "matplotlib" not in core


def test_what_the_python_there_has_is_left_out():
    for text in bundle.parts("cuda", ["numpy", "scipy"], reference=True):
        assert not {"numpy", "scipy"} & _versions(text).keys()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_with_the_references_libraries_a_python_with_torch_alone_lacks_nothing(device):
    versions = _versions(bundle.parts(device, [], reference=True)[1])
    assert not [name for name in versions if re.match(r"torch|triton|cuda|nvidia-(?!ml-py)", name)]
    wanted = environments.required(environments.LOCKS / f"native-torch-{device}.txt")
    assert wanted.keys() - versions.keys() == {"torch"}
    own = (environments.LOCKS / f"native-torch-{device}.txt").read_text()
    others = [
        name
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", own, re.M)
        if versions.get(name, version) != version and name not in ("networkx", "numpy")
    ]
    assert others == []


@pytest.fixture
def thing(tmp_path, monkeypatch):
    """A bundle of one environment, thing-cpu, in use by PIP_FIND_LINKS. → (bundle, lock)."""
    one = wheel(tmp_path / "bundle/wheels", "fast")
    folder = made_bundle(tmp_path / "bundle", {"thing-cpu": [one]})
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder, lock(tmp_path / "thing-cpu.txt", one)


def make(tmp_path, locked):
    return environments.make(
        tmp_path / "environments/thing-cpu", [locked], environments.installer(), lambda text: None
    )


def test_an_environment_is_made_from_a_bundle(tmp_path, thing):
    make(tmp_path, thing[1])
    python = tmp_path / "environments/thing-cpu/bin/python"
    assert (
        subprocess.run(
            [python, "-c", "import fast; print(fast.tag)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        == "py3-none-any\n"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.9"}, "is for Python 3.9 and this is Python"),
        (
            {"platforms": ["manylinux_2_17_sparc"]},
            "is for manylinux_2_17_sparc and this machine is",
        ),
        ({"platforms": [HERE.replace("2_17", "2_999")]}, "manylinux_2_999"),
        ({"environments": {}}, "and not thing-cpu: name its SUT"),
        ({"without": ["no_such_package"]}, "leaves no_such_package to .* which lacks it"),
        ("missing", "lacks the wheel fast-1.0"),
        ("shortened", "is damaged"),
        ("altered", "is damaged"),
    ],
)
def test_a_bundle_that_cannot_work_is_refused_in_one_sentence_before_anything_is_made(
    tmp_path, thing, change, words
):
    folder, locked = thing
    one = folder / "wheels/fast-1.0-py3-none-any.whl"
    if isinstance(change, dict):
        document = wheels.manifest(folder) | change
        write_json(folder / "bundle.json", document)
    elif change == "missing":
        one.unlink()
    else:
        content = one.read_bytes()
        one.write_bytes(content[:-1] if change == "shortened" else content[:-1] + b"x")
    with pytest.raises(EnvironmentFailure, match=words) as failure:
        make(tmp_path, locked)
    assert "\n" not in str(failure.value)
    assert not (tmp_path / "environments/thing-cpu").exists()


def test_a_bundle_without_the_tests_environment_names_the_flag_that_adds_it(thing):
    with pytest.raises(EnvironmentFailure, match="and not dev: add --tests when you make it"):
        wheels.check(thing[0], "dev")


def test_what_an_interpreter_lacks_is_put_beside_it_and_not_into_it(tmp_path, monkeypatch):
    vendor = tmp_path / "vendor"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", vendor], check=True)
    site = vendor / f"lib/python{PYTHON}/site-packages"
    for name in ("torch", "safetensors", "numpy"):
        zipfile.ZipFile(wheel(tmp_path, name)).extractall(site)
    brought = [
        wheel(tmp_path / "bundle/wheels", name)
        for name in ("mlcommons_loadgen", "transformers", "torch")
    ]
    locks = tmp_path / "locks"
    locks.mkdir()
    lock(locks / "native-torch-cpu.txt", brought[1], brought[2])
    lock(locks / "loadgen-v6.1.txt", brought[0])
    for name, text in {
        "native-torch-cpu": "torch\ntransformers\n",
        "loadgen-v6.1": "mlcommons-loadgen\n",
    }.items():
        (locks / f"{name}.in").write_text(text)
    monkeypatch.setattr(environments, "LOCKS", locks)
    monkeypatch.setenv(
        "PIP_FIND_LINKS", str(made_bundle(tmp_path / "bundle", {wheels.BESIDE: brought}))
    )
    before = sorted(site.iterdir())
    adopted = environments.adopt(
        str(vendor / "bin/python"), "native-torch", cache=tmp_path / "cache"
    )
    places = "import torch, transformers; print(torch.__file__, transformers.__file__)"
    both = subprocess.run(
        [adopted.python, "-c", places], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [str(vendor) in place for place in both] == [True, False]
    assert sorted(path for path in site.iterdir() if path.name != "__pycache__") == before
