"""Tokenizers (text → ids): that of a user's folder, or a lossless one of bytes if there is none.

The ids of the latter are 0 padding, 1 beginning, 2 end, then byte + 3, as in ByT5 (Xue et al. 2021,
"ByT5: Towards a token-free future", section 3.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from compliance.scoring.squad.word_pieces import WordPieces
from formats import bounds
from harness.errors import HarnessError, UsageError
from harness.execution import user_files
from harness.inputs import user_folder
from harness.inputs.user_folder import Document

PAD = 0
BEGIN = 1
END = 2
_OFFSET = 3
VOCABULARY = 256 + _OFFSET
_OF_CONVERSION = (
    "config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
"""The files that Transformers reads to make a tokenizer.json."""
_SPECIAL = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_CALLS = ("encode", "decode", "encode_marked", "decode_marked")
"""The fields of a tokenizer that call its library."""


@dataclass(frozen=True)
class Tokenizer:
    """The two directions of a tokenizer.

    Attributes:
        name: the name of its file, for notes and messages.
        vocabulary: its largest id plus one.
        special: ids that mean no text.
        encode: text → ids, with the marks (beginning, end) that this tokenizer adds.
        decode: ids → text without special ids.
        encode_marked: text that contains its marks → ids; None: this kind of file cannot.
        decode_marked: ids → text with its marks; None: this kind of file cannot.
        folder: the folder of its files; None: it has none.
        content: returns its tokenizer.json; None: there is none.
    """

    name: str
    vocabulary: int
    special: tuple[int, ...]
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    encode_marked: Callable[[str], list[int]] | None = None
    decode_marked: Callable[[Sequence[int]], str] | None = None
    folder: Path | None = None
    content: Callable[[], str] | None = None


def encode(text: str) -> list[int]:
    """Text → one id for each of its bytes."""
    return [byte + _OFFSET for byte in text.encode("utf-8")]


def decode(ids: Iterable[int]) -> str:
    """Ids of bytes → text. Special and other ids are left out. Bytes that are no UTF-8, which a
    model may generate, become U+FFFD.
    """
    text = bytes(i - _OFFSET for i in ids if _OFFSET <= i < VOCABULARY)
    return text.decode("utf-8", errors="replace")


def of_bytes(closing: bool) -> Tokenizer:
    """The tokenizer of bytes. `closing`: with the end mark, for a model that predicts."""
    end = [END] if closing else []
    return Tokenizer(
        "bytes and their marks",
        VOCABULARY,
        (PAD, BEGIN, END),
        lambda text: [BEGIN, *encode(text), *end],
        decode,
    )


def of_folder(path: Path) -> Tokenizer | None:
    """The tokenizer of a folder: tokenizer.json, else tokenizer.model, else what Transformers makes
    of a vocab.txt, or of vocab.json and merges.txt. None: the folder has none of these.

    Raises UsageError if a file cannot be read.
    """
    for name, read in (
        ("tokenizer.json", _json),
        ("tokenizer.model", _sentencepiece),
        ("vocab.txt", partial(_converted, "BertTokenizer")),
        ("vocab.json", partial(_converted, "CLIPTokenizer")),
    ):
        if not (path / name).is_file():
            continue
        file = path / name
        bounds.check(file, file.stat().st_size, bounds.TOKENIZER)
        safe = _named_faults(file)
        tokenizer = safe(read)(file)
        calls: dict[str, Any] = {
            call: safe(each) for call in _CALLS if (each := getattr(tokenizer, call))
        }
        return replace(tokenizer, folder=path, **calls)
    return None


@contextmanager
def _named_faults(file: Path) -> Iterator[None]:
    """Turn a fault of a tokenizer's library into a UsageError with the file's name.

    Both libraries raise plain Exception and RuntimeError, and `tokenizers` a PanicException of
    Rust, which is a BaseException.
    """
    try:
        yield
    except (HarnessError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001
        why = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise UsageError(
            f"--weights {file.parent}: {file.name} is not a tokenizer ({why}): download it again"
        ) from None


def word_pieces(own: Tokenizer | None) -> WordPieces:
    """BERT's vocabulary in lower case, from the tokenizer of a user's folder. Raises UsageError if
    the folder has none.
    """
    lacking = "a vocab.txt or tokenizer.json of word pieces in lower case, as BERT's"
    if own is None or own.content is None:
        raise UsageError(f"--weights: questions need {lacking}, and the folder has no tokenizer")
    try:
        content = json.loads(own.content())
        found = WordPieces(content["model"]["vocab"])
        in_lower_case = content["normalizer"]["lowercase"]
    except (ValueError, KeyError, TypeError) as e:
        raise UsageError(f"--weights {own.folder}: questions need {lacking} ({e})") from None
    if not in_lower_case:
        raise UsageError(
            f"--weights {own.folder}: questions need {lacking}, and this one keeps capitals"
        )
    return found


def settings(path: Path) -> Document:
    """The content of tokenizer_config.json. Empty if there is none."""
    return _document(path / "tokenizer_config.json")


def special_tokens(path: Path) -> dict[str, str]:
    """The special tokens of a folder, such as `bos_token`. Only older folders need
    special_tokens_map.json.
    """
    named = settings(path)
    if "added_tokens_decoder" not in named:
        named |= _document(path / "special_tokens_map.json")
    tokens = {}
    for name in _SPECIAL:
        token = named.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            tokens[name] = token
    return tokens


def _document(file: Path) -> Document:
    """The JSON object of a file. Empty if there is no file."""
    return dict(user_folder.read_json(file)) if file.is_file() else {}


def _json(file: Path) -> Tokenizer:
    return _of_json(file.name, file.read_text(encoding="utf-8"))


def _of_json(name: str, text: str) -> Tokenizer:
    """Read a tokenizer.json. Its post-processor adds the marks. Its truncation and padding are
    switched off, because we refuse long prompts and pad ourselves.
    """
    from tokenizers import Tokenizer as Reader

    reader = Reader.from_str(text)
    reader.no_truncation()
    reader.no_padding()
    special = [i for i, token in reader.get_added_tokens_decoder().items() if token.special]
    return Tokenizer(
        name=name,
        # The number of tokens is smaller if ids have gaps.
        vocabulary=1 + max(reader.get_vocab(with_added_tokens=True).values()),
        special=tuple(special),
        encode=lambda text: list(reader.encode(text).ids),
        decode=reader.decode,
        encode_marked=lambda text: list(reader.encode(text, add_special_tokens=False).ids),
        decode_marked=lambda ids: str(reader.decode(list(ids), skip_special_tokens=False)),
        content=reader.to_str,
    )


def _converted(usual: str, file: Path) -> Tokenizer:
    """The tokenizer.json that Transformers makes of other files, by the class that the folder
    names, or else by `usual`.
    """
    files = user_files.contents(file.parent, _OF_CONVERSION, bounds.TOKENIZER)
    found = _of_json(file.name, user_files.answer("tokenizer", files, usual))
    return replace(found, encode_marked=None, decode_marked=None)


def _sentencepiece(file: Path) -> Tokenizer:
    """If tokenizer_config.json does not say, a beginning is added and no end, as Transformers'
    tokenizers of Llama, Mistral and Gemma do.
    """
    from sentencepiece import SentencePieceProcessor

    reader = SentencePieceProcessor(model_file=str(file))
    vocabulary = reader.vocab_size()
    marks = settings(file.parent)
    begins = marks.get("add_bos_token", True) and reader.bos_id() >= 0
    ends = marks.get("add_eos_token", False) and reader.eos_id() >= 0
    special = [i for i in range(vocabulary) if reader.is_control(i) or reader.is_unknown(i)]
    added = _document(file.with_name("added_tokens.json")).values()

    def encode(text: str) -> list[int]:
        if any(number >= vocabulary for number in added):
            raise UsageError(
                f"--weights {file.parent}: added_tokens.json has tokens that {file.name} lacks, and"
                " only a tokenizer.json can contain them: write one with"
                " AutoTokenizer.from_pretrained(DIR).backend_tokenizer.save("
                f'"{file.parent}/tokenizer.json")'
            )
        return list(reader.encode(text, add_bos=begins, add_eos=ends))

    return Tokenizer(
        file.name,
        vocabulary,
        tuple(special),
        encode,
        lambda ids: str(reader.decode([i for i in ids if i not in special])),
    )
