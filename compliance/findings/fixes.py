"""Advice for files of a run directory. That of other checks is in checks.toml."""

OWN = "put the run's own file there, or measure again"
RUN = "restore the files that the run wrote, or measure again"
