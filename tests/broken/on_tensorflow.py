"""What broken SUTs on TensorFlow share, whatever their library is."""

import tensorflow as tf

from tests.broken import running


def run_functions_eagerly(sut):
    """TensorFlow is told to run functions operator by operator, after they were traced."""
    sut.predict(sut.prepare(running.make_inputs(sut.workload.task, 2, 1)))
    tf.config.run_functions_eagerly(True)
    return sut
