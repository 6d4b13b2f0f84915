#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: KerasHub computes a BERT folder with the activation that hidden_act names, or refuses it.
# Seen: each folder is computed with the tanh form of GELU. So a folder with gelu_pytorch_tanh
#   agrees with Transformers to rounding, one with gelu, as all of Google's, is off by more than a
#   hundred times as much, and one with relu computes another model.
# Why: BertBackbone has no argument for the activation: its layers have gelu_approximate
#   (bert_backbone.py), and the converter does not read hidden_act.
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
from transformers import BertConfig, BertForSequenceClassification

folder = sys.argv[1]
ids = np.random.default_rng(0).integers(3, 300, (1, 32))
off = {}
for name in ("gelu_pytorch_tanh", "gelu", "relu"):
    config = BertConfig(
        vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, hidden_act=name, initializer_range=0.2,
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    found = keras_hub.models.Backbone.from_preset(folder)
    with torch.no_grad():
        right = model.bert(torch.from_numpy(ids)).last_hidden_state.numpy()
    inputs = dict(token_ids=ids, padding_mask=np.ones_like(ids), segment_ids=np.zeros_like(ids))
    states = keras.ops.convert_to_numpy(found(inputs)["sequence_output"])
    off[name] = np.abs(states - right).max() / right.std()
    print(f"{name}: off by {off[name]:.1e} standard deviations")
if off["gelu_pytorch_tanh"] > 1e-5 or off["gelu"] < 2e-4 or off["relu"] < 0.1:
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
