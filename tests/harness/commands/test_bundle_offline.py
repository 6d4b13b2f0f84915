"""A bundle is made from the locks as they are, and measures in a network namespace of its own."""

import json
import os
import re
import subprocess

import pytest

from harness.execution import environments, wheels
from harness.execution.environments import ROOT

ALONE = ["unshare", "--map-root-user", "--net"]
LOCKS = sorted(path.stem for path in environments.LOCKS.glob("*-c[pu]*.txt"))

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
    assert json.loads(run.stdout)["status"] == "ok"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("name", ["core", "dev", "loadgen-v6.1", *LOCKS])
def test_each_locked_package_has_a_wheel_for_each_python_or_one_source(
    tmp_path, made_environment, name, python
):
    blocks = environments.lock_blocks(environments.LOCKS / f"{name}.txt")
    several = [block for block in blocks if block.count("--hash") != 1]
    (tmp_path / "lock.txt").write_text("".join(several))
    uv = made_environment.python.with_name("uv")
    platform = "--python-platform=x86_64-manylinux_2_28"
    flags = ["--quiet", "--no-deps", "--only-binary=:all:", f"--python-version={python}", platform]
    found = subprocess.run(
        [uv, "pip", "compile", *flags, tmp_path / "lock.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert re.search(r"==", found.stdout)
