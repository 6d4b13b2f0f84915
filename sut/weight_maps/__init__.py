"""Tables of names, for libraries that do not read a model's checkpoint: where each tensor belongs. No framework is imported."""
