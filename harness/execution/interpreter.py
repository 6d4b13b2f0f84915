"""This module asks an interpreter which packages it imports, and from where, before anything runs
in it. Standard library only.

It also lets an environment import the packages of another interpreter.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentFailure
from sut.registry import ONE_PACKAGE

# Prints the versions of every distribution an interpreter can import from, as JSON.
_INVENTORY = (
    "import importlib.metadata as m; print(json.dumps({d.metadata['Name'].lower().replace('_',"
    " '-'): d.version for d in m.distributions() if d.metadata['Name']}))"
)
# Seconds an interpreter of --python may take to list its packages.
_PATIENCE_S = 60

BESIDE_PTH = "beside.pth"
"""The file that lets an environment see another interpreter's packages."""


def inventory(python: str) -> dict[str, str]:
    """Distribution → version; a package that has several names has all of them."""
    told = _ask(python, _INVENTORY)
    if not isinstance(told, dict):
        raise EnvironmentFailure(
            _no_python(python, f"asked for its packages, it printed {json.dumps(told)!r}")
        )
    versions = {str(name): str(version) for name, version in told.items()}
    for build, other in (pair for names in ONE_PACKAGE for pair in (names, names[::-1])):
        if build not in versions and other in versions:
            versions[build] = versions[other]
    return versions


def _ask(python: str, program: str) -> Any:
    """The JSON that a program prints in this interpreter. The last line counts: a site's own banner
    may stand before it.
    """
    try:
        process = subprocess.run(
            [python, "-P", "-c", f"import json; {program}"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_S,
            preexec_fn=die_with_parent,
        )
        if not process.returncode:
            return json.loads(process.stdout.strip().splitlines()[-1])
        words = " ".join(process.stderr.strip().splitlines()[-1:])
    except subprocess.TimeoutExpired:
        raise EnvironmentFailure(
            f"--python {python} said nothing for {_PATIENCE_S} s: it was ended; give another"
            " interpreter"
        ) from None
    except OSError as e:
        words = e.strerror or str(e)
    except (ValueError, IndexError):
        words = f"asked for its packages, it printed {process.stdout[-80:]!r}"
    raise EnvironmentFailure(_no_python(python, words))


def _no_python(python: str, words: str) -> str:
    return f"--python {python} does not run as Python 3.11 or newer: {words}"


def let_see(directory: Path, python: str) -> None:
    """Let an environment import what another interpreter imports, after its own packages."""
    packages = _ask(
        str(directory / "bin" / "python"),
        "import sysconfig; print(json.dumps(sysconfig.get_path('purelib')))",
    )
    folders = _ask(
        python,
        "import sys; print(json.dumps([p for p in sys.path if p.endswith(('site-packages',"
        " 'dist-packages'))]))",
    )
    lines = (f"import site; site.addsitedir({folder!r})\n" for folder in folders)
    (Path(packages) / BESIDE_PTH).write_text("".join(lines), encoding="utf-8")


def die_with_parent() -> None:
    """Linux: a process whose parent is killed ends too. An installer would write on into what the
    next command makes anew.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
