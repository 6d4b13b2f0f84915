"""PyTorch with Hugging Face Transformers."""
