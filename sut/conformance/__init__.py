"""Programs of `./run.sh conformance`, which run in the environments of the SUTs."""
