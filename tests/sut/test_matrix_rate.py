"""The rate of a large matrix product, where a large one does not fit beside the model."""

import time

import pytest

from sut.evidence import matrix_rate


def products(largest):
    """Products that take no time, of sides up to `largest`."""
    made = []

    def product(side):
        if side > largest:
            raise MemoryError
        made.append(side)
        return lambda: None

    return product, made


def test_a_product_that_does_not_fit_leaves_the_rate_of_the_last_one():
    product, made = products(2048)
    assert matrix_rate.measure(product) > 0
    assert made == [512, 1024, 2048]


def test_another_program_that_slows_down_the_first_runs_is_outlasted():
    product, made = products(1024)
    left = [0.011] * 6

    def slow_at_first(side):
        multiply = product(side)
        return lambda: time.sleep(left.pop()) if left else multiply()

    assert matrix_rate.measure(slow_at_first) > 0
    assert made == [512, 1024]


def test_where_not_even_the_smallest_fits_that_is_an_error():
    with pytest.raises(MemoryError):
        matrix_rate.measure(products(256)[0])
