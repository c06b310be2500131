"""The words of a text as they are spoken, in which transcripts and sources of training are compared and written."""

from __future__ import annotations

import unicodedata

import regex

# re's \w lacks the vowel signs of Hindi and other languages; the classes of regex have them.
_NOT_WORD = regex.compile(r"[^\p{L}\p{M}\p{N}']")


def lower_without_punctuation(text: str) -> str:
    """Lower-case words without punctuation, with single spaces: "It's twenty-one." → "it's twenty one".

    A word has letters, marks, digits and apostrophes.
    """
    text = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    return " ".join(word for word in (part.strip("'") for part in _NOT_WORD.sub(" ", text).split()) if word)
