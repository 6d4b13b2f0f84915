"""The checks of the files and documents of a submission, and of its benchmark's own rules."""
