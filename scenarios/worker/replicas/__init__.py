"""A SUT as several replicas. `dispatcher` is the LoadGen process' side, `placement` starts
replicas, and `link` carries messages. `scenarios.worker.replica` is a replica.
"""
