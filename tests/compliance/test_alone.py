"""`python -m compliance` judges a directory without the harness and with five packages."""

import json
import subprocess
import sys

from tests.support.files import edit_json
from tests.support.tree import ROOT

ALONE = """
import runpy, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("harness", "scenarios", "sut", "rich", "jinja2"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.argv[0] = "compliance"
runpy.run_module("compliance", run_name="__main__")
"""


def audit(*arguments):
    words = [sys.executable, "-c", ALONE, *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_run_is_judged_and_what_needs_the_harness_is_named(run):
    (run / "result.json").write_text("{}")
    done = audit(run)
    assert (done.returncode, done.stderr) == (0, "")
    *_, left_out, sentence = done.stdout.splitlines()
    assert left_out.startswith("left out: result.json is not derived again")
    assert sentence.startswith("level quick of v6.1 passes")


def test_a_changed_log_fails_as_with_the_harness(run):
    edit_json(run / "record.json", lambda d: {**d, "round": "v5.1"})
    done = audit(run, "--json")
    assert done.returncode == 1
    assert not json.loads(done.stdout)["holds"]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    done = audit(tmp_path / "none")
    assert done.returncode == 2
    assert done.stderr.endswith("none: there is no such directory\n")
