"""What broken SUTs on TensorFlow share, whatever their library is."""

import tensorflow as tf

from tests.broken import running


def run_functions_eagerly(sut):
    """TensorFlow is told to run functions operator by operator, after they were traced."""
    running.warm(sut)
    tf.config.run_functions_eagerly(True)
    return sut
