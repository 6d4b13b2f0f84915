"""The auditor: reads a directory of results and says which rules it keeps. It imports nothing of
harness, scenarios or sut.
"""
