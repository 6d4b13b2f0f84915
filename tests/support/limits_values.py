"""Limits that were not measured, for tests of what is done with them."""

from formats.limits import Limits, Measured, Spread


def spread(median, part=0.0):
    """The spread of repeats that differ from their median by at most this part of it."""
    return Spread(median=median, minimum=(1 - part) * median, maximum=(1 + part) * median)


def limits(framework="PyTorch", **others):
    """Limits of a framework, with these values in place of the usual ones."""
    values = {
        "environment": "native-torch",
        "device": "cpu",
        "precision": "float32",
        "framework": framework,
        "version": "1.2",
        "matrix_side": 1024,
        "matrix_flops": spread(200e9, 0.02),
        "layer_flops": spread(190e9, 0.03),
        "thin_flops": spread(14e9),
        "thin_bytes_per_second": spread(28e9),
        "read_bytes_per_second": spread(30e9),
        "matrix_products": {"library": "MKL", "instructions": "AVX2", "threads": 2},
    }
    return Limits(**{**values, **others})


def measured(*each, made_with=None, **others):
    """The content of a limits.json with these limits."""
    facts = {"environment": each[0].environment, "device": each[0].device}
    return Measured(
        made_with=made_with or facts,
        started="2026-01-01T00:00:00+0000",
        seconds=20.0,
        limits=tuple(each),
        **others,
    )
