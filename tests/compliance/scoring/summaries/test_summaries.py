"""ROUGE and the length of answers are those of the official script.

`official.json` was made once with language/llama3.1-8b/evaluation.py of mlcommons/inference at
b66003e1, and the packages of its requirements.txt (NLTK 3.8.1 with its data `punkt`, evaluate
0.4.0, rouge-score 0.1.2, Transformers 4.46.2), from the files of `tests.support.article_files`.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from compliance import rules
from compliance.scoring import official
from compliance.scoring.summaries import SETTINGS, TARGETS, TOKENIZER, scored
from tests.support import article_files
from tests.support.metric_files import run_directory

RECORDED = json.loads(Path(__file__).with_name("official.json").read_text(encoding="utf-8"))
READER = article_files.tokenizer()
ANSWERS = article_files.answers(READER)


def contents(cleans=True):
    targets = [article_files.summary(number) for number in range(article_files.ARTICLES)]
    return {
        TARGETS: json.dumps(targets).encode(),
        TOKENIZER: READER.to_str().encode(),
        SETTINGS: json.dumps({"clean_up_tokenization_spaces": cleans}).encode(),
    }


@pytest.mark.parametrize("cleans", [True, False])
def test_the_line_is_that_of_the_official_script_to_the_last_digit(cleans):
    found = scored.score(contents(cleans), ANSWERS)
    assert found.line() == RECORDED["line" if cleans else "line_without_clean_up"]


def test_the_metric_is_found_by_its_name_and_the_rules_find_its_values(tmp_path):
    found = official.score(*run_directory(tmp_path, "summaries", contents()), ANSWERS)
    of = rules.load()
    row = of.benchmarks["llama3.1-8b"]
    assert set(found.values) == {*row.accuracy, *row.accuracy_at_most}
    for name, value in found.values.items():
        match = re.match(of.accuracy_patterns[name], found.line())
        assert float(match[1]) == value
    beyond = list(official.beyond(found.values, row))
    assert beyond[-1].startswith("GEN_LEN is ")
    assert beyond[-1].endswith(", and at least 7350879.6 is required")


def test_too_long_answers_are_beyond_the_limit_too():
    row = rules.load().benchmarks["llama3.1-8b-edge"]
    values = dict(row.accuracy)
    assert list(official.beyond(values, row)) == []
    (fault,) = official.beyond(values | {"GEN_LEN": 3356225.0}, row)
    assert fault == "GEN_LEN is 3356225, and at most 3356224.3 is allowed"


def test_a_folder_without_settings_keeps_spaces():
    without = contents()
    del without[SETTINGS]
    assert scored.score(without, ANSWERS) == scored.score(contents(cleans=False), ANSWERS)


def test_sentences_are_those_of_punkt():
    for text, expected in RECORDED["sentences"].items():
        assert scored.sentences(text) == expected


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({0: b""}, "the answer of sample 0 has 0 bytes, not tokens"),
        ({3: b"\0" * 7}, "the answer of sample 3 has 7 bytes, not tokens"),
        ({3: np.array([5, -1], np.int32).tobytes()}, "the answer of sample 3 has the token -1"),
        ({30: b"\0" * 4}, "31 answers do not fit 30 articles"),
    ],
)
def test_answers_that_are_not_those_of_the_articles_have_no_score(changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        scored.score(contents(), ANSWERS | changed)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (TARGETS, b"[]", "is not a list of texts"),
        (TARGETS, b"[1]", "is not a list of texts"),
        (TOKENIZER, b"{}", "tokenizer.json is not a tokenizer"),
    ],
)
def test_a_damaged_file_is_reported(name, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        scored.score(contents() | {name: content}, ANSWERS)
