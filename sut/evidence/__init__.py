"""Code that measures and proves which execution and precision ran, for every framework. This file
imports no framework.
"""
