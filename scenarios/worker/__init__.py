"""The worker: the process that loads one SUT and runs one LoadGen test on it. `job` and `heartbeat`
contain all that it exchanges with the parent while it runs.
"""
