"""What is measured of a SUT around a test: its warm-up, its evidence, and fresh inputs."""
