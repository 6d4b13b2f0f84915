#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: a Qwen 2 folder with use_sliding_window gives each layer the window that Transformers gives
#   it, or is refused.
# Seen: no layer has a window. Within the window the hidden states agree, and behind it they are off
#   by standard deviations. A model that is made with its own windows has none either.
# Why: the converter passes use_sliding_window (convert_qwen.py), and the model's argument is
#   use_sliding_window_attention; an unknown name is taken without a word. And the fused attention,
#   which JAX has on CPUs, too, does not get the window (_compute_attention in qwen_attention.py).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
cat >"$folder/show.py" <<'EOF'
import sys

import keras
import keras_hub
import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

folder = sys.argv[1]
SIZES = dict(
    vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2,
)
WINDOW = dict(use_sliding_window=True, sliding_window=8, max_window_layers=0)
torch.manual_seed(0)
model = Qwen2ForCausalLM(Qwen2Config(**SIZES, **WINDOW)).eval()
model.save_pretrained(folder)


def apart(length, window=None):
    """The largest difference of the hidden states, in their standard deviations."""
    found = keras_hub.models.Backbone.from_preset(folder)
    if window:
        weights = found.get_weights()
        asked = dict(use_sliding_window_attention=True, sliding_window_size=window)
        found = type(found).from_config(found.get_config() | asked)
        found.set_weights(weights)
    ids = np.random.default_rng(0).integers(3, 300, (1, length))
    with torch.no_grad():
        right = model.model(torch.from_numpy(ids)).last_hidden_state.numpy()
    states = found({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    return np.abs(keras.ops.convert_to_numpy(states) - right).max() / right.std()


print("layers by Transformers:", model.config.layer_types)
within, behind, asked = apart(8), apart(40), apart(40, window=8)
print(f"window 8, 8 tokens: off by {within:.1e} standard deviations")
print(f"window 8, 40 tokens: off by {behind:.1e}; with windows set by hand: {asked:.1e}")
if within > 1e-3 or behind < 0.1 or asked < 0.1:
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
