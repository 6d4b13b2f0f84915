"""The line of an error that holds its cause."""

from sut.evidence import causes


def raised(call):
    try:
        call()
    except Exception as e:  # noqa: BLE001, any error has a cause
        return e
    raise AssertionError("nothing was raised")


def test_an_error_without_text_has_the_line_that_raised_it():
    def checks():
        scaling = "default"
        assert scaling == "yarn"

    error = raised(checks)
    error.args = ()
    assert causes.line(error) == 'assert scaling == "yarn"'


def test_an_error_that_nobody_raised_and_without_text_has_no_line():
    assert causes.line(ValueError()) == ""
