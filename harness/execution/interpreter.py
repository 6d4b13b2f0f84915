"""Find out which packages an interpreter imports, and from where, before anything runs in it.
Standard library only.

An environment can also be made to import the packages of another interpreter.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentFailure
from scenarios.worker.child import end_with_parent
from sut.registry import ONE_PACKAGE

# Prints the version of every distribution that an interpreter can import, as JSON.
_INVENTORY = (
    "import importlib.metadata as m; print(json.dumps({d.metadata['Name'].lower().replace('_',"
    " '-'): d.version for d in m.distributions() if d.metadata['Name']}))"
)
# The seconds that an interpreter of --python may take to list its packages.
_PATIENCE_S = 60

BESIDE_PTH = "beside.pth"
"""The file that makes another interpreter's packages visible in an environment."""


def inventory(python: str) -> dict[str, str]:
    """Distribution → version. A package with several names is listed under each."""
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
    """Return the JSON that a program prints in this interpreter. Only the last line is read,
    because a site may print a banner first.
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
            preexec_fn=end_with_parent,
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
    """Let an environment import the packages of another interpreter, after its own."""
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
