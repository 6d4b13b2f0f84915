"""The typed form of each file that this project writes. Only the standard library and msgspec are
imported here.
"""
