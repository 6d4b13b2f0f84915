"""Tables of names, for libraries that read no Hugging Face folder: where each tensor of a checkpoint belongs. No framework is imported."""
