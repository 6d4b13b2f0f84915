"""A file for each command: its flags and what it does. `main(arguments)` of each gives the exit code."""
