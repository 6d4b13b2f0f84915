"""This package holds what an audit says: checks and their faults, the list of all checks, levels
and results, the HTML page.

The package imports no numpy.
"""
