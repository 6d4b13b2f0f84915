"""MLPerf's compliance tests TEST01, TEST04 and TEST06: the checks of their logs, and their
verify_*.txt.
"""
