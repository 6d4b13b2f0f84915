"""The registry names what is installed whatever its distribution is called."""

from sut.registry import recorded_names, streams


def test_a_package_is_found_by_each_of_its_names():
    versions = {
        "tensorflow_cpu": "2.21.0",
        "tf_keras": "2.21.0",
        "mlcommons_loadgen": "6.0.17",
        "torch": "2.13.0",
    }
    found = recorded_names(
        ("python", "tensorflow", "tf-keras", "torch", "jax", "mlcommons-loadgen"), versions
    )
    assert found == {
        "tensorflow": "tensorflow_cpu",
        "tf-keras": "tf_keras",
        "torch": "torch",
        "mlcommons-loadgen": "mlcommons_loadgen",
    }
    assert recorded_names(
        ("tensorflow",), {"tensorflow": "2.21.0", "tensorflow-cpu": "2.20.0"}
    ) == {"tensorflow": "tensorflow"}


def test_openvino_hands_over_no_single_token():
    assert streams("keras3-jax", "causal_lm")
    assert not streams("keras3-openvino", "causal_lm")
