"""Everything around a cell while it runs: the machine, environments, run directories, worker
processes, and one LoadGen test in a worker.
"""
