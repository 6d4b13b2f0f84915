#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: Transformers loads a Llama 3.1 folder and saves it again; KerasHub computes the same from
#   both.
# Seen: from the second one KerasHub computes a model without the scaling of its rotary positions.
#   There is no warning, and the hidden states are off by tenths of a standard deviation and more.
# Why: Transformers 5 writes rope_type and factors into rope_parameters. KerasHub takes the base
#   from there, but the scaling only from rope_scaling, the field of older folders
#   (convert_llama3.py).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import json
import sys

import keras
import keras_hub
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

folder = sys.argv[1]
ROPE = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
CONFIG = LlamaConfig(
    vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2, rms_norm_eps=1e-6,
    rope_parameters=dict(ROPE, rope_theta=10000.0),
)
torch.manual_seed(0)
model = LlamaForCausalLM(CONFIG).eval()
ids = np.random.default_rng(0).integers(3, 300, (1, 96))
with torch.no_grad():
    right = model.model(torch.from_numpy(ids)).last_hidden_state.numpy()


def apart():
    """The largest difference of the hidden states, in their standard deviations."""
    found = keras_hub.models.Backbone.from_preset(folder)
    states = found({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    return np.abs(keras.ops.convert_to_numpy(states) - right).max() / right.std()


model.save_pretrained(folder)
config = json.load(open(f"{folder}/config.json"))
print("saved by Transformers 5: rope_parameters", config["rope_parameters"])
again = apart()
del config["rope_parameters"]
json.dump(config | dict(rope_scaling=ROPE, rope_theta=10000.0), open(f"{folder}/config.json", "w"))
first = apart()
same = LlamaForCausalLM.from_pretrained(folder).eval()
with torch.no_grad():
    other = same.model(torch.from_numpy(ids)).last_hidden_state.numpy()
print("as Meta wrote it, Transformers: off by", np.abs(other - right).max())
print(f"as Meta wrote it, KerasHub: off by {first:.1e} standard deviations")
print(f"saved again, KerasHub: off by {again:.1e} standard deviations")
if np.abs(other - right).max() > 1e-5 or first > 1e-3 or again < 0.1:
    sys.exit("This has changed.")
EOF
pip=("$folder/env/bin/pip" install -qq)
"${pip[@]}" torch==2.13.0 transformers==5.23.0 keras==3.15.1 jax==0.10.2 jaxlib==0.10.2
"${pip[@]}" kagglehub==1.0.1 sentencepiece==0.2.3 regex==2026.11.15
"${pip[@]}" --no-deps keras-hub==0.32.0  # without TensorFlow, which it does not need here
export KERAS_BACKEND=jax TQDM_DISABLE=1 TF_CPP_MIN_LOG_LEVEL=3
"$folder/env/bin/python" "$folder/show.py" "$folder" 2>"$folder/errors" || {
  cat "$folder/errors"
  exit 1
}
