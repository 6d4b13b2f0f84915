"""Measures the speed that a framework reaches on a device, without a model.

`__main__` is the worker, and `measures` needs no framework. The operations that are measured are in
`on_<framework>`, whose functions `framework.Framework` lists.
"""
