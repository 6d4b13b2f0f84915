"""A sweep on the nodes of a cluster. Each comparison is one job, and each job calls the plain
command `sweep` on a node of its own.
"""
