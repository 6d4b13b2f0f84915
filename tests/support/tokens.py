"""A tokenizer trained on a few sentences."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

TEXT = [" ".join(f"{a}{b}{c}" for c in "stuvwxyz") for a in "abcdefgh" for b in "ijklmnop"]


def bpe(vocabulary, texts=TEXT):
    """Byte-level, with a beginning mark (1), padding (0) and an end (2)."""
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            show_progress=False,
            vocab_size=min(vocabulary, 800),
            initial_alphabet=alphabet,
            special_tokens=["<pad>", "<s>", "</s>"],
        ),
    )
    made.decoder = decoders.ByteLevel()
    made.add_tokens([f"<extra {i}>" for i in range(vocabulary - made.get_vocab_size())])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return made


def clip():
    """(vocabulary, merges) as CLIP has them, 49,408 tokens with its two marks at the end; merges
    make the words of TEXT and no others.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = {}
    for word in " ".join(TEXT).split():
        *letters, last = word
        symbols = [*letters, f"{last}</w>"]
        while len(symbols) > 1:
            merges[symbols[0], symbols[1]] = None
            symbols[:2] = ["".join(symbols[:2])]
    words = [
        *alphabet,
        *(f"{letter}</w>" for letter in alphabet),
        *dict.fromkeys("".join(pair) for pair in merges),
    ]
    words += [f"<filler {n}>" for n in range(49406 - len(words))]
    return {word: n for n, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}, list(
        merges
    )
