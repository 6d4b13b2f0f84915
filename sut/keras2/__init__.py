"""Keras 2, which is tf_keras today, with KerasNLP and KerasCV, on TensorFlow."""
