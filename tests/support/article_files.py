"""Small files of llama3.1-8b in the real formats: 30 articles with summaries, as tokens of a
tokenizer, and the folder of a seeded Llama with that tokenizer.

`PYTHONPATH=. .cache/environments/dev/bin/python -m tests.support.article_files DIR [FOLDER]` writes
them, and a log of answers. FOLDER is a model of yours, whose tokenizer is taken.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import tokenizers
from msgspec.structs import replace

from formats.writing import write_json
from harness.inputs import checkpoint, models
from tests.support import tokens

DATA, ARTICLES = "cnn_eval.json", 30
PROMPT = (
    "Summarize the following news article in 128 tokens. Please output the summary only, without"
    " any other text.\n\nArticle:\n{article}\n\nSummary:"
)
"""The prompt of download_cnndm.py."""
END = 2
_SENTENCES = (
    "(Local) -- The harbour of {place} was closed on Monday after a ship lost its anchor.",
    'Mayor J. P. Ward said: "We have never seen such a storm. Stay at home."',
    "The bridge, which was built in 1931, doesn't carry lorries of more than 7.5 tons.",
    "Dr. Ada Finch of the U.S. Weather Service expects winds of 60 m.p.h. before 9 p.m. tonight.",
    "Are the schools open? No. They will open on Feb. 3, officials wrote.",
    "About 1,200 people in {place} were without power... and nobody knows for how long!",
    "Mr. and Mrs. Lindt, who run the café Zoë on St. John's Street, served soup all night.",
    "Prices rose by 3.4 percent, i.e. twice as much as in the year before.",
    "The team of {place} won 3-1 and goes on to the final in Paris (France).",
    "It's the fifth title for coach Ray O'Neil, Jr. He isn't tired of it.",
    "Scientists at the museum found a beetle that they've named after the town.",
    "Its wings are 2 cm long; its legs, shorter. E. coli was not found.",
    "The company Brook & Sons Inc. will build 40 houses near the old mill.",
    "“Nobody asked us,” said a neighbour. “We read it in the paper.”",
    "The council votes at 10 a.m. on Friday. The vote is public.",
    "A dog that was lost for two years came back to {place} by itself.",
)
_PLACES = ("Northam", "St. Ives", "Port Ellen", "Wells", "Aberdour", "Rye")
_ENDINGS = (" .", " !", "...", "", "?")


def article(number):
    """The text of an article: six sentences, some of which are on lines of their own."""
    place = _PLACES[number % len(_PLACES)]
    chosen = [_SENTENCES[(5 * number + 3 * k) % len(_SENTENCES)] for k in range(6)]
    between = "\n" if number % 4 == 3 else " "
    return between.join(chosen).format(place=place)


def summary(number):
    """The summary by people: parts of three sentences, each on a line, as in the real file."""
    place = _PLACES[number % len(_PLACES)]
    chosen = [_SENTENCES[(5 * number + 3 * k) % len(_SENTENCES)] for k in (0, 2, 3)]
    lines = []
    for sentence in chosen:
        words = sentence.format(place=place).split()
        lines.append(" ".join(words[: 4 + number % 7]).rstrip(".!?,;"))
    return " .\n".join(lines) + " ."


def answer(number):
    """A summary as a model may write it: words of the article, with other endings and cases."""
    place = _PLACES[number % len(_PLACES)]
    chosen = [_SENTENCES[(5 * number + 3 * k) % len(_SENTENCES)] for k in (0, 3, 4)]
    text = " ".join(chosen[: 1 + number % 3]).format(place=place)
    words = text.split()[number % 3 :]
    if number % 5 == 4:
        words = words[::-1]
    if number % 6 == 1:
        words = [word.upper() for word in words]
    return "  ".join(words[:40]) + _ENDINGS[number % len(_ENDINGS)]


def tokenizer():
    """A tokenizer of 1000 tokens, which knows the words of the articles."""
    return tokens.bpe(1000, [PROMPT, *_SENTENCES])


def document(reader, articles=ARTICLES):
    """The content of the file, in the tokens of this tokenizer."""
    rows = []
    for number in range(articles):
        text = article(number)
        prompt = PROMPT.format(article=text)
        rows.append(
            {
                "instruction": {"llama": PROMPT},
                "input": text,
                "tok_input": reader.encode(prompt).ids,
                "output": summary(number),
            }
        )
    return rows


def answers(reader):
    """Number of an article → the tokens of its answer, int32. The last one has no text."""
    found = {}
    for number in range(ARTICLES):
        ids = reader.encode(answer(number), add_special_tokens=False).ids
        if number == ARTICLES - 1:
            ids = []
        found[number] = np.array([*ids, END], np.int32).tobytes()
    return found


def write(folder, articles=ARTICLES):
    """Write the files → (the file of articles, the folder of the model)."""
    model = models.load("llama")
    size = model.sizes["tiny"]
    weights = folder / "llama"
    shutil.copytree(checkpoint.ensure(model, size, folder / "cache").path, weights)
    (weights / "digest.json").unlink()
    reader = tokenizer()
    reader.save(str(weights / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": True,
        "eos_token": "</s>",
    }
    write_json(weights / "tokenizer_config.json", settings)
    data = folder / DATA
    rows = document(reader, articles)
    data.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return data, weights


def as_if_closed(real):
    """The workload as if the small model were that of the closed division."""
    return replace(real, closed_model={"model_type": "llama"}, end_tokens=(END,))


def main(folder, model=None):
    """Write the files and an accuracy log of LoadGen with `answers`."""
    folder.mkdir(parents=True, exist_ok=True)
    if model is None:
        _, model = write(folder)
    reader = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    data = json.dumps(document(reader), indent=4, ensure_ascii=False)
    (folder / DATA).write_text(data, encoding="utf-8")
    rows = [
        {"seq_id": number, "qsl_idx": number, "data": data.hex().upper()}
        for number, data in answers(reader).items()
    ]
    write_json(folder / "mlperf_log_accuracy.json", rows)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
