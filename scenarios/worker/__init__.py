"""The worker: the process that loads one SUT and runs one LoadGen test on it. What crosses to the
parent is in `job` and `heartbeat`.
"""
