#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: of a Gemma 2 or Gemma 3 folder each layer has the attention that layer_types names.
# Seen: Gemma 2 has windows in its first, third, fifth … layer, and Gemma 3 in all but each sixth
#   one, whatever the list says. A list of another pattern is taken without a word, and the hidden
#   states behind the window are off by tenths of a standard deviation and more.
# Why: convert_gemma.py does not read the list, and convert_gemma3.py only asks whether one of its
#   names is sliding_attention.
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
from transformers import Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig

folder = sys.argv[1]
SIZES = dict(
    vocab_size=300, hidden_size=64, intermediate_size=128, num_attention_heads=4, head_dim=16,
    num_key_value_heads=2, query_pre_attn_scalar=16, sliding_window=8, initializer_range=0.2,
)
FULL, SLIDING = "full_attention", "sliding_attention"
ids = np.random.default_rng(0).integers(3, 300, (1, 40))


def apart(kind, config, types):
    """The largest difference of the hidden states, in their standard deviations."""
    torch.manual_seed(0)
    model = kind(config(**SIZES, num_hidden_layers=len(types), layer_types=types)).eval()
    model.save_pretrained(folder)
    found = keras_hub.models.Backbone.from_preset(folder)
    with torch.no_grad():
        right = model.model(torch.from_numpy(ids)).last_hidden_state.numpy()
    states = found({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    return np.abs(keras.ops.convert_to_numpy(states) - right).max() / right.std()


for kind, config, usual in (
    (Gemma2ForCausalLM, Gemma2Config, [SLIDING, FULL] * 3),
    (Gemma3ForCausalLM, Gemma3TextConfig, [SLIDING] * 5 + [FULL]),
):
    for types in usual, usual[::-1]:
        off = apart(kind, config, types)
        letters = "".join(name[0] for name in types)
        print(f"{kind.__name__}, layers {letters}: off by {off:.1e} standard deviations")
        if (off > 0.1) != (types != usual):
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
