#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: KerasHub's norms have the rms_norm_eps of a folder, as they have for Mistral.
# Seen: Llama's are 1e-6, whatever the folder says; Meta's Llama 3 says 1e-5. With embeddings of the
#   size 0.004 the hidden states are nearly a standard deviation off.
# Why: convert_llama3.py does not read the field. The converter of Gemma 1 and 2 does not, either.
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
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

folder = sys.argv[1]
SIZES = dict(
    vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
)
ids = np.random.default_rng(0).integers(3, 300, (1, 32))


def apart(kind, config, epsilon):
    """The largest difference of the hidden states, in their standard deviations."""
    torch.manual_seed(0)
    model = kind(config(**SIZES, rms_norm_eps=epsilon, initializer_range=0.004)).eval()
    model.to(torch.float16).float().save_pretrained(folder)
    found = keras_hub.models.Backbone.from_preset(folder)
    with torch.no_grad():
        right = model.model(torch.from_numpy(ids)).last_hidden_state.numpy()
    states = found({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    return np.abs(keras.ops.convert_to_numpy(states) - right).max() / right.std()


for kind, config in (LlamaForCausalLM, LlamaConfig), (MistralForCausalLM, MistralConfig):
    small, large = (apart(kind, config, epsilon) for epsilon in (1e-6, 1e-5))
    print(f"{kind.__name__}: off by {small:.1e} standard deviations with rms_norm_eps 1e-6,")
    print(f"  and by {large:.1e} with 1e-5")
    if small > 1e-3 or (large > 0.02) != (kind is LlamaForCausalLM):
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
