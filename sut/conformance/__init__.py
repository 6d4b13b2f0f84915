"""Programs of `./run.sh conformance`, which run in the environments of the SUTs. Each reads a
job.json, and writes its answers as files.
"""
