"""TensorFlow models of Transformers 4, on Keras 2. The measured call is a `tf.function`, as in
Hugging Face's benchmark of 2019.
"""
