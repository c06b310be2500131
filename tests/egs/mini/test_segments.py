"""What is said in a segment: whole sentences, or one to three clauses with pauses and fillers."""

from __future__ import annotations

import hashlib
import re
from random import Random

import pytest

import make_mini
from make_mini import plan_talks
from segments import FILLERS, MOST_WORDS, Segment, cut
from sentences import Sentence, make_splits

SIZES = {"train": 300, "dev": 20, "tst-COMMON": 20, "tst-HE": 20}
DIGEST = "ae0e4bc463a396138281b475c5ce6a64c8b256fbfb21d1271585a06fd722ad27"


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    return make_splits(SIZES)["train"]


@pytest.fixture(scope="module")
def talk(sentences: list[Sentence]) -> list[Segment]:
    return cut(sentences, "talk", Random(1))


def test_the_default_style_stays_the_same() -> None:
    """Texts, voices and distribution over talks of the corpus that published results were made with."""
    plan = plan_talks(make_splits(make_mini.SIZES), 0)
    told = [
        f"{split} {talk.name} {talk.speaker} {talk.voice} {talk.seed} {one.en} {one.de} {one.ja} {one.said}"
        for split, talks in plan.items()
        for talk in talks
        for one in talk.segments
    ]
    assert len(told) == sum(make_mini.SIZES.values())
    assert hashlib.sha256("\n".join(told).encode()).hexdigest() == DIGEST


def test_segments_together_are_the_talk(sentences: list[Sentence], talk: list[Segment]) -> None:
    for language in ("en", "de"):
        assert [word for one in talk for word in getattr(one, language).split()] == [
            word for sentence in sentences for word in getattr(sentence, language).split()
        ]
    # A sentence that a single segment holds has its own Japanese, too.
    assert sum(sentence.ja in one.ja for sentence in sentences for one in talk if sentence.en in one.en) > 150


def test_segments_are_short_and_some_end_within_a_sentence(talk: list[Segment]) -> None:
    assert max(len(one.en.split()) for one in talk) <= MOST_WORDS
    goes_on = [not one.en.endswith(".") for one in talk]
    assert 0.15 < sum(goes_on) / len(talk) < 0.35
    for one, more, after in zip(talk, goes_on, talk[1:], strict=False):
        assert more == (one.ja[-1] == "、") == (one.de[-1] != ".")
        assert more or after.en[0].isupper()


def test_what_is_said_are_the_words_with_fillers_between(talk: list[Segment]) -> None:
    fillers = 0
    for one in talk:
        spoken = [breath.text for breath in one.said]
        fillers += sum(text.strip(",") in FILLERS for text in spoken)
        words = re.findall(r"[\w'-]+", " ".join(text for text in spoken if text.strip(",") not in FILLERS))
        assert words == re.findall(r"[\w'-]+", one.en)
        assert not {"um", "uh"} & {*words}
    assert 0.1 < fillers / len(talk) < 0.6


def test_pauses_are_of_natural_length(talk: list[Segment]) -> None:
    pauses = [breath.pause for one in talk for breath in one.said[1:]]
    assert all(0 < low < high <= 3.0 for low, high in pauses)
    assert sum(high > 1.2 for _, high in pauses) / len(pauses) < 0.15
    assert len(pauses) > len(talk) / 2


def test_the_clauses_of_a_sentence_one_by_one(sentences: list[Sentence]) -> None:
    because = next(s for s in sentences if re.match(r"[^,]+ because [^,]+$", s.en) and len(s.parts.en) == 2)
    first, second = because.run(0, 1), because.run(1, 2)
    assert f"{first.en} {second.en}" == because.en and f"{first.de} {second.de}" == because.de
    assert second.en.startswith("because ") and second.de.startswith("weil ")
    assert because.ja.index("ので") < len(because.ja) - 3
    assert first.ja.endswith("、") and second.ja.endswith("からです。")
    assert because.run(0, 2).ja == because.ja
