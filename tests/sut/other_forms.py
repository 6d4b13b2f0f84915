"""Writes weights in other forms than a Hugging Face folder: `python other_forms.py FOLDER
GGUF_PACKAGES`.
"""

import os
import sys
from pathlib import Path

import numpy as np
import peft
import torch
import transformers


class Runs:
    """A pickle of this runs a command when it is opened."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def gguf_file(path, state):
    """A GGUF file with the tensors of a Llama of one layer, without its rotary permutation."""
    from gguf import GGUFWriter

    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "model.layers": "blk",
    }
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["t", "0", "t0", *(f"w{n}" for n in range(61))])
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(1)
    for name, tensor in state.items():
        for old, new in names.items():
            name = name.replace(old, new)
        writer.add_tensor(name, np.ascontiguousarray(tensor.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder, packages):
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder / "base")
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, content in (("bin", state), ("hostile", {"x": Runs()})):
        (folder / name).mkdir()
        torch.save(content, folder / name / "pytorch_model.bin")
        config.save_pretrained(folder / name)
    sys.path.append(packages)
    gguf_file(folder / "model.gguf", state)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    peft.get_peft_model(model, lora).save_pretrained(folder / "lora")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
