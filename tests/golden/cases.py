"""What golden data consists of: the runs that are measured, and the flags whose plans are kept.
`files/` is a folder that `making` writes.
"""

import shlex
from itertools import product

from sut.registry import SUTS

_BENCHMARK = "--weights files/bert-span --dataset files/dev-v1.1.json"
_LLAMA = "--weights files/llama --new-tokens 4"
RUNS = {
    "real": (
        "sweep --sut keras3-jax,keras3-tensorflow,keras3-tensorflow-graph,keras3-torch,"
        "keras3-openvino,keras2-tensorflow,keras2-tensorflow-graph,native-torch-eager,"
        "native-torch-compile,native-jax,hf-tensorflow,hf-tensorflow-xla"
        " --model bert --scenario Offline --repeats 1 --duration 1",
        "sweep --sut keras3-jax,native-torch-eager,native-torch-compile,native-jax --model mistral"
        " --scenario Offline --new-tokens 8 --repeats 1 --duration 1",
        "sweep --sut native-torch-eager,native-jax --model bert --scenario Fit --repeats 1",
        "--sut native-jax --model mistral --scenario SingleStream --stream --duration 1",
        "--sut native-torch-eager --model bert --scenario Offline --tuned to-mkldnn --duration 1",
    ),
    "mock": (
        "sweep --sut mock --model bert,mistral,sam --scenario Offline,SingleStream,MultiStream"
        " --repeats 1 --duration 1",
        "sweep --sut mock --model bert --scenario Offline --batch-size 1,8 --repeats 2"
        " --duration 1",
        "--sut mock --model stable-diffusion --scenario Offline --duration 1",
        "--sut mock --model bert --scenario Server --max-latency-ms 50 --duration 1",
        "--sut mock --model bert --scenario Server --max-latency-ms 50 --rate 50 --duration 1",
        "--sut mock --model mistral --scenario Interactive --rate 5 --duration 1",
        "--sut mock --model bert --scenario Fit",
        "--sut mock --model bert --scenario Fit --sut-option wrong-fit=frozen",
        "--sut mock --model bert --scenario Fit --sut-option wrong-fit=skip-batch",
        "--sut mock --model bert --scenario Offline --replicas 2 --duration 1",
        "--sut mock --model bert --scenario Offline --replicas 1/2 --duration 1",
        "--sut mock --model bert --scenario Offline --threads 1 --duration 1",
        "--sut mock --model mistral --scenario Offline --sut-option shards=2 --duration 1",
        "--sut mock --model bert --scenario Offline --sut-option wrong=swap-rows --duration 1",
        "--sut mock --model bert --scenario Offline --sut-option raise-at=3 --duration 1",
        "--sut mock --model bert --scenario SingleStream --sut-option kill-at=3 --duration 1",
        "--sut mock --model mistral --scenario SingleStream --stream --sut-option wrong=at-once"
        " --duration 1",
        f"--sut mock --scenario Offline {_LLAMA} --dataset files/prompts.txt --duration 1",
        f"--sut mock --scenario Offline --benchmark bert-99 {_BENCHMARK} --duration 1",
    ),
}
"""Name of a folder → the commands whose runs are below it."""


def _flags(**flags):
    """Flag → its values, of texts with a space between values. `-` stands for None."""
    return {
        f"--{name.replace('_', '-')}": tuple(None if each == "-" else each for each in text.split())
        for name, text in flags.items()
    }


_OWN = _flags(sut="mock native-torch-eager", scenario="Offline")
_BERT = _flags(sut="mock keras3-jax", model="bert")
_MOCK = _flags(sut="mock", model="bert", scenario="Offline")
FLAGS = (
    {"--sut": tuple(name for name in SUTS if name != "endpoint")}
    | _flags(model="bert mistral sam stable-diffusion", scenario="Offline"),
    _flags(sut="mock keras3-jax native-torch-eager", model="bert mistral")
    | _flags(scenario="SingleStream MultiStream Server Interactive Fit"),
    _flags(sut="keras3-jax native-torch-compile keras3-openvino", model="bert mistral")
    | _flags(scenario="Offline", precision="float32 tf32 bfloat16 float16", size="tiny full"),
    _flags(sut="native-jax keras3-torch", model="distilbert distilgpt2 gpt2 roberta")
    | _flags(scenario="Offline Fit"),
    _flags(sut="mock native-torch-eager", model="bert mistral")
    | _flags(scenario="Offline Server", batch_size="1 7 64", duration="- 1"),
    _BERT
    | _flags(scenario="Offline SingleStream Fit", mode="quick valid submission", seq_len="- 16"),
    _OWN
    | _flags(model="mistral gpt2", task="- generate", prompt_tokens="- 8", new_tokens="- 4")
    | _flags(eos="- stop ignore"),
    _flags(sut="mock", model="bert mistral", scenario="Server Interactive")
    | _flags(max_latency_ms="- 20.5", rate="- 10", max_wait_ms="- 5"),
    _flags(sut="mock", model="mistral", scenario="Server", stream="- on off")
    | _flags(max_ttft_ms="- 100", max_tpot_ms="- 10"),
    _flags(sut="mock native-torch-eager", model="bert", scenario="Offline Server")
    | _flags(replicas="2 1/2", threads="- 1 1000"),
    _MOCK
    | _flags(replicas="- 2", replicas_on="slurm ray", interface="- 127.0.0.1")
    | _flags(slurm="- partition=gpu"),
    _OWN | _flags(model="mistral", scenario="Fit"),
    _BERT
    | _flags(scenario="Offline")
    | _flags(sut_option="in_flight=2 shards=2 quantize=int8 latency-ms=x none=1"),
    _flags(sut="native-torch-eager native-jax", model="bert", scenario="Offline")
    | _flags(tuned="off to-mkldnn to-mkldnn+channels-last nothing-such"),
    _OWN
    | _flags(weights="files/llama", dataset="- files/prompts.txt files/rows.jsonl", field="- text")
    | {"--chat": (None, "")}
    | _flags(chat_option="- thinking=false"),
    _BERT
    | _flags(model="-", scenario="Offline SingleStream Server", benchmark="bert-99 bert-99.9")
    | _flags(weights="files/bert-span", dataset="- files/dev-v1.1.json"),
    _flags(sut="keras3-jax native-jax", model="files/dense.keras", scenario="Offline Fit")
    | _flags(custom="- files/prompts.txt"),
    _MOCK | _flags(model="stable-diffusion bert", steps="4 0"),
    _MOCK | _flags(device="cpu cuda", submitter="- me m/e"),
    _MOCK | _flags(dataset="synthetic uneven nowhere", system="- nowhere.json"),
    _MOCK | _flags(python="nowhere/python"),
    _MOCK | {"--with": ("nowhere@nowhere/folder",)},
    _MOCK | _flags(sut="keras3 pytorch", model="bret"),
    {"": ("sweep",)}
    | _flags(sut="all mock,native-jax", model="bert bert,mistral", scenario="Offline Offline,Fit")
    | _flags(batch_size="- 1,8", repeats="- 2"),
    {"": ("choose bert", "choose files/llama files/prompts.txt")} | _flags(within="1min 10min"),
)
"""Each of these gives the product of its values. None: the flag is left out. An empty text: it is
given without a value. The flag "" has words before all flags.
"""


def flag_sets():
    """The words of each command whose plan is kept."""
    for flags in FLAGS:
        for values in product(*flags.values()):
            words = []
            for flag, value in zip(flags, values, strict=True):
                if value is not None:
                    words += [flag, *shlex.split(value)] if flag else shlex.split(value)
            yield words
