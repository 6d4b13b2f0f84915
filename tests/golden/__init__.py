"""Golden data: shows that a commit changes no output that it should not change. `python -m
tests.golden --help` lists the commands.
"""
