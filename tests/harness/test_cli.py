"""The command line as a user meets it: run.sh in a process of its own, exit codes, one sentence for
each mistake.
"""

import json
import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest

from formats import schemas
from formats.writing import write_json
from harness import result
from harness.commands.list import matrix
from harness.execution.environments import ROOT
from harness.inputs import models
from sut.registry import SUTS
from tests.support.commands import call
from tests.support.files import read_json


def run_sh(*arguments, cwd=ROOT, timeout=120):
    words = [a if isinstance(a, bytes) else str(a) for a in arguments]
    return subprocess.run(
        [ROOT / "run.sh", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture
def mock(tmp_path, capsys):
    """Flags of a run of the mock → exit code, standard output and standard error."""

    def measured(*flags, scenario="SingleStream"):
        words = f"--sut mock --scenario {scenario} --model bert --duration 0.5 --out {tmp_path}"
        return call([*words.split(), *flags], capsys)

    return measured


MOCK_OF = "--sut mock --scenario Offline"
MOCK = f"{MOCK_OF} --model bert"
MOCK_ONE = "--sut mock --scenario SingleStream --model bert"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "--sut keras3-jacks --scenario Offline --model mistral",
            "--sut keras3-jacks: unknown (did you mean keras3-jax?)",
        ),
        ("--sut mock --scenario Offlin --model bert", "did you mean Offline?"),
        (f"{MOCK_OF} --model mistrl", "did you mean mistral?"),
        (f"{MOCK} --size huge", "--size huge: unknown; there are tiny, mid, full"),
        (
            f"{MOCK} --size base",
            "--size base: `base` means BERT base, 12 layers of 768, to most readers, and the middle",
        ),
        ("--sut mock --scenario Offline", "--model is needed, or --weights DIR: bert, "),
        (
            "--sut mock --scenario SingleStream --model bert --batch-size 8",
            "SingleStream issues one sample a query",
        ),
        (f"{MOCK} --batch-size 0", "--batch-size 0: at least 1"),
        (f"{MOCK} --dataset nowhere.txt", "nowhere.txt: there is no such file"),
        (f"{MOCK} --sut-option latancy-ms=2", "did you mean latency-ms?"),
        (f"{MOCK} --sut-option latency-ms=fast", "the value is a number"),
        (f"{MOCK} --device cuda", "mock runs on cpu"),
        (f"{MOCK} --submitter ../up", "is the name of a folder"),
        (f"{MOCK_OF} --model mistral --seq-len 9", "models that predict"),
        (f"{MOCK} --sut-option wrong=foo", "there are swap-rows, zero-position"),
        (f"{MOCK} --duration nan", "--duration nan: more than 0"),
        (f"{MOCK} --duration 5 --mode valid", "is for --mode quick"),
        (f"{MOCK} --python python3", "leave it out"),
        (f"{MOCK} --eos halt", "--eos halt: unknown; there are stop, ignore"),
        (f"{MOCK_OF} --model mistral --eos stop", "no end token is known. It needs --weights"),
        (f"{MOCK} --precision fp32", "did you mean float32?"),
        (f"{MOCK} --dataset .", "is a directory; give one file"),
        (f"{MOCK} --sut keras3-jax", "--sut keras3-jax: given twice"),
        (f"{MOCK} --precision float32 --precision tf32", "--precision tf32: given twice"),
        (f"{MOCK} --duration 1 --duration 2", "--duration 2.0: given twice"),
        (f"{MOCK} --out a --out b", "--out b: given twice"),
        ("list --cache a --cache a", "--cache a: given twice"),
        (f"{MOCK} --batch-size 100000000000000000000", "at least 1, and at most 1048576"),
        (f"{MOCK} --out runs-\udcff", "is not UTF-8: rename the file"),
        ("clean runs", "clean runs: unknown; there are environments, checkpoints"),
        (
            "sweep --sut mock --scenario Offline",
            "--model, or the name of a recipe: accelerator, front-page, keras3-published",
        ),
        ("sweep --sut mock --scenario Offline --model bert --repeats 0", "--repeats 0: at least 1"),
        ("sweep front-page --until 5%", "--until is gone: the answer says how many more runs"),
        (f"{MOCK_OF} --model gpt2 --seq-len 0", "--seq-len 0: at least 1"),
        (
            "--sut native-torch-eager --scenario Offline --model roberta --precision bfloat16",
            "roberta has limits of accuracy only for float32 and tf32",
        ),
        (
            "--scenario Offline --model bert --sut native-torch-script",
            "--sut native-torch-script: it is gone: PyTorch has deprecated TorchScript",
        ),
        (f"{MOCK} --lora own", "--lora is gone: Fit trains the parameters"),
        ("sweep hf-2019", "recipe hf-2019: it is gone: "),
        (f"{MOCK} --task fit", "--task fit: unknown; there are predict, generate"),
        (
            "--sut mock --scenario Fit --model bert --task predict",
            "Fit trains, and only the other scenarios have tasks",
        ),
        ("sweep keras3-publishd", "did you mean keras3-published?"),
        ("aduit runs", "there is no command 'aduit' (did you mean audit?)"),
        ("tune --sut mock", "tune: is no command any more: ./run.sh sweep … --tuned each does it"),
        ("limits", "limits: is no command any more: ./run.sh doctor --limits does it"),
        ("history runs", "history: is no command any more: ./run.sh report ROOT --history does it"),
        ("report runs --csv x", "--csv is gone: --json has the rows"),
        ("report runs --figures=x", "--figures is gone: the page of --html has the bars"),
        ("report runs --parquet x", "--parquet is gone: --json has the rows"),
        ("compliance runs --force", "--force is gone: a test that --test names runs again"),
        ("audit . --level valid", "--level is gone: --mode has its values"),
        (f"{MOCK} --whole", "--whole is gone: a row of a .jsonl file may have several lines"),
        (f"{MOCK} --max-batch 8", "did you mean --batch-size?"),
        ("audit nowhere", "there is no such directory"),
        ("audit README.md", "is a file; an audit takes a directory"),
        ("audit . --mode gold", "--mode gold: unknown; there are quick, valid"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(command, words, capsys):
    code, out, error = call(command.split(), capsys)
    assert code == 2
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert out == ""


def test_a_cell_is_measured_audited_and_told(tmp_path, capsys):
    done = run_sh(
        *MOCK_ONE.split(), "--duration=0.5", "--out=out", "--json", "--quiet", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    jsonschema.validate(document, schemas.named("result"))
    (cell,) = document["cells"]
    assert (cell["status"], cell["reason"], cell["levels"]) == ("ok", "", ["quick"])
    assert cell["loadgen"] == "VALID"
    # The mock's millisecond; how much more depends on what else runs.
    assert cell["metric"]["value"] >= 0.9 and cell["accuracy"]["passed"]
    assert not cell["ranked"]
    assert (cell["started"][:2], cell["sweep"]) == ("20", None)
    assert {"python", "numpy"} <= set(cell["versions"]) and "rich" not in cell["versions"]
    parts = dict(cell["seconds"])
    assert {"performance", "accuracy", "audit", "around the test", "other"} <= parts.keys()
    total = parts.pop("total")
    parts.pop("until_measuring")
    assert sum(parts.values()) == pytest.approx(total, abs=0.01)
    (written,) = (tmp_path / "out").rglob("result.json")
    assert read_json(written) == cell
    code, out, _ = call(["audit", cell["directory"], "--json"], capsys)
    assert code == 0
    assert {c["verdict"] for c in json.loads(out)["checks"]} <= {"PASS", "MANUAL", "N/A"}
    # Half a second is not ten minutes.
    assert call(["audit", cell["directory"], "--mode", "valid"], capsys)[0] == 1


def test_the_same_command_again_is_a_new_measurement(mock):
    places = [json.loads(mock("--json")[1])["cells"][0]["directory"] for _ in range(2)]
    assert [place[-7:] for place in places] == ["quick-1", "quick-2"]


def test_a_failed_test_is_told_and_the_same_command_tries_it_again_in_the_same_place(
    mock, tmp_path
):
    for _ in range(2):
        code, out, _ = mock("--sut-option", "raise-at=100", scenario="Offline")
        assert code == 1
        assert "RuntimeError: told to raise at batch 100" in out
        assert "the same command continues from here" in out
    run = next(tmp_path.rglob("quick-1"))
    assert read_json(run / "result.json")["status"] == "error"
    assert "Traceback" in (run / "raw/performance.attempt-1/worker.log").read_text()
    assert not list(tmp_path.rglob("quick-2"))


def test_wrong_answers_are_invalid_and_cost_exit_code_1(mock, tmp_path):
    flags = ["--json", "--sut-option", "wrong=swap-rows", "--batch-size", "4"]
    code, out, _ = mock(*flags, scenario="Offline")
    (cell,) = json.loads(out)["cells"]
    assert code == 1
    assert (cell["status"], cell["cause"]) == ("invalid", "accuracy")
    assert not cell["accuracy"]["passed"]
    path = next(tmp_path.rglob("record.json"))
    record = read_json(path)
    record["accuracy"]["agreeing"] = ["TensorFlow", "PyTorch"]
    record["cell"]["sut"] = "keras3-jax"
    write_json(path, record)
    reason = result.derive(path.parent).reason
    assert reason.endswith(". TensorFlow and PyTorch agree in float64, JAX in float32 differs")


def test_a_dry_run_says_what_no_framework_needs_to_be_asked_for(capsys):
    words = "--sut native-torch --scenario Offline --model gemma --size tiny --device cpu --dry-run"
    told = json.loads(call([*words.split(), "--precision", "tf32", "--json"], capsys)[1])
    assert told["sut"] == "native-torch-compile"  # the alias is that name
    assert told["refused"].startswith("--precision tf32: a format of NVIDIA GPUs")
    code, _, said = call([*words.split(), "--python", "/usr/bin/nopython"], capsys)
    assert (code, "there is no such interpreter" in " ".join(said.split())) == (3, True)


def test_a_dry_run_makes_nothing(tmp_path, capsys):
    places = ("--out", tmp_path / "out", "--cache", tmp_path / "cache")
    code, out, _ = call([*MOCK_ONE.split(), "--dry-run", *places], capsys)
    assert code == 0
    assert "mapped to bert-99" in out
    assert not list(tmp_path.iterdir())


def test_json_leaves_progress_on_standard_error_and_says_what_the_run_will_cost(mock):
    _, out, said = mock("--json")
    assert json.loads(out)["cells"][0]["status"] == "ok"
    costs = [line for line in said.splitlines() if line.startswith("about ")]
    assert any("no earlier run of this cell" in line for line in costs)
    _, out, _ = mock("--dry-run", "--json")
    assert "by 1 earlier run of this cell" in json.loads(out)["cost"]


def test_version_and_help_are_answered():
    version = run_sh("--version")
    assert (version.returncode, version.stdout) == (
        0,
        "keras-mlperf-harness 0.1.0, MLPerf Inference v6.1\n",
    )
    assert run_sh("help").stdout == run_sh("--help").stdout != ""
    assert run_sh("help", "sweep").stdout == run_sh("sweep", "--help").stdout


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "| true"])
def test_a_standard_output_that_is_closed_costs_no_traceback(tmp_path, redirection):
    command = f"{ROOT}/run.sh {MOCK} --duration 0.3 --out {tmp_path}"
    done = subprocess.run(
        ["bash", "-c", f"{command} {redirection}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
    assert read_json(next(tmp_path.rglob("result.json")))["status"] == "ok"


def test_a_folder_whose_name_is_not_utf_8_is_worked_in(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    done = run_sh(*MOCK.split(), "--duration", "0.3", "--out", tmp_path / "out", cwd=folder)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_listing_of_80_columns_breaks_no_word():
    import pty

    master, terminal = pty.openpty()
    subprocess.run(["stty", "cols", "80"], stdin=terminal, check=True)
    process = subprocess.Popen(
        [ROOT / "run.sh", "list"],
        stdout=terminal,
        env=os.environ | {"NO_COLOR": "1", "TERM": "dumb"},
    )
    os.close(terminal)
    output = b""
    with suppress(OSError):  # the terminal is closed at its end
        while part := os.read(master, 65536):
            output += part
    process.wait()
    lines = output.decode().splitlines()
    assert max(map(len, lines)) <= 80
    words = set(run_sh("list").stdout.split())
    assert {word for line in lines for word in line.split()} <= words


def test_clean_tells_sizes_and_removes_with_yes_alone(tmp_path, capsys):
    cache = tmp_path / "cache"

    def clean(*words):
        code, out, _ = call(["clean", *words, "--cache", cache], capsys)
        assert code == 0
        return out

    for name, size in (
        ("environments/keras3-jax-cpu/lib", 3000),
        ("environments/core/lib", 7),
        ("references/bert-tiny-0123456789abcdef/b", 2000),
        ("checkpoints/my-model-20240101/x", 11),
        ("elsewhere/x", 9),
    ):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(bytes(size))
    (cache / "checkpoints/bert-own-0123456789ab").symlink_to(tmp_path)
    (cache / "environments/core.lock").touch()
    look = json.loads(clean("--json"))
    sizes = {Path(entry["path"]).name: entry["bytes"] for entry in look["entries"]}
    reference, own = "bert-tiny-0123456789abcdef", "bert-own-0123456789ab"
    link = sizes.pop(own)
    assert sizes == {"keras3-jax-cpu": 3000, reference: 2000}
    assert link < 1000 and not look["removed"]
    assert "nothing was removed; --yes removes them" in clean()
    clean("references", "--yes")
    assert not (cache / "references" / reference).exists()
    assert (cache / "environments/keras3-jax-cpu/lib").exists()
    clean("--yes")
    left = {str(path.relative_to(cache)) for path in cache.rglob("*") if not path.is_dir()}
    assert left == {
        "environments/core/lib",
        "environments/core.lock",
        "elsewhere/x",
        "checkpoints/my-model-20240101/x",
    }
    assert tmp_path.exists()


def test_the_matrix_is_read_from_the_registry(capsys):
    rows = matrix()
    told = {(row["sut"], row["model"], row["task"]): (row["status"], row["reason"]) for row in rows}
    assert told["keras3-jax", "bert", "predict"] == ("supported", "")
    gemma = SUTS["keras2-tensorflow"].unsupported["gemma"]
    assert told["keras2-tensorflow", "gemma", "generate"] == ("unsupported", gemma)
    assert told["keras3-jax", "bert", "fit"][0] == "supported"
    assert told["hf-tensorflow", "bert", "fit"][0] == "unsupported"
    works = sum(len(model.tasks) + bool(model.fit) for model in map(models.load, models.names()))
    assert len(told) == len(rows) == works * sum(spec.runs_models for spec in SUTS.values())
    assert f"({gemma})" in " ".join(call(["list", "--matrix"], capsys)[1].split())


def test_list_and_help_import_no_framework_nor_numpy(monkeypatch):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    for arguments in (["list"], ["--help"], ["list", "--json"]):
        done = run_sh(*arguments)
        assert done.returncode == 0
        imported = {
            line.split("|")[-1].strip().split(".")[0]
            for line in done.stderr.splitlines()
            if line.startswith("import time:")
        }
        assert "argparse" in imported
        assert not imported & {"numpy", "scipy", "torch", "jax", "keras", "transformers"}
    assert {s["name"] for s in json.loads(done.stdout)["suts"]} >= {
        "mock",
        "keras3-jax",
        "native-torch-eager",
    }


def test_too_few_queries_for_loadgen_are_told_with_the_seconds_that_do(mock):
    code, out, said = mock("--sut-option", "latency-ms=100")
    assert code == 0, said
    assert "INVALID: Only processed" in out
    assert "ranked     no, because LoadGen does not call it VALID" in out
    words = r"\(LoadGen had too few queries to call it VALID\)"
    assert re.search(rf"--duration \d+\.\d+  {words}", out)
