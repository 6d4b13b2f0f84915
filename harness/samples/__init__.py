"""Samples of a model's answers, which the run directory keeps for a reader: words or pictures."""
