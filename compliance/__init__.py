"""The auditor reads a directory of results and reports which rules it keeps. It imports nothing of
harness, scenarios or sut.
"""

CURRENT = "v6.1"
"""The newest round. It is here because the core environment is made without any package."""
