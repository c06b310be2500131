"""The text of the mini corpus: well-formed sentences, and splits that follow from their sizes and the seed.

Each published sentence stays as it is: see test_segments.py.
"""

from __future__ import annotations

import re
import unicodedata
from random import Random

import pytest

import sentences
from lexicon import NAMES
from sentences import make_splits, sentence
from simulst.errors import SimulstError


def test_a_sentence_follows_from_the_seed() -> None:
    assert [sentence(Random(5)) for _ in range(3)] == [sentence(Random(5))] * 3
    assert len({sentence(Random(seed)) for seed in range(50)}) == 50


@pytest.mark.parametrize("builder", sentences._BUILDERS)
def test_every_kind_of_sentence_is_well_formed(builder) -> None:  # type: ignore[no-untyped-def]
    for seed in range(200):
        parts = builder(Random(seed))
        n = len(parts.en)
        assert len(parts.de) == n and {*parts.ja} == {(i, j) for i in range(n) for j in range(i + 1, n + 1)}
        for text in (" ".join(parts.en), " ".join(parts.de), *parts.en, *parts.de, *parts.ja.values()):
            assert text == text.strip() and "  " not in text and "_" not in text and "・" not in text
            assert text == unicodedata.normalize("NFC", text)
            assert not re.search(r",,|、、|、$", text)
        assert not parts.en[-1].endswith(",") and not parts.de[-1].endswith(",")


def test_tests_stay_the_same_for_every_size_of_the_training() -> None:
    small, large = (make_splits({"train": n, "dev": 20, "tst-HE": 10}, seed=3) for n in (50, 400))
    assert small["dev"] == large["dev"] and small["tst-HE"] == large["tst-HE"]
    assert small == make_splits({"train": 50, "dev": 20, "tst-HE": 10}, seed=3)
    assert small["dev"] != make_splits({"train": 50, "dev": 20}, seed=4)["dev"]


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(SimulstError, match="'dev' has size 0"):
        make_splits({"train": 5, "dev": 0})


def test_names_are_not_inflected() -> None:
    assert all(name.de == name.en for name in NAMES)
