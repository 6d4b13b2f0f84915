"""The findings of an audit: checks and their faults, the list of all checks, levels and results,
and the HTML page.

The package imports no numpy.
"""
