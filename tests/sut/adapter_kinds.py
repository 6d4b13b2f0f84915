"""Adapters as PEFT saves them, of tiny models of Transformers with seeded weights."""

import peft
import torch
import transformers

LLAMA = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "initializer_range": 0.2,
}
QUERIES = {"r": 2, "target_modules": ["q_proj"]}
CLASSES = {"task_type": "SEQ_CLS", "r": 2, "target_modules": ["query", "value"]}
LANGUAGE = {**QUERIES, "task_type": "CAUSAL_LM"}


def base():
    """A Llama of one layer."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))


def _classifier():
    config = transformers.BertConfig(**LLAMA, num_labels=3)
    return transformers.BertForSequenceClassification(config)


def right():
    """name → (the base that is trained, whether its folder has only its body, the adapter)."""
    return {
        "a head": (_classifier(), False, peft.LoraConfig(**CLASSES)),
        "a head for a body": (_classifier(), True, peft.LoraConfig(**CLASSES)),
        "no task": (_classifier(), False, peft.LoraConfig(r=2, target_modules=["query"])),
        "biases": (_classifier(), False, peft.LoraConfig(**CLASSES, bias="lora_only")),
        "DoRA": (base(), False, peft.LoraConfig(**LANGUAGE, use_dora=True)),
        "embeddings": (base(), False, peft.LoraConfig(r=2, target_modules=["embed_tokens"])),
        "LoHa": (base(), False, peft.LoHaConfig(**QUERIES)),
        "in bfloat16": (base().bfloat16(), False, peft.LoraConfig(**LANGUAGE)),
    }


def refused():
    """The same of adapters that cannot become weights of a model."""
    prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    return {
        "no head": (base(), True, peft.LoraConfig(**LANGUAGE)),
        "another class": (_classifier(), True, peft.LoraConfig(r=2, target_modules=["query"])),
        "a prompt": (base(), False, prompt),
        "invoked": (base(), False, peft.LoraConfig(**LANGUAGE, alora_invocation_tokens=[5])),
    }


def save(folder, model, is_body, config):
    """Save the base and a trained adapter. → the model with the adapter."""
    (model.base_model if is_body else model).save_pretrained(folder / "base")
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for weight in adapted.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn(weight.shape) * 0.1)
    adapted.save_pretrained(folder / "adapter")
    return adapted
