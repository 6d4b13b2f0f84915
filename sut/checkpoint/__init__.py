"""Code that reads checkpoints. For libraries that do not read them, tables name the variable of
each tensor. No framework is imported.
"""
