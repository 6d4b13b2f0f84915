#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: KerasHub adds RoBERTa's embedding of the token type, as Transformers does; all tokens have
#   type 0.
# Seen: it is left out without a word, for RoBERTa and XLM-RoBERTa. A model that Transformers
#   trained is computed as another one. If that row is zero, they agree.
# Why: RobertaBackbone has no such embedding, and convert_roberta.py does not ask for
#   token_type_embeddings.
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
from transformers import RobertaConfig, RobertaForMaskedLM

folder = sys.argv[1]
ids = np.random.default_rng(0).integers(5, 300, (1, 32))
config = RobertaConfig(
    vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=66, type_vocab_size=1, initializer_range=0.2,
    layer_norm_eps=1e-5, hidden_act="gelu",
)
torch.manual_seed(0)
model = RobertaForMaskedLM(config).eval()


def apart():
    """The largest difference of the hidden states, in their standard deviations."""
    model.save_pretrained(folder)
    found = keras_hub.models.Backbone.from_preset(folder)
    with torch.no_grad():
        right = model.roberta(torch.from_numpy(ids)).last_hidden_state.numpy()
    states = found({"token_ids": ids, "padding_mask": np.ones_like(ids)})
    return np.abs(keras.ops.convert_to_numpy(states) - right).max() / right.std()


trained = apart()
with torch.no_grad():
    model.roberta.embeddings.token_type_embeddings.weight.zero_()
zero = apart()
print(f"random row for type 0: off by {trained:.1e} standard deviations")
print(f"zero row for type 0: off by {zero:.1e} standard deviations")
if trained < 0.1 or zero > 1e-3:
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
