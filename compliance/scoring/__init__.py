"""Answers against those of the reference; the harness judges a run by it too."""
