"""SUTs of Keras 3 with KerasHub, on the backend that KERAS_BACKEND names."""
