"""The checks, one file for each group of rules. A group gets the content of one result folder and
returns its checks.

No group imports another.
"""
