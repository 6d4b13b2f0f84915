"""A sweep on the nodes of a cluster. Each comparison is a job of an array, which calls the plain
command `sweep` on a node of its own.
"""
