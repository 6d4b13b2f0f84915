"""The commands, each in a file with its flags. `main(arguments)` of each file returns the exit
code.
"""

COMMANDS = {
    "run": "measure one cell: ./run.sh --sut keras3-jax --scenario Offline --model mistral",
    "sweep": (
        "measure many cells in turns, each several times: ./run.sh sweep --sut all --scenario"
        " Offline --model bert"
    ),
    "bisect": (
        "which release of a package made a cell slower: ./run.sh bisect --sut keras3-jax --model"
        " bert --scenario Offline --package jax --from 0.9.0 --to 0.10.2"
    ),
    "choose": (
        "which framework is fastest for a model, within a time: ./run.sh choose my-model/"
        " prompts.txt --within 10m"
    ),
    "profile": (
        "in which operations the time of a step goes: ./run.sh profile --sut"
        " native-torch-eager,keras3-jax --model bert --size mid"
    ),
    "serve": (
        "a SUT behind the OpenAI protocol: ./run.sh serve --sut native-torch-compile --weights DIR"
        " --port 8000"
    ),
    "weights": (
        "a folder for --weights from a GGUF file, a .bin or a LoRA: ./run.sh weights model.gguf"
        " my-model"
    ),
    "list": "the SUTs, models, sizes and scenarios there are",
    "report": (
        "the answer in words, a table and a page, from finished runs: ./run.sh report runs --html"
        " report.html; --history: when did a cell get slower"
    ),
    "compare": (
        "two folders of finished runs, cell by cell: ./run.sh compare runs/before runs/after"
        " --fail-if-slower 5%"
    ),
    "show": "print a finished run again: ./run.sh show runs/…/quick-1",
    "audit": "judge a run or submission directory from its files alone",
    "compliance": (
        "MLPerf's compliance tests on a finished run directory: ./run.sh compliance runs/…/valid-1"
    ),
    "pack": "the trees of --mode submission runs as one: ./run.sh pack runs --out submission",
    "bundle": (
        "all that a machine without a network needs, in one folder: ./run.sh bundle DIR --sut"
        " keras3-jax"
    ),
    "clean": "what the cache holds, in sizes; --yes removes it",
    "doctor": (
        "is this machine fit to measure on? --limits: what each framework reaches here, in matrix"
        " products and memory"
    ),
    "test": "the harness' own tests (arguments go to pytest)",
}
"""Command, which is also the name of its file → its text in --help."""

GONE = {
    "history": "./run.sh report ROOT --history",
    "limits": "./run.sh doctor --limits",
    "tune": "./run.sh sweep … --tuned each",
}
"""Command of earlier releases → the one that does it now."""
