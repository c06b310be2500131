"""The text of the mini corpus: well-formed sentences, German word order, splits that share words but no sentences.

Each published sentence stays as it is: see test_segments.py.
"""

from __future__ import annotations

import re
import unicodedata
from random import Random

import pytest

import sentences
from lexicon import EVENTS, NAMES, VERBS
from make_mini import SIZES
from sentences import Sentence, make_splits, sentence
from simulst.errors import SimulstError


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Sentence]]:
    return make_splits(SIZES)


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


AUXILIARY = re.compile(
    "hat|habe|haben|ist|sind|bin|war|waren|hatte|hatten|wird|werde|werden|muss|müssen|kann|können|will|wollen|"
    "(muss|konn|soll|woll)ten?"
)


def test_subordinate_clauses_end_with_a_verb(splits: dict[str, list[Sentence]]) -> None:
    heads = r"\b([Ww]eil|[Oo]bwohl|[Dd]ass|[Oo]b|[Ww]enn|[Aa]ls|[Nn]achdem|[Bb]evor) ([^,.]+)[,.]"
    found = [last for s in splits["train"] for _, last in re.findall(heads, s.de)]
    assert len(found) > 1000
    verbs = {v.prefix + v.third for v in (*VERBS, *EVENTS)} | {v.prefix + v.inf for v in (*VERBS, *EVENTS)}
    verbs |= {v.prefix + v.inf[:-2] + "e" for v in VERBS}
    odd = [
        clause for clause in found if clause.split()[-1] not in verbs and not AUXILIARY.fullmatch(clause.split()[-1])
    ]
    assert not odd


def test_the_main_verb_stands_second_after_a_subordinate_clause(splits: dict[str, list[Sentence]]) -> None:
    for s in splits["train"]:
        if re.match("(Wenn|Als|Nachdem|Bevor) ", s.de):
            second = s.de.split(", ")[1].split()[0]
            assert AUXILIARY.fullmatch(second), s


# ---- splits ----


def test_sizes_and_no_sentence_twice(splits: dict[str, list[Sentence]]) -> None:
    assert {split: len(chosen) for split, chosen in splits.items()} == SIZES
    english = [s.en for chosen in splits.values() for s in chosen]
    assert len(english) == len(set(english))


def test_every_word_of_a_test_is_trained(splits: dict[str, list[Sentence]]) -> None:
    trained = set().union(*(s.words() for s in splits["train"]))
    for split in ("dev", "tst-COMMON", "tst-HE"):
        assert set().union(*(s.words() for s in splits[split])) <= trained


def test_several_hundred_words_and_sentences_of_some_length(splits: dict[str, list[Sentence]]) -> None:
    words = {w for s in splits["train"] for w in s.words() if w.startswith("en ")}
    assert 300 < len(words) < 500
    lengths = [len(s.en.replace("-", " ").split()) for s in splits["train"]]
    assert min(lengths) >= sentences.LENGTH[0] and max(lengths) <= sentences.LENGTH[1]


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
