"""Keras 2, which is tf_keras today, with KerasNLP, on TensorFlow."""
