"""The place in which a cell runs: the machine, environments, run directories, worker processes, and
one LoadGen test in one of them.
"""
