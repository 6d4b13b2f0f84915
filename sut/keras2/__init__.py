"""SUTs of Keras 2 (the package tf_keras today) with KerasNLP and KerasCV, on TensorFlow."""
