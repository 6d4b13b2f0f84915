"""Reads a directory of results and says what holds. Files only: nothing of harness, scenarios, sut, nor any framework."""
