"""The accuracy of resnet is that of the official script."""

import re

import numpy as np
import pytest

from compliance import rules
from compliance.scoring import imagenet, official
from compliance.scoring.imagenet import LIST
from tests.support import imagenet_files
from tests.support.metric_files import run_directory

LINE = "accuracy=76.000%, good=38, total=50"
"""What vision/classification_and_detection/tools/accuracy-imagenet.py of mlcommons/inference at
b66003e1 printed with `--dtype int64` for the log of `tests.support.imagenet_files`.
"""
CONTENTS = {LIST: imagenet_files.listing(imagenet_files.labels()).encode()}


def test_the_line_of_accuracy_is_that_of_the_official_script(tmp_path):
    scored = official.score(
        *run_directory(tmp_path, "imagenet", CONTENTS), imagenet_files.answers()
    )
    assert scored.line() == LINE
    assert scored.values == {"acc": 76.0}
    # The official checker reads the same value from it.
    found = re.match(rules.load().accuracy_patterns["acc"], scored.line())
    assert found
    assert float(found[1]) == 76.0


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({0: bytes(8)}, "1 answers do not fit the 50 pictures of val_map.txt"),
        (dict.fromkeys(range(50), bytes(4)), "the answer of sample 0 has 4 bytes, expected 8"),
        (dict.fromkeys(range(50), bytes(16)), "the answer of sample 0 has 16 bytes, expected 8"),
    ],
)
def test_answers_that_are_not_those_of_the_pictures_have_no_score(tmp_path, answers, sentence):
    run, judged = run_directory(tmp_path, "imagenet", CONTENTS)
    with pytest.raises(ValueError, match=sentence):
        official.score(run, judged, answers)


def test_a_value_is_rounded_as_in_the_line():
    labels = {str(number): 0 for number in range(3)}
    content = {LIST: imagenet_files.listing(labels).encode()}
    answers = {number: np.int64(number).tobytes() for number in range(3)}
    scored = imagenet.score(content, answers)
    assert (scored.values, scored.printed) == ({"acc": 33.333}, "accuracy=33.333%, good=1, total=3")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "line 1 of val_map.txt is '', and not the name of a picture"),
        (b"a.JPEG 1\n\nb.JPEG 2\n", "line 2 of val_map.txt is ''"),
        (b"a.JPEG cat\n", "line 1 of val_map.txt is 'a.JPEG cat'"),
        (b"a.JPEG -1\n", "line 1 of val_map.txt is 'a.JPEG -1'"),
        (b"a.JPEG 1 2\n", "line 1 of val_map.txt is 'a.JPEG 1 2'"),
        (b"a.JPEG 1\na.JPEG 2\n", "line 2 of val_map.txt names a.JPEG again"),
        (b"\xff\xd8\xff", "val_map.txt is not a text"),
    ],
)
def test_another_list_is_refused_in_one_sentence(content, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        imagenet.parse(content)


def test_a_list_may_have_tabs_and_the_ends_of_lines_of_windows():
    assert imagenet.parse(b"b.JPEG\t3\r\na.JPEG 1\r\n") == {"b.JPEG": 3, "a.JPEG": 1}
