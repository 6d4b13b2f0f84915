"""bert-99: the questions of SQuAD v1.1, and the vocabulary of the user's BERT."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from compliance.rules import OfficialWorkload
from formats import bounds
from harness.errors import UsageError
from harness.inputs import tokenizer
from harness.inputs.user_weights import Folder
from harness.request.options import Options

_DATA = "dev-v1.1.json"
_VOCABULARY = "vocab.txt"
_PADDED_TO = 64
"""Some models have an embedding that is padded to a multiple of this many tokens."""


def check(options: Options, workload: OfficialWorkload) -> None:
    """Raises UsageError for another length of features."""
    if options.seq_len not in (None, workload.sequence_length):
        raise UsageError(
            f"--seq-len {options.seq_len}: {options.benchmark} has {workload.sequence_length}:"
            " leave it out"
        )


def files(options: Options, workload: OfficialWorkload, weights: Folder) -> dict[str, bytes]:
    """The questions and the vocabulary. The latter follows from the folder's tokenizer, whatever
    its file is. Raises UsageError.
    """
    assert options.dataset
    pieces = tokenizer.word_pieces(weights.tokenizer)
    return {
        _DATA: bounds.content(options.dataset, bounds.JSON),
        _VOCABULARY: pieces.text().encode(),
    }


def other_model(
    workload: OfficialWorkload,
    weights: Folder,
    files: Mapping[str, bytes],
    differences: Sequence[str],
) -> Sequence[str]:
    """Nothing more differs. Raises UsageError if the vocabulary is not that of the model."""
    content = files[_VOCABULARY]
    tokens = content.count(b"\n")
    expected = weights.size.config["vocab_size"]
    if not 0 <= expected - tokens < _PADDED_TO:
        raise UsageError(
            f"--weights {weights.path}: {_VOCABULARY} has {tokens} tokens and config.json says"
            f" vocab_size {expected}: the two are not of one model"
        )
    published = workload.files[_VOCABULARY]
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if not differences and digest != published:
        raise UsageError(
            f"--weights {weights.path}: {_VOCABULARY} has the md5 {digest}, and that of the"
            f" benchmark's model has {published}: give the {_VOCABULARY} of the model"
        )
    return ()
