"""A bundle holds what its locks name, is completed where it broke off, and is refused where it cannot work. Real uv, tiny wheels."""

import http.server
import json
import re
import subprocess
import sys
import threading
import zipfile

import pytest

from harness.errors import EnvironmentFailure
from harness.execution import bundle, environments, wheels
from harness.execution.bundle import Wheel
from tests.support.wheels import HERE, PYTHON, digest, lock, wheel
from tests.support.wheels import bundle as made_bundle

pytestmark = pytest.mark.skipif(
    wheels.bundle(environments.ROOT) == environments.ROOT, reason="it makes environments as a checkout does, and this is a bundle"
)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that stands for the package index, and the only one."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "index"


def test_of_each_package_the_best_wheel_for_the_target_is_taken(tmp_path, index):
    tags = ("py3-none-any", "cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_aarch64")
    there = [wheel(index, "fast", tag) for tag in (*tags, "cp313-cp313-manylinux_2_17_x86_64")]
    locked = [lock(tmp_path / "thing-cpu.txt", *there)]
    found = {target: bundle.resolve(locked, "3.12", target)[0].filename for target in (f"manylinux_2_{n}_x86_64" for n in (17, 28))}
    assert found == {"manylinux_2_17_x86_64": f"fast-1.0-{tags[1]}.whl", "manylinux_2_28_x86_64": f"fast-1.0-{tags[2]}.whl"}


def test_a_package_without_a_wheel_for_the_target_is_named(tmp_path, index):
    locked = [lock(tmp_path / "thing-cpu.txt", wheel(index, "fast", "cp312-cp312-manylinux_2_28_x86_64"))]
    with pytest.raises(EnvironmentFailure, match="fast"):
        bundle.resolve(locked, "3.12", "manylinux_2_28_aarch64")


def test_a_file_that_the_lock_does_not_name_is_refused(tmp_path, index):
    locked = lock(tmp_path / "thing-cpu.txt", wheel(index, "fast"))
    locked.write_text(re.sub("sha256:..", "sha256:00", locked.read_text()))
    with pytest.raises(EnvironmentFailure, match="fast"):
        bundle.resolve([locked], "3.12", "manylinux_2_28_x86_64")


def test_the_keras_part_holds_no_framework_and_a_machine_that_measures_needs_no_figures():
    keras = [environments.LOCKS / f"keras3-{name}-cuda.txt" for name in ("jax", "tensorflow", "torch")]
    names = set(re.findall(r"^([\w.-]+)==", bundle.shared(keras), re.M))
    assert {"keras", "keras-hub", "h5py"} <= names
    assert not [name for name in names if re.match(r"jax|torch|tensorflow|nvidia-(?!ml-py)|triton|cuda", name)]
    assert "matplotlib" not in bundle.for_measuring(environments.LOCKS / "core.txt")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_with_the_references_libraries_a_python_with_torch_alone_lacks_nothing(device):
    keras = bundle.shared([environments.LOCKS / f"keras3-{name}-{device}.txt" for name in ("jax", "tensorflow", "torch")])
    brought = keras + bundle.beside_torch(environments.LOCKS / f"native-torch-{device}.txt", keras)
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", brought, re.M))
    assert not [name for name in versions if re.match(r"torch|triton|cuda|nvidia-(?!ml-py)", name)]
    wanted = environments._requirements(environments.LOCKS / f"native-torch-{device}.in")
    assert {name for name, _ in wanted} - versions.keys() == {"torch"}
    own = (environments.LOCKS / f"native-torch-{device}.txt").read_text()
    assert [n for n, v in re.findall(r"^([\w.-]+)==(\S+)", own, re.M) if versions.get(n, v) != v and n != "networkx" and n != "numpy"] == []


