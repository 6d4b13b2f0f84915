"""Models that a runtime computes in one call each, whatever the runtime: inputs, answers and the
modules of PyTorch that are converted.
"""
