"""The checks, one file for each family of rules. A family gets the content of one result folder and
returns its checks.

No family imports another.
"""
