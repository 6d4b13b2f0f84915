"""Rows of a long table of cases: the first ones are tested always, the others with `--all`."""

import pytest

LONG = pytest.mark.long


def long_unless(rows, quick):
    """Return pytest's parameters of these tuples or single values. Those that are not `quick` are
    marked `long`.
    """
    parameters = []
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        parameters.append(pytest.param(*values, marks=[] if quick(row) else [LONG]))
    return parameters


def first_of_each(rows, key):
    """Return pytest's parameters of these tuples. Tuples whose `key` an earlier one has are marked
    `long`.
    """
    parameters, seen = [], set()
    for row in rows:
        marks = [LONG] if key(row) in seen else []
        seen.add(key(row))
        parameters.append(pytest.param(*row, marks=marks))
    return parameters
