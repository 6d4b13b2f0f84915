"""The checks, a file for each family of rules: what was read of one result folder goes in, checks
come out.

No family imports another.
"""
