"""This package repeats LoadGen's computations, from LoadGen's logs. It judges nothing and reads no
file.
"""
