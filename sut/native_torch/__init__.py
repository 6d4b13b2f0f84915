"""SUTs of PyTorch with Hugging Face Transformers, segment-anything and diffusers."""
