"""BERT: KerasNLP's variables → the checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Iterator

_MODEL = {
    "backbone.token_embedding.embeddings": "bert.embeddings.word_embeddings.weight",
    "backbone.position_embedding.position_embeddings": "bert.embeddings.position_embeddings.weight",
    "backbone.segment_embedding.embeddings": "bert.embeddings.token_type_embeddings.weight",
    "backbone.embeddings_layer_norm": "bert.embeddings.LayerNorm",
    "backbone.pooled_dense": "bert.pooler.dense",
    "output_dense": "classifier",
}
_LAYER = {
    "_self_attention_layer._query_dense": "attention.self.query",
    "_self_attention_layer._key_dense": "attention.self.key",
    "_self_attention_layer._value_dense": "attention.self.value",
    "_self_attention_layer._output_dense": "attention.output.dense",
    "_self_attention_layer_norm": "attention.output.LayerNorm",
    "_feedforward_intermediate_dense": "intermediate.dense",
    "_feedforward_output_dense": "output.dense",
    "_feedforward_layer_norm": "output.LayerNorm",
}


def variables(layers: int) -> Iterator[tuple[str, str]]:
    """Yield (path of attributes from the classifier to a variable, tensor's name), each once."""
    table = dict(_MODEL)
    for n in range(layers):
        for path, name in _LAYER.items():
            table[f"backbone.transformer_layers.{n}.{path}"] = f"bert.encoder.layer.{n}.{name}"
    for path, name in table.items():
        if name.endswith(".weight"):
            yield path, name
            continue
        weight, bias = ("gamma", "beta") if name.endswith("LayerNorm") else ("kernel", "bias")
        yield f"{path}.{weight}", f"{name}.weight"
        yield f"{path}.{bias}", f"{name}.bias"
