#!/usr/bin/env bash
# Version: onnxruntime-genai 0.18.0, its model builder with Transformers 5.23.0 and PyTorch 2.13.0
# Guess: with an empty list as eos_token_id in genai_config.json no token ends an answer, so each
#   has all tokens up to max_length.
# Seen: pad_token_id ends it. A prompt whose answer contains that id stops there, and all others
#   have all their tokens, so a few trials show nothing.
# Why: the search takes the padding id where it knows no end token. Name an end token that answers
#   do not have.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq onnxruntime-genai==0.18.0 onnxruntime==1.31.1 onnx==1.23.2 \
    onnx-ir torch==2.13.0 transformers==5.23.0
cat >"$folder/show.py" <<'EOF'
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

NEW, VOCABULARY = 12, 101
folder = Path(sys.argv[1])
source, built = folder / "source", folder / "built"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=112,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    initializer_range=0.3,
)
LlamaForCausalLM(config).save_pretrained(source)
words = {f"w{number}": number for number in range(VOCABULARY)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(source)
builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
subprocess.run(
    [*builder, "-i", source, "-o", built, "-c", folder / "cache"],
    check=True,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def answer(padding):
    path = built / "genai_config.json"
    settings = json.loads(path.read_text())
    settings["model"] |= {"eos_token_id": [], "pad_token_id": padding}
    path.write_text(json.dumps(settings))
    model = og.Model(str(built))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=4 + NEW, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array([[5, 6, 7, 8]], np.int32))
    tokens = []
    while not generator.is_done():
        generator.generate_next_token()
        tokens.append(int(generator.get_next_tokens()[0]))
    return tokens


UNUSED = 1
whole = answer(UNUSED)
padding = whole[4]
cut = answer(padding)
print(f"eos_token_id [], pad_token_id {UNUSED}: {len(whole)} tokens {whole}")
print(f"eos_token_id [], pad_token_id {padding}: {len(cut)} tokens {cut}")
if len(whole) != NEW or cut != whole[: whole.index(padding) + 1]:
    sys.exit("This has changed.")
EOF
"$folder/env/bin/python" "$folder/show.py" "$folder"
