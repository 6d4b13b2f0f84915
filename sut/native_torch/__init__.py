"""SUTs of PyTorch with Transformers, segment-anything and diffusers."""
