"""The features, answers and scores of SQuAD v1.1 are those of the official script.

`official.json` was made once with language/bert of mlcommons/inference at b66003e1
(create_squad_data.py, accuracy-squad.py, evaluate_v1.1.py), Transformers 4.57.6 and the
tokenization.py of NVIDIA's DeepLearningExamples, from the files of `tests.support.squad_files`.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from compliance import rules
from compliance.scoring import of_run, official
from compliance.scoring.squad import features, spans, word_pieces
from tests.support import squad_files
from tests.support.metric_files import run_directory

RECORDED = json.loads(Path(__file__).with_name("official.json").read_text(encoding="utf-8"))
CONTENT = json.dumps(squad_files.document()).encode()
VOCABULARY = squad_files.vocabulary().text().encode()
CONTENTS = {squad_files.DATA: CONTENT, squad_files.VOCABULARY: VOCABULARY}


@pytest.fixture(scope="module")
def made():
    questions = features.parse(CONTENT)
    pieces = word_pieces.parse(VOCABULARY)
    return questions, pieces, features.make(questions, pieces)


def test_the_features_are_those_of_the_reference(made):
    _, pieces, found = made
    arrays = features.arrays(found, pieces, features.WIDTH)
    digests = {
        name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        for name, array in arrays.items()
    }
    assert (len(found), digests) == (RECORDED["features"], RECORDED["sha256"])
    # A long text has several windows, and the best of them is another one for some tokens.
    assert len(found) > len(made[0])
    assert not all(feature.is_best.all() for feature in found)


def test_the_answers_are_those_of_the_official_script(made):
    questions, _, found = made
    logits = dict(enumerate(squad_files.logits(found, questions, features.WIDTH)))
    assert spans.texts(questions, found, logits) == RECORDED["predictions"]


def test_the_line_of_accuracy_is_that_of_the_official_script_to_the_last_digit(made, tmp_path):
    questions, _, found = made
    logits = squad_files.logits(found, questions, features.WIDTH)
    answers = {number: row.tobytes() for number, row in enumerate(logits)}
    scored = official.score(*run_directory(tmp_path, "squad", CONTENTS), answers)
    assert scored.line() == RECORDED["line"]
    assert scored.values == {"F1": json.loads(RECORDED["line"])["f1"]}


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({0: b"\0" * 8 * 384}, "1 answers do not fit"),
        ({0: b"\0" * 15}, "has 15 bytes, not pairs of logits"),
        ({0: np.array([[np.nan, 0.0]], np.float32).tobytes()}, "values that are not finite"),
        ({}, "the answers have no length or several"),
    ],
)
def test_answers_that_are_not_those_of_the_features_have_no_score(tmp_path, answers, sentence):
    run, judged = run_directory(tmp_path, "squad", CONTENTS)
    with pytest.raises(ValueError, match=sentence):
        official.score(run, judged, answers)


@pytest.mark.parametrize(
    ("not_closed", "target", "changed", "passes"),
    [
        ((), 1.0, 0, True),
        ((), 99.0, 0, False),
        ((), 1.0, 84, False),
        # The open division has no target.
        (("another model",), 99.0, 0, True),
        (("another model",), 1.0, 84, False),
    ],
)
def test_other_answers_of_a_performance_test_are_judged_by_the_metric(
    made, tmp_path, not_closed, target, changed, passes
):
    questions, _, found = made
    logits = squad_files.logits(found, questions, features.WIDTH)
    answers = {number: row.tobytes() for number, row in enumerate(logits)}
    others = {number: logits[number][::-1].tobytes() for number in range(changed)}
    others[0] = (logits[0] * 2).tobytes()
    run, judged = run_directory(tmp_path, "squad", CONTENTS)
    real = rules.load()
    row = msgspec.structs.replace(real.benchmarks["bert-99"], accuracy={"F1": target})
    of = msgspec.structs.replace(real, benchmarks={"bert-99": row})
    record = SimpleNamespace(
        official=replace(judged, not_closed=not_closed),
        benchmark=SimpleNamespace(official="bert-99"),
        cell=SimpleNamespace(scenario="Offline"),
        no_reference="none",
    )
    changes = list(others.items())
    passed, _ = of_run.with_others(run, record, of.benchmarks, answers, changes, len(changes))
    assert passed is passes


def test_a_file_of_another_digest_has_no_score(tmp_path):
    run, judged = run_directory(tmp_path, "squad", CONTENTS)
    (run / official.FOLDER / squad_files.VOCABULARY).write_bytes(VOCABULARY + b"more\n")
    with pytest.raises(ValueError, match=r"benchmark/vocab\.txt is not the file of the run"):
        official.score(run, judged, {0: b"\0" * 16})


def changed(**values):
    document = squad_files.document()
    document["data"][0]["paragraphs"][0]["qas"][0] |= values
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not JSON"),
        (b"[]", "has no list `data`"),
        (
            json.dumps({**squad_files.document(), "version": "v2.0"}).encode(),
            "is of version 2.0 of SQuAD, and the benchmark uses 1.1",
        ),
        (changed(answers=[]), "has a question without an answer"),
        (changed(id="moby-dick-00"), "has the question moby-dick-00 twice"),
        (changed(question=None), "lacks a field of SQuAD"),
        (json.dumps({"data": [], "version": "1.1"}).encode(), "has no question"),
    ],
)
def test_another_file_is_refused_in_one_sentence(content, sentence):
    with pytest.raises(ValueError, match=sentence):
        features.parse(content)


def test_a_vocabulary_without_a_mark_is_refused():
    with pytest.raises(ValueError, match=r"the vocabulary has no \[SEP\]"):
        word_pieces.parse(b"[CLS]\n[UNK]\na\n")
