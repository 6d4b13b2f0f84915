"""The auditor reads a directory of results and reports which rules it keeps. It imports nothing of
harness, scenarios or sut.
"""
