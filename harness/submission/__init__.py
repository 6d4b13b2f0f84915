"""Write the submission of a run directory: open/<submitter>/…, in the round's layout."""
