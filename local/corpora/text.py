"""Text of speech translation corpora: one line per sentence, without sound events, with plain punctuation.

Only training text is normalised (`normalise`). References are only converted to NFC (`one_line`), so that scores can be
compared with published ones.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

import regex

from simulst.languages import code_of, unit_of

if TYPE_CHECKING:
    from sacremoses import MosesPunctNormalizer

# Characters that end a line in Python's splitlines and in other tools, and the tab, which ends a field.
_BREAKS = re.compile("[\t\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
_WORD = regex.compile(r"[\p{L}\p{N}]")

_UNTOUCHED = re.compile(r"(?:[\w,.?!-]|'(?!')| (?! ))*")  # text that Moses' fifty substitutions do not change
_MARK = re.compile(r"[(（\[［【♪♫♬]")
_SUNG = re.compile(r"\s*[♪♫♬]+[^♪♫♬]*[♪♫♬]+\s*")
_NOTE = re.compile(r"\s*[♪♫♬]+\s*")
_SQUARE = re.compile(r"\s*(?:\[[^][]*\]|［[^［］]*］|【[^【】]*】)\s*")
_ROUND = re.compile(r"\s*[(（]([^()（）]*)[)）]\s*")
_SENTENCE_END = tuple('.!?…。！？)）]］】"”»」』')
# The most frequent events in MuST-C's languages. They also occur in the middle of a sentence.
_EVENTS = re.compile(
    r"(laugh(s|ter|ing)?|applau\w*|cheer(s|ing)?|music|sing(s|ing)|gelächter|lach(en|t)|beifall|musik|gesang|risas?"
    r"|risate|risos|aplau[sz]\w*|música|rires?|musique|musica|gelach|muziek|râsete|muzică|смех|аплодисменты|музыка"
    r"|ضحك|تصفيق|موسيقى|smích|potlesk|hudba|خنده|تشویق|kahkahalar|gülüşmeler|alkışlar?|müzik|tiếng cười|vỗ tay"
    r"|nhạc)\b.*"
    r"|(会場|観客|聴衆|观众|觀眾|の|と|、|・|笑い?|笑?声|笑聲|大笑|爆笑|拍手|喝采|音楽|歓声|歌|ビデオ|映像|動画"
    r"|掌[声聲]|鼓掌|音[乐樂]|视频|視頻|影片|欢呼|歡呼)+"
)
_KNOWN_WORDS, _UNKNOWN_WORDS = 3, 5  # the longest event, in words: of this list; of any other kind


def one_line(text: str) -> str:
    """The text in NFC, on one line, without spaces at its ends; nothing else changes."""
    return unicodedata.normalize("NFC", _BREAKS.sub(" ", text)).strip()


def has_words(text: str) -> bool:
    """Whether the text has a letter or a digit."""
    return _WORD.search(text) is not None


def length(text: str, language: str) -> int:
    """The number of words, or of characters for languages written without spaces."""
    return len(text.split()) if unit_of(language) == "word" else sum(not c.isspace() for c in text)


def normalise(text: str, language: str, punctuation: str = "moses") -> str:
    """Normalise a line for training: without sound events, with Moses' punctuation and single spaces.

    Languages written without spaces keep their punctuation: sacreBLEU's tokenisers for zh and ja expect its full-width
    forms. (NFKC would replace these, so it is not used.)

    text: as `one_line` returns it.
    punctuation: "moses", or "keep" to keep the punctuation of all languages.

    Returns: the text; "" if nothing is left.
    """
    text = without_events(text, language)
    if unit_of(language) == "char":
        return text
    if punctuation == "moses" and not _UNTOUCHED.fullmatch(text):
        text = _moses(code_of(language)).normalize(text)
    return " ".join(text.split())


def without_events(text: str, language: str) -> str:
    """Remove sound events, which are heard but not spoken: "(Applause)", "[Musik]", "（拍手）", "♪ la la ♪".

    Round brackets also enclose ordinary text, so they are removed only if they look like an event. They look like an
    event if they hold a few words that begin like a known event in some language. They also do if they stand between
    sentences and hold a few words that begin with a capital and do not end a sentence.
    """
    if not _MARK.search(text):
        return text
    gap = "" if unit_of(language) == "char" else " "

    def close(match: re.Match[str]) -> str:
        """The text that replaces an event: a gap, but none before punctuation."""
        after = match.string[match.end() : match.end() + 1]
        return "" if after in ",.;:!?…" else gap  # at the end of the text, `after` is empty and in this string

    def close_round(match: re.Match[str]) -> str:
        return close(match) if _is_event(match[1].strip(), match.string[: match.start()]) else match[0]

    for pattern in (_SUNG, _NOTE, _SQUARE):
        text = pattern.sub(close, text)
    return _ROUND.sub(close_round, text).strip()


def _is_event(inside: str, before: str) -> bool:
    words = len(inside.split())
    if words <= _KNOWN_WORDS and _EVENTS.fullmatch(inside.lower()):
        return True
    between = not before.strip() or before.rstrip().endswith(_SENTENCE_END)
    return words <= _UNKNOWN_WORDS and between and inside[:1].isupper() and not inside.endswith(_SENTENCE_END)


@cache
def _moses(language: str) -> MosesPunctNormalizer:
    from sacremoses import MosesPunctNormalizer  # here, as scoring needs none, and it takes a third of a second

    return MosesPunctNormalizer(language)
