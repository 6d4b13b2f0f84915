"""The checks of the files of a run directory, which only this project writes."""
