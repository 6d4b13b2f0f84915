"""SUTs whose models are written in plain JAX, without a library of layers."""
