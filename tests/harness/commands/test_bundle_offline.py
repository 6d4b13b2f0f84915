"""A bundle is made from the locks as they are, and measures in a network namespace of its own."""

import json
import os
import subprocess

import pytest

from harness.execution import environments, wheels
from harness.execution.environments import ROOT

ALONE = ["unshare", "--map-root-user", "--net"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(wheels.bundle(ROOT) == ROOT, reason="a bundle is made in a checkout"),
]


def test_a_bundle_measures_without_a_network(tmp_path):
    if subprocess.run([*ALONE, "true"], check=False).returncode:
        pytest.skip("no network namespace can be made here")
    made = tmp_path / "made"
    subprocess.run([ROOT / "run.sh", "bundle", made, "--core", "--quiet"], check=True)
    there = made.rename(tmp_path / "there")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    run = subprocess.run(
        [*ALONE, there / "run.sh", "--sut=mock", "--scenario=Offline", "--model=bert", "--json"],
        env={**own, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["cells"][0]["status"] == "ok"


def _without_repetition():
    """Texts of locks. They have every package of all locks, and no package in two versions."""
    texts = [{}]
    for lock in sorted(environments.LOCKS.glob("*.txt")):
        for block in environments.lock_blocks(lock):
            name, first_line = environments.block_name(block), block.splitlines()[0]
            for text in texts:
                if text.setdefault(name, block).splitlines()[0] == first_line:
                    break
            else:
                texts.append({name: block})
    return texts


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_each_locked_package_has_a_wheel_for_each_python_or_only_a_source(
    tmp_path, made_environment, python
):
    uv = made_environment.python.with_name("uv")
    platform = "--python-platform=x86_64-manylinux_2_28"
    flags = ["--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={python}", platform]
    lock = tmp_path / "lock.txt"
    for text in _without_repetition():
        lock.write_text("".join(each for each in text.values() if each.count("--hash") != 1))
        subprocess.run([uv, "pip", "compile", *flags, lock], check=True)
