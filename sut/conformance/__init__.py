"""Programs of `./run.sh conformance`, which run in the environments of the SUTs."""

FOLDERS, OPERATIONS = "keras-hub", "keras"
"""The parts of a comparison, by the library that it judges."""
PACKAGES = (
    *("keras", "keras-hub", "jax", "jaxlib", "tensorflow-cpu", "torch", "openvino"),
    *("transformers", "numpy"),
)
"""Distributions whose versions a table names."""
