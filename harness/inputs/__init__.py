"""This package makes what every SUT is given alike: the models' data, weights and configuration,
and the inputs.
"""
