"""The verdict of the server's own load test, on made-up answers."""

from harness.serving import load_test


def answer(prompt, text="", error=""):
    return load_test._Answer(prompt, error, text=text)


def test_it_is_good_if_all_is_answered_and_equal_prompts_agree():
    agreeing = [answer("a", "x"), answer("a", "x"), answer("b", "y")]
    assert load_test._outcome(agreeing, 1.0).good
    assert not load_test._outcome([*agreeing, answer("b", "z")], 1.0).good
    refused = load_test._outcome([*agreeing, answer("b", error="429 too many")], 1.0)
    assert not refused.good
    assert refused.lines()[-1] == "1 × 429 too many"
