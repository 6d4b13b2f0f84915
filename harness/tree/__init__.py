"""Writes the submission tree of a run directory: open/<submitter>/…, in the round's layout."""
