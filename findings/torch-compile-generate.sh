#!/usr/bin/env bash
# Version: torch 2.13.0, transformers 5.23.0
# Guess: torch.compile(model).generate(...) generates with the compiled model.
# Seen: not one compiled graph runs. The figure of a "compiled" model is that of the eager one.
# Why: torch.compile wraps the module's call. The wrapper takes generate from the module, and there
#   it calls the module, which is not compiled. Compile model.forward instead, and a graph runs
#   for each token.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq torch==2.13.0 transformers==5.23.0
cat >"$folder/show.py" <<'EOF'
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

runs = 0


def counting(graph, inputs):
    """A backend of torch.compile that counts how often its graphs run."""

    def run(*values):
        global runs
        runs += 1
        return graph.forward(*values)

    return run


def runs_of(function, *values, **options):
    global runs
    runs = 0
    with torch.no_grad():
        function(*values, **options)
    return runs


sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2)
config = LlamaConfig(**sizes, num_attention_heads=2, eos_token_id=None, pad_token_id=0)
model = LlamaForCausalLM(config).eval()
ids = torch.arange(1, 9)[None]
options = dict(attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
compiled = torch.compile(model, backend=counting)
called = runs_of(compiled, ids)
generated = runs_of(compiled.generate, ids, **options)
model.forward = torch.compile(model.forward, backend=counting)
forward = runs_of(model.generate, ids, **options)
print(f"compiled(ids): {called} run of a compiled graph")
print(f"compiled.generate, 8 tokens: {generated} runs")
print(f"model.generate after model.forward = torch.compile(model.forward): {forward} runs")
if (called, generated, forward) != (1, 0, 8):
    sys.exit("This has changed.")
EOF
"$folder/env/bin/python" "$folder/show.py"
