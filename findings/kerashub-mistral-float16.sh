#!/usr/bin/env bash
# Version: KerasHub 0.32.0 (Keras 3.15.1, JAX 0.10.2), transformers 5.23.0, torch 2.13.0
# Guess: KerasHub loads a float32 or bfloat16 Mistral folder into a float32 model with the folder's
#   weights.
# Seen: each weight was rounded to float16, so float32 weights lose 13 bits, 2e-8 becomes 0, and 1e5
#   infinite. A Llama's weights stay as they are.
# Why: each hook of convert_mistral.py calls astype(np.float16), whatever dtype the file or the
#   model has.
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


def loaded(model, dtype):
    """The embeddings that the folder holds, and those that KerasHub has."""
    weight = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[5, 0], weight[6, 0] = 2e-8, 1e5
    model.to(dtype).save_pretrained(folder)
    found = keras_hub.models.Backbone.from_preset(folder, dtype="float32")
    found = keras.ops.convert_to_numpy(found.token_embedding.embeddings)
    return weight.detach().float().numpy(), found


for kind, config, dtype in (
    (MistralForCausalLM, MistralConfig, torch.float32),
    (MistralForCausalLM, MistralConfig, torch.bfloat16),
    (LlamaForCausalLM, LlamaConfig, torch.float32),
):
    torch.manual_seed(0)
    stored, found = loaded(kind(config(**SIZES)), dtype)
    changed = (stored != found).mean()
    print(f"{kind.__name__}, {dtype}: {changed:.2%} of the embeddings are others")
    print(f"  {stored[5, 0]:.0e} is {found[5, 0]:.0e}, {stored[6, 0]:.0e} is {found[6, 0]:.0e}")
    wrong = found[5, 0] == 0 and np.isinf(found[6, 0])
    rounded = wrong and dtype is torch.float32
    if wrong != (kind is MistralForCausalLM) or (changed > 0.5) != rounded:
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
