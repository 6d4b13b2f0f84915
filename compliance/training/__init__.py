"""Judges the run directory of a training (scenario Fit): its step times and its losses, from its
files only.
"""
