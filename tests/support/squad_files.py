"""Small files of bert-99 in the real formats: 40 questions on texts in the public domain, a
vocabulary, and the folder of a seeded BERT with the head of a span.

`PYTHONPATH=. .cache/environments/dev/bin/python -m tests.support.squad_files DIR` writes them.
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from safetensors.numpy import save_file

from compliance.scoring.squad import features, word_pieces
from compliance.scoring.squad.word_pieces import WordPieces

DATA, VOCABULARY = "dev-v1.1.json", "vocab.txt"
TEXTS = {
    "Gettysburg_Address": (
        "Four score and seven years ago our fathers brought forth on this continent, a new nation,"
        " conceived in Liberty, and dedicated to the proposition that all men are created equal."
        " Now we are engaged in a great civil war, testing whether that nation, or any nation so"
        " conceived and so dedicated, can long endure. We are met on a great battle-field of that"
        " war. We have come to dedicate a portion of that field, as a final resting place for those"
        " who here gave their lives that that nation might live. It is altogether fitting and proper"
        " that we should do this. But, in a larger sense, we can not dedicate -- we can not"
        " consecrate -- we can not hallow -- this ground. The brave men, living and dead, who"
        " struggled here, have consecrated it, far above our poor power to add or detract. The world"
        " will little note, nor long remember what we say here, but it can never forget what they"
        " did here. It is for us the living, rather, to be dedicated here to the unfinished work"
        " which they who fought here have thus far so nobly advanced."
    ),
    "Moby-Dick": (
        "Call me Ishmael. Some years ago\u2014never mind how long precisely\u2014having little or no money"
        " in my purse, and nothing particular to interest me on shore, I thought I would sail about a"
        " little and see the watery part of the world. It is a way I have of driving off the spleen"
        " and regulating the circulation."
    ),
    "A_Tale_of_Two_Cities": (
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the"
        " age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was"
        " the season of Light, it was the season of Darkness, it was the spring of hope, it was the"
        " winter of despair."
    ),
    # Accents, a capital sigma, ideographs, and white space of several kinds.
    "Letters": (
        "The na\u00efve caf\u00e9 of Zo\u00eb\u00a0B. cost $3.50 (1900\u20131914).\n \u03a3\u03a9\u039a\u03a1\u0391\u03a4\u0397\u03a3 said: \u201cknow"
        " thyself\u201d; \u6771\u4eac is T\u014dky\u014d.\u202fAn e\u0301clair\tand a so\u00adft hyphen, \ufb01ne!"
    ),
}
_QUESTIONS = {"Gettysburg_Address": 22, "Moby-Dick": 8, "A_Tale_of_Two_Cities": 5, "Letters": 5}
_BEFORE, _PAST = 3, 4
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def document():
    """The content of a file of SQuAD v1.1 with 40 questions."""
    articles = []
    for title, text in TEXTS.items():
        asked = [_question(title, text, number) for number in range(_QUESTIONS[title])]
        articles.append({"title": title, "paragraphs": [{"context": text, "qas": asked}]})
    return {"data": articles, "version": "1.1"}


def _question(title, text, number):
    """A question for the words after three others, with two right answers."""
    words = text.split()
    first = _first(len(words), _QUESTIONS[title], number)
    asked = " ".join(words[first - _BEFORE : first])
    answer = " ".join(words[first : first + _length(number)])
    answers = [
        {"answer_start": max(0, text.find(each)), "text": each}
        for each in (answer, answer.strip(".,"))
    ]
    return {
        "id": f"{title.lower()}-{number:02}",
        "question": f"Which words follow \u201c{asked}\u201d in the text?",
        "answers": answers,
    }


def _first(words, questions, number):
    return _BEFORE + number * (words - _BEFORE - _PAST) // questions


def _length(number):
    return 1 + number % _PAST


def vocabulary():
    """Letters, the frequent words, and some endings: about 300 pieces."""
    counts = Counter(word for text in TEXTS.values() for word in word_pieces.words(text))
    letters = sorted({letter for word in counts for letter in word})
    frequent = sorted(word for word, count in counts.items() if count > 1 and len(word) > 1)
    endings = ["##ing", "##ed", "##ly", "##tion", "##er"]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*marks, *letters, *(f"##{letter}" for letter in letters), *frequent, *endings]
    # One letter is missing, so that its word is unknown.
    pieces.remove("z")
    return WordPieces({piece: number for number, piece in enumerate(pieces)})


def logits(made, questions, width):
    """Start and end logits, float32 [features, width, 2]: repeatable noise, and for most questions
    a peak near a right answer.
    """
    shape = (len(made), width, 2)
    noise = (np.arange(np.prod(shape), dtype=np.int64) * 7919 % 10007).reshape(shape)
    values = noise.astype(np.float32) / np.float32(2000)
    for number, feature in enumerate(made):
        if feature.question % 5 == 4:
            continue
        words = questions[feature.question].words
        right = questions[feature.question].answers[0].split()
        for first in range(len(words)):
            if list(words[first : first + len(right)]) == right:
                _raise(values[number], feature, first, first + len(right) - 1)
    return values


def _raise(values, feature, first, last):
    """Raise the logits of an answer. Every third one is a token too long."""
    places = [i for i, word in enumerate(feature.word_of) if first <= word <= last]
    if not places:
        return
    beyond = min(feature.question % 3 // 2, len(feature.word_of) - 1 - places[-1])
    values[feature.first + places[0], 0] += 4
    values[feature.first + places[-1] + beyond, 1] += 4


def write(folder, **config):
    """Write the files → (the file of questions, the folder of the model). `config`: values that
    replace those of the model's config.json.
    """
    data = folder / DATA
    data.write_text(json.dumps(document()), encoding="utf-8")
    model = folder / "bert-span"
    model.mkdir()
    pieces = vocabulary()
    (model / VOCABULARY).write_text(pieces.text(), encoding="utf-8")
    values = {
        "architectures": ["BertForQuestionAnswering"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 2,
        "max_position_embeddings": 400,
        "pad_token_id": 0,
        "vocab_size": len(pieces.ids),
        **SIZES,
        **config,
    }
    (model / "config.json").write_text(json.dumps(values))
    save_file(_tensors(len(pieces.ids)), model / "model.safetensors", {"format": "pt"})
    return data, model


def as_if_closed(real):
    """The workload as if these files and this model were those of the closed division."""
    contents = {DATA: json.dumps(document()), VOCABULARY: vocabulary().text()}
    digests = {
        name: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        for name, text in contents.items()
    }
    model = {"model_type": "bert", "num_hidden_layers": SIZES["num_hidden_layers"]}
    return replace(real, files=digests, closed_model=model)


def _tensors(vocabulary_size):
    """Seeded weights under the names of Transformers, which has no pooler here."""
    hidden, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (vocabulary_size, hidden),
        "embeddings.position_embeddings.weight": (400, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        **_norm("embeddings.LayerNorm", hidden),
    }
    for number in range(SIZES["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for name in ("query", "key", "value"):
            shapes |= _dense(f"{layer}.attention.self.{name}", hidden, hidden)
        shapes |= _dense(f"{layer}.attention.output.dense", hidden, hidden)
        shapes |= _norm(f"{layer}.attention.output.LayerNorm", hidden)
        shapes |= _dense(f"{layer}.intermediate.dense", inner, hidden)
        shapes |= _dense(f"{layer}.output.dense", hidden, inner)
        shapes |= _norm(f"{layer}.output.LayerNorm", hidden)
    shapes = {f"bert.{name}": shape for name, shape in shapes.items()}
    shapes |= _dense("qa_outputs", 2, hidden)
    draw = np.random.default_rng(20261126)
    tensors = {}
    for name, shape in shapes.items():
        mean = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        tensors[name] = draw.normal(mean, 0.2, shape).astype(np.float32)
    return tensors


def _dense(name, out, into):
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def _norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def main(folder):
    """Write the files, and an accuracy log of LoadGen with `logits`."""
    folder.mkdir(parents=True, exist_ok=True)
    data, model = write(folder)
    questions = features.parse(data.read_bytes())
    made = features.make(questions, word_pieces.parse((model / VOCABULARY).read_bytes()))
    values = logits(made, questions, features.WIDTH)
    rows = [
        {"seq_id": i, "qsl_idx": i, "data": row.tobytes().hex().upper()}
        for i, row in enumerate(values)
    ]
    (folder / "mlperf_log_accuracy.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
