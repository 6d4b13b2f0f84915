#!/usr/bin/env bash
# Version: transformers 5.23.0, gguf 0.19.0, torch 2.13.0
# Guess: from_pretrained(folder, gguf_file=...) gives the model that the file holds, or refuses it.
# Seen: rope scaling is dropped without a warning, both that of Llama 3.1 and the linear one. The
#   logits are whole standard deviations off. A file without scaling gives the same logits.
# Why: of these settings the reader takes only rope.freq_base for a Llama. It ignores rope.scaling.*
#   and the tensor rope_freqs.weight, in which llama.cpp's converter stores Llama 3.1's factors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '2,/^set/s/^# //p' "$0"
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -qq transformers==5.23.0 torch==2.13.0 gguf==0.19.0 accelerate==1.15.0
cat >"$folder/show.py" <<'EOF'
import sys

import gguf
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

folder, base = sys.argv[1], 10000.0
SIZES = dict(vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=1)
FACTORS = dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
ROPES = {"default": {}, "linear": dict(factor=8.0), "llama3": dict(factor=8.0, **FACTORS)}
METADATA = dict(
    context_length=256, embedding_length=64, block_count=1, feed_forward_length=128, head_count=4,
    head_count_kv=4, layer_norm_rms_eps=1e-6, vocab_size=300, rope_freq_base=base,
    rope_dimension_count=16, tokenizer_model="llama", token_list=[f"w{i}" for i in range(300)],
    token_scores=[0.0] * 300, token_types=[1] * 300, unk_token_id=0, bos_token_id=1, eos_token_id=2,
)
LAYER = dict(
    attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
    attn_output="self_attn.o_proj", ffn_gate="mlp.gate_proj", ffn_up="mlp.up_proj",
    ffn_down="mlp.down_proj", attn_norm="input_layernorm", ffn_norm="post_attention_layernorm",
)
NAMES = dict(token_embd="model.embed_tokens", output_norm="model.norm", output="lm_head")
NAMES |= {f"blk.0.{short}": f"model.layers.0.{name}" for short, name in LAYER.items()}


def write(model, rope):
    """Writes the model as llama.cpp's converter does: rows of q and k are interleaved."""
    out, state = gguf.GGUFWriter(f"{folder}/{rope}.gguf", "llama"), model.state_dict()
    for key, value in METADATA.items():
        getattr(out, f"add_{key}")(value)
    if rope == "linear":
        out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        out.add_rope_scaling_factor(8.0)
    if rope == "llama3":
        plain = base ** (-torch.arange(0, 16, 2) / 16)
        out.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy())
    for short, name in NAMES.items():
        tensor = state[f"{name}.weight"]
        if short.endswith(("attn_q", "attn_k")):
            tensor = tensor.view(4, 2, 8, 64).transpose(1, 2).reshape(64, 64)
        out.add_tensor(f"{short}.weight", tensor.contiguous().numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


for rope, scaling in ROPES.items():
    torch.manual_seed(0)
    parameters = dict(rope_type=rope, rope_theta=base, **scaling)
    config = LlamaConfig(
        **SIZES, num_attention_heads=4, initializer_range=0.1, rope_parameters=parameters
    )
    model = LlamaForCausalLM(config).eval()
    write(model, rope)
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=f"{rope}.gguf").eval()
    ids = torch.randint(3, 300, (1, 48))
    with torch.no_grad():
        right, found = model(ids).logits, loaded(ids).logits
    off = ((found - right).abs().max() / right.std()).item()
    kind = loaded.config.rope_parameters["rope_type"]
    print(f"{rope}: read as {kind}, logits off by {off:.2g} standard deviations")
    if (off > 0.5) != (rope != "default"):
        sys.exit("This has changed.")
EOF
TQDM_DISABLE=1 "$folder/env/bin/python" "$folder/show.py" "$folder"
