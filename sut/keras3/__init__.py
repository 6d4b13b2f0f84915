"""Keras 3 with KerasHub, on the backend KERAS_BACKEND names."""