class Interrupting(http.server.BaseHTTPRequestHandler):
    """Sends the file of the class, from where it is asked to; the first answer breaks off in the middle."""

    content, answers = b"", 0

    def do_GET(self):  # noqa: N802
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        type(self).answers += 1
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        self.wfile.write(self.content[start : len(self.content) // 2 if self.answers == 1 else None])

    def do_HEAD(self):  # noqa: N802
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    Interrupting.content, Interrupting.answers = bytes(range(256)) * 4000, 0
    with http.server.HTTPServer(("127.0.0.1", 0), Interrupting) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}/fast.whl"
        made.shutdown()
        thread.join()


def test_a_size_that_the_index_does_not_tell_is_asked_of_the_server(server):
    assert bundle._sized(Wheel("fast.whl", server, 0, "")).bytes == len(Interrupting.content)
    assert bundle._sized(Wheel("fast.whl", "http://127.0.0.1:1/fast.whl", 0, "")).bytes == 0


def test_a_download_that_broke_off_goes_on_where_it_was(tmp_path, server):
    whole = tmp_path / "whole"
    whole.write_bytes(Interrupting.content)
    one, came = Wheel("fast.whl", server, len(Interrupting.content), digest(whole)), []
    bundle.fetch(one, tmp_path / "wheels", came.append)
    assert sum(came) == one.bytes == (tmp_path / "wheels/fast.whl").stat().st_size
    assert Interrupting.answers == 2
    assert bundle.missing(tmp_path / "wheels", [one]) == []


def test_what_is_not_the_file_of_its_hash_never_gets_its_name(tmp_path, server):
    one = Wheel("fast.whl", server, len(Interrupting.content), "0" * 64)
    with pytest.raises(EnvironmentFailure, match="not the file of this sha256"):
        bundle.fetch(one, tmp_path, lambda count: None)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def thing(tmp_path, monkeypatch):
    """A bundle of one environment, thing-cpu, in use by PIP_FIND_LINKS. → (bundle, lock)."""
    one = wheel(tmp_path / "bundle/wheels", "fast")
    folder = made_bundle(tmp_path / "bundle", {"thing-cpu": [one]})
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder, lock(tmp_path / "thing-cpu.txt", one)


def make(tmp_path, locked):
    return environments.make(tmp_path / "environments/thing-cpu", [locked], environments.installer(), lambda text: None)


def test_an_environment_is_made_from_a_bundle(tmp_path, thing):
    make(tmp_path, thing[1])
    python = tmp_path / "environments/thing-cpu/bin/python"
    assert (
        subprocess.run([python, "-c", "import fast; print(fast.tag)"], capture_output=True, text=True, check=True).stdout
        == "py3-none-any\n"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.9"}, "is for Python 3.9 and this is Python"),
        ({"platforms": ["manylinux_2_17_sparc"]}, "is for manylinux_2_17_sparc and this machine is"),
        ({"platforms": [HERE.replace("2_17", "2_999")]}, "manylinux_2_999"),
        ({"environments": {}}, "and not thing-cpu: name its SUT"),
        ({"without": ["no_such_package"]}, "leaves no_such_package to .* which lacks it"),
        ("missing", "lacks the wheel fast-1.0"),
        ("shortened", "is damaged"),
        ("altered", "is damaged"),
    ],
)
def test_a_bundle_that_cannot_work_is_refused_in_one_sentence_before_anything_is_made(tmp_path, thing, change, words):
    folder, locked = thing
    one = folder / "wheels/fast-1.0-py3-none-any.whl"
    if isinstance(change, dict):
        document = wheels.manifest(folder) | change
        (folder / "bundle.json").write_text(json.dumps(document))
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
    brought = [wheel(tmp_path / "bundle/wheels", name) for name in ("mlcommons_loadgen", "transformers", "torch")]
    locks = tmp_path / "locks"
    locks.mkdir()
    lock(locks / "native-torch-cpu.txt", brought[1], brought[2])
    lock(locks / "loadgen-v6.1.txt", brought[0])
    for name, text in {"native-torch-cpu": "torch\ntransformers\n", "loadgen-v6.1": "mlcommons-loadgen\n"}.items():
        (locks / f"{name}.in").write_text(text)
    monkeypatch.setattr(environments, "LOCKS", locks)
    monkeypatch.setenv("PIP_FIND_LINKS", str(made_bundle(tmp_path / "bundle", {wheels.BESIDE: brought})))
    before = sorted(site.iterdir())
    adopted = environments.adopt(str(vendor / "bin/python"), "native-torch", "v6.1", cache=tmp_path / "cache")
    places = "import torch, transformers; print(torch.__file__, transformers.__file__)"
    both = subprocess.run([adopted.python, "-c", places], capture_output=True, text=True, check=True).stdout.split()
    assert [str(vendor) in place for place in both] == [True, False]
    assert sorted(path for path in site.iterdir() if path.name != "__pycache__") == before
