"""Code that the SUTs of Keras 2 and of Keras 3 share: the call of each architecture, training, and
the backends.
"""
