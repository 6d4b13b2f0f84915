"""From the raw files of a run to the files that are derived from them: pure functions of values."""
