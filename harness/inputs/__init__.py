"""The data that all SUTs of a cell share: the models' weights and configuration, and the inputs."""
