"""This package computes again what LoadGen computes, from what LoadGen logged. The package makes no
finding and reads no file.
"""
