"""Code that the SUTs of Keras 2 and 3 share: calls of architectures, training and backends."""
