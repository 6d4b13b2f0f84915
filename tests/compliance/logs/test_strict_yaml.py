"""YAML that means the same to every reader is read as MLCommons' checker reads it."""

import pytest
import yaml

from compliance.logs import strict_yaml

# Each line has twice the values of the line before.
_BOMB = "a0: &a0 [1]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(30))


def test_plain_values_are_those_of_the_checkers_parser():
    text = "x: &x [1, 2]\ny: *x\na: {b: [1, 2.5, 'on', on, null, 1e3]}\nseed: 16159082839903944936  # of the round\n"
    assert strict_yaml.parse(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "occurs twice in one object that begins in line 2"),
        (_BOMB, "line 15: its aliases unpack to more than 65536 values"),
        ("a: &x [*x]\n", "line 1: its aliases unpack to"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1: could not determine a constructor"),
        ("a: [1\n", "line 2: expected"),
        ("a: \x01\n", "special characters are not allowed"),
        ("[" * 1000, "recursion"),
        ("a: " + "x" * 70000, "70003 characters; at most 65536 are read"),
    ],
)
def test_other_content_is_an_error_with_its_reason(text, words):
    with pytest.raises((ValueError, RecursionError), match=words):
        strict_yaml.parse(text)
