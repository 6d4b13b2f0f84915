"""Samples of what a model answered, kept in the run directory for a reader: words, or pictures."""
