"""Runs in native torch's environment: makes small folders as Transformers itself saves them,
seeded, beside the file of its argument.

Weights larger than the default initialisation, and no float16 numbers, so that a reader that loses
bits or swaps tensors is seen.
"""

import sys
from pathlib import Path

import torch
import transformers as t

SIZES = {
    "vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128
}  # fmt: skip
VIT = {"hidden_size": 64, "image_size": 32, "patch_size": 8}
SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SCALING |= {"original_max_position_embeddings": 64}


def main(directory):
    torch.manual_seed(5)
    t.utils.logging.disable_progress_bar()
    found = models()
    of_2019 = {name: found[name] for name in ("distilbert", "gpt2", "roberta")}
    for name, model in (of_2019 | found | pictures(directory)).items():
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.mul_(6.0)
                # Norms and biases are ones and zeros, which a reader that skips them would have
                # too.
                else:
                    parameter.add_(torch.randn_like(parameter), alpha=0.1)
        size = "10GB" if name == "gemma" else "100KB"
        model.save_pretrained(directory / name, max_shard_size=size)


def models():
    """Models of text."""
    two = {**SIZES, "num_key_value_heads": 2}
    rope = {"rope_theta": 5e4, "rope_type": "default"}
    scaled = {"rope_theta": 5e4, "rope_type": "llama3", **SCALING}
    windows = {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 24}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    multipliers = {"embedding_multiplier": 2.0, "attention_multiplier": 0.1}
    multipliers |= {"residual_multiplier": 0.5, "logits_scaling": 3.0}
    ids = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2}
    relative = {"relative_attention": True, "position_buckets": 16, "type_vocab_size": 0}
    relative |= {"pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
    distil = {"vocab_size": 300, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
    few = {"vocab_size": 300, "n_embd": 64, "n_layer": 2, "n_head": 4}
    factorised = {"embedding_size": 32, "num_hidden_groups": 2, "hidden_act": "gelu"}
    classes = {
        # Its activation is the exact GELU.
        "bert": (t.BertForSequenceClassification, t.BertConfig(**SIZES, num_labels=3)),
        "gemma": (t.GemmaForCausalLM, t.GemmaConfig(**SIZES, num_key_value_heads=1, head_dim=32)),
        "mistral": (t.MistralForCausalLM, t.MistralConfig(**two, rope_parameters=rope)),
        "llama": (
            t.LlamaForCausalLM,
            t.LlamaConfig(
                **two, rms_norm_eps=1e-4, rope_parameters=scaled, tie_word_embeddings=True
            ),
        ),
        "tied": (t.MistralForCausalLM, t.MistralConfig(**two, tie_word_embeddings=True)),
        # No file of ours describes these.
        "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config(**two, head_dim=32)),
        "phi3": (t.Phi3ForCausalLM, t.Phi3Config(**two, pad_token_id=0, sliding_window=24)),
        "gemma3": (
            t.Gemma3ForCausalLM,
            t.Gemma3TextConfig(**(two | {"num_hidden_layers": 6}), **windows),
        ),
        "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config(**two)),  # with biases
        # All of its layers have rotary positions: native JAX has no others.
        "smollm3": (t.SmolLM3ForCausalLM, t.SmolLM3Config(**two, pad_token_id=None)),
        "qwen3-moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**two, **experts, head_dim=32)),
        # Its rotary positions pair neighbouring dimensions, which no key of its config.json says.
        "helium": (t.HeliumForCausalLM, t.HeliumConfig(**two, head_dim=16)),
        "granite": (t.GraniteForCausalLM, t.GraniteConfig(**two, **multipliers)),
        "albert": (t.AlbertModel, t.AlbertConfig(**SIZES, **factorised)),
        "modernbert": (
            t.ModernBertForSequenceClassification,
            t.ModernBertConfig(**SIZES, **ids, num_labels=3),
        ),
        "modernbert-tokens": (
            t.ModernBertForTokenClassification,
            t.ModernBertConfig(**SIZES, **ids, num_labels=5),
        ),
        "distilbert-classes": (t.DistilBertForSequenceClassification, t.DistilBertConfig(**distil)),
        "deberta": (t.DebertaV2ForSequenceClassification, t.DebertaV2Config(**SIZES, **relative)),
        # Its head is not read.
        "xlm-roberta": (
            t.XLMRobertaForMaskedLM,
            t.XLMRobertaConfig(**SIZES, max_position_embeddings=66, type_vocab_size=1),
        ),
        "distilbert": (t.DistilBertModel, t.DistilBertConfig(**distil)),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config(**few, n_positions=64, layer_norm_epsilon=1e-4)),
        "roberta": (t.RobertaForMaskedLM, t.RobertaConfig(**SIZES)),
    }
    return {name: kind(configuration) for name, (kind, configuration) in classes.items()}


def pictures(directory):
    """Models of pictures. The preprocessor_config.json of each is written to its folder."""
    square = {"height": 32, "width": 32}
    middle = {"do_center_crop": True, "crop_size": square, "size": {"shortest_edge": 36}}
    vit = {**VIT, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    swin = {"image_size": 32, "patch_size": 4, "embed_dim": 24, "window_size": 4}
    resnet = {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 2]}
    models = {
        "vit": (t.ViTForImageClassification(t.ViTConfig(**vit)), t.ViTImageProcessor(size=square)),
        "dinov2": (t.Dinov2Model(t.Dinov2Config(**VIT, num_hidden_layers=2, num_attention_heads=4)), t.BitImageProcessor(**middle)),
        "swin": (t.SwinForImageClassification(t.SwinConfig(**swin, depths=[2, 2], num_heads=[2, 4], num_labels=10)), t.ViTImageProcessor(size=square, resample=3)),
        "resnet": (t.ResNetModel(t.ResNetConfig(**resnet)), t.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.875)),
    }  # fmt: skip
    for name, (_, processor) in models.items():
        processor.save_pretrained(directory / name)
    return {name: model for name, (model, _) in models.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]).parent)
