"""Code that the SUTs of Keras 2 and 3 share: the call of each architecture, training and
backends.
"""
