"""Models written out in JAX, without a library of layers."""
