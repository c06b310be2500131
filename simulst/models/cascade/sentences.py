"""Where sentences end in a text that grows."""

from __future__ import annotations

import re

END = re.compile(r"""[.!?…।؟۔]+["'”’»)\]]*\s+|[。！？]+[」』）]*""")


def split_sentences(text: str, most_words: int, unit: str) -> tuple[list[str], str]:
    """The sentences that have ended, and the rest; joined, they are the text.

    A sentence has ended once something follows its full stop that does not go on in lower case ("e.g. this" goes on),
    or once it would have more words (characters) than `most_words`.

    unit: of the text's language, "word" or "char".
    """
    ended = []
    while end := _first_end(text, most_words, unit):
        ended.append(text[:end])
        text = text[end:]
    return ended, text


def _first_end(text: str, most_words: int, unit: str) -> int:
    end = next((m.end() for m in END.finditer(text) if m.end() < len(text) and not text[m.end()].islower()), 0)
    word = r"\S+\s+" if unit == "word" else r"\S\s*"
    words = [match.end() for match in re.finditer(word, text[: end or len(text)])]
    return words[most_words - 1] if len(words) >= most_words and words[most_words - 1] < len(text) else end
