"""Measures and proves which execution and precision ran, for every framework. This file imports
none.
"""
