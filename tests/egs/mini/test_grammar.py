# ruff: noqa: E501
"""The text of the mini corpus: inflection, word order, and splits that share words but no sentences."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from random import Random

import pytest

import clauses
import grammar
import sentences
from clauses import BE, IT, NP, PRONOUNS, Clause, noun_phrase, relative_pronoun
from lexicon import ADJECTIVES, EVENTS, NAMES, NOUNS, PLACES, STATES, VERBS, Noun, Phrase, Verb
from make_mini import SIZES
from sentences import Sentence, make_splits, sentence
from simulst.errors import SimulstError

YESTERDAY = Phrase("yesterday", "gestern", "昨日")
ANNA = NP("Anna", ("Anna",) * 3, "アンナ", "f", "f")


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Sentence]]:
    return make_splits(SIZES)


def verb(name: str) -> Verb:
    return next(v for v in VERBS if v.en == name)


def noun(name: str) -> Noun:
    return next(n for nouns in NOUNS.values() for n in nouns if n.en == name)


def adjective(name: str, kind: str = "goods") -> Phrase:
    return next(a for a in ADJECTIVES[kind] if a.en == name)


def place(name: str, to: bool = False) -> Phrase:
    p = PLACES[name]
    return Phrase(p.en_to, p.de_to, p.ja) if to else Phrase(p.en_in, p.de_in, p.ja)


def said(c: Clause) -> tuple[str, str, str]:
    return clauses.english(c), clauses.german_main(c), clauses.japanese(c)


# ---- numbers and noun phrases ----


@pytest.mark.parametrize(
    "n, en, de, ja",
    [
        (1, "one", "eins", "一"),
        (12, "twelve", "zwölf", "十二"),
        (16, "sixteen", "sechzehn", "十六"),
        (20, "twenty", "zwanzig", "二十"),
        (21, "twenty-one", "einundzwanzig", "二十一"),
        (37, "thirty-seven", "siebenunddreißig", "三十七"),
        (99, "ninety-nine", "neunundneunzig", "九十九"),
    ],
)
def test_numbers(n: int, en: str, de: str, ja: str) -> None:
    assert (clauses.english_number(n), clauses.german_number(n), clauses.japanese_number(n)) == (en, de, ja)


@pytest.mark.parametrize(
    "n, en, de",
    [(1, "first", "ersten"), (3, "third", "dritten"), (7, "seventh", "siebten"), (8, "eighth", "achten"),
     (12, "twelfth", "zwölften"), (20, "twentieth", "zwanzigsten"), (21, "twenty-first", "einundzwanzigsten")],
)  # fmt: skip
def test_ordinals(n: int, en: str, de: str) -> None:
    assert (clauses.english_ordinal(n), clauses.german_ordinal(n)) == (en, de)


@pytest.mark.parametrize(
    "name, det, adj, german",
    [
        ("coat", "the", "red", "der rote Mantel, den roten Mantel, dem roten Mantel"),
        ("coat", "a", "red", "ein roter Mantel, einen roten Mantel, einem roten Mantel"),
        ("bag", "a", "new", "eine neue Tasche, eine neue Tasche, einer neuen Tasche"),
        ("bag", "this", "new", "diese neue Tasche, diese neue Tasche, dieser neuen Tasche"),
        ("car", "a", "expensive", "ein teures Auto, ein teures Auto, einem teuren Auto"),
        ("car", "own", "old", "unser altes Auto, unser altes Auto, unserem alten Auto"),
        ("car", "21", "old", "einundzwanzig alte Autos, einundzwanzig alte Autos, einundzwanzig alten Autos"),
        ("picture", "3", None, "drei Bilder, drei Bilder, drei Bildern"),
        ("parents", "own", None, "unsere Eltern, unsere Eltern, unseren Eltern"),
    ],
)
def test_german_case_gender_and_adjectives(name: str, det: str, adj: str | None, german: str) -> None:
    phrase = noun_phrase(noun(name), det, adjective(adj) if adj else None, owner="1p")
    assert ", ".join(phrase.de) == german


def test_english_and_japanese_noun_phrases() -> None:
    assert noun_phrase(noun("umbrella"), "a").en == "an umbrella"
    assert noun_phrase(noun("umbrella"), "a", adjective("red")).en == "a red umbrella"
    books = noun_phrase(noun("book"), "21", adjective("new", "read"))
    assert (books.en, books.ja, books.count) == ("twenty-one new books", "新しい本", "二十一冊")
    assert noun_phrase(noun("mother"), "own", owner="f").ja == "お母さん"
    assert noun_phrase(noun("mother"), "own", owner="1s").ja == "母"


@pytest.mark.parametrize(
    "word, forms",
    [("買う", "買わ 買い 買う 買った 買って"), ("行く", "行か 行き 行く 行った 行って"), ("待つ", "待た 待ち 待つ 待った 待って"),
     ("飲む", "飲ま 飲み 飲む 飲んだ 飲んで"), ("なくす", "なくさ なくし なくす なくした なくして"),
     ("食べ・る", "食べ 食べ 食べる 食べた 食べて"), ("修理する", "修理し 修理し 修理する 修理した 修理して"),
     ("持ってくる", "持ってこ 持ってき 持ってくる 持ってきた 持ってきて"), ("帰る", "帰ら 帰り 帰る 帰った 帰って")],
)  # fmt: skip
def test_japanese_conjugation(word: str, forms: str) -> None:
    assert list(clauses.conjugate(word).values()) == forms.split()


# ---- golden clauses: what is reordered ----

COAT = noun_phrase(noun("coat"), "a", adjective("red"))
BUY = Clause(ANNA, verb("buy"), "past", YESTERDAY, thing=COAT, place=place("berlin"))
CALL = Clause(ANNA, verb("call"), "past", thing=noun_phrase(noun("mother"), "own", owner="f"))


def test_perfect_with_the_participle_last() -> None:
    assert said(BUY) == (
        "Anna bought a red coat in Berlin yesterday",
        "Anna hat gestern in Berlin einen roten Mantel gekauft",
        "アンナは昨日ベルリンで赤いコートを買いました",
    )


def test_inversion_after_a_fronted_adverbial() -> None:
    assert said(replace(BUY, fronted=True)) == (
        "yesterday, Anna bought a red coat in Berlin",
        "gestern hat Anna in Berlin einen roten Mantel gekauft",
        "昨日、アンナはベルリンで赤いコートを買いました",
    )


def test_separable_verbs() -> None:
    now = replace(CALL, mood="pres")
    assert said(now) == ("Anna calls her mother", "Anna ruft ihre Mutter an", "アンナはお母さんに電話します")
    assert clauses.german_sub(now, "weil") == "weil Anna ihre Mutter anruft"
    assert clauses.german_sub(CALL, "dass") == "dass Anna ihre Mutter angerufen hat"
    assert clauses.german_purpose(replace(CALL, mood="inf")) == "um ihre Mutter anzurufen"


def test_modal_verbs_and_the_future_have_the_infinitive_last() -> None:
    must = replace(CALL, mood="had to")
    assert said(must) == (
        "Anna had to call her mother",
        "Anna musste ihre Mutter anrufen",
        "アンナはお母さんに電話しなければなりませんでした",
    )
    assert clauses.german_sub(must, "obwohl") == "obwohl Anna ihre Mutter anrufen musste"
    assert clauses.german_sub(replace(CALL, mood="fut"), "dass") == "dass Anna ihre Mutter anrufen wird"
    me = replace(CALL, subject=PRONOUNS["1s"], mood="wanted")
    assert clauses.japanese(me) == "私はお母さんに電話したかったです"
    assert clauses.japanese(replace(CALL, mood="want")) == "アンナはお母さんに電話したがっています"


def test_sein_as_auxiliary_and_the_way_after_the_time() -> None:
    went = Clause(PRONOUNS["1p"], verb("go"), "past", YESTERDAY, place=place("market", to=True))
    assert said(went) == (
        "we went to the market yesterday",
        "wir sind gestern auf den Markt gegangen",
        "私たちは昨日市場に行きました",
    )
    assert (
        clauses.german_sub(replace(went, mood="plup"), "nachdem") == "nachdem wir gestern auf den Markt gegangen waren"
    )


def test_pronouns_come_before_the_time_and_datives_before_accusatives() -> None:
    gave = Clause(ANNA, verb("give"), "past", YESTERDAY, person=PRONOUNS["m"], thing=COAT)
    assert said(gave)[:2] == ("Anna gave him a red coat yesterday", "Anna hat ihm gestern einen roten Mantel gegeben")
    doctor = noun_phrase(noun("doctor"), "the")
    assert said(replace(gave, person=doctor))[1] == "Anna hat gestern dem Arzt einen roten Mantel gegeben"
    visited = Clause(doctor, verb("visit"), "past", YESTERDAY, thing=PRONOUNS["f"], place=place("home"))
    assert said(visited)[1] == "der Arzt hat sie gestern zu Hause besucht"


def test_verbs_with_prepositions_and_their_contractions() -> None:
    course = noun_phrase(noun("course"), "the")
    part = Clause(ANNA, verb("take part in"), "pres", thing=course)
    assert said(part) == ("Anna takes part in the course", "Anna nimmt am Kurs teil", "アンナは講座に参加します")
    waited = Clause(ANNA, verb("wait for"), thing=noun_phrase(noun("bus"), "the"), place=place("station"))
    assert said(waited)[1] == "Anna hat am Bahnhof auf den Bus gewartet"


def test_states_and_weather() -> None:
    ill = Clause(ANNA, BE, "past", state=STATES["somebody"][1][0])
    assert said(ill) == ("Anna was ill", "Anna war krank", "アンナは病気でした")
    assert clauses.german_sub(ill, "weil") == "weil Anna krank war"
    assert clauses.japanese(replace(ill, mood="pres"), "attributive", "が") + "ので" == "アンナが病気なので"
    rain = Clause(IT, next(v for v in EVENTS if v.en == "rain"), "past", YESTERDAY)
    assert said(rain) == ("it rained yesterday", "es hat gestern geregnet", "昨日雨が降りました")


def test_relative_pronouns_agree() -> None:
    assert [relative_pronoun(noun_phrase(noun(n), "the"), "acc") for n in ("coat", "bag", "car")] == [
        "den",
        "die",
        "das",
    ]


def test_times_of_day() -> None:
    class Fixed(Random):
        def __init__(self, hour: int, minute: int) -> None:
            super().__init__(0)
            self._fixed = hour, minute

        def randint(self, a: int, b: int) -> int:
            return self._fixed[0] if b == 12 else 33

        def choice(self, seq):  # type: ignore[no-untyped-def]
            return self._fixed[1]

    assert grammar.clock(Fixed(7, 30)) == Phrase("at half past seven", "um halb acht", "七時半に")
    assert grammar.clock(Fixed(12, 45)) == Phrase("at a quarter to one", "um Viertel vor eins", "十二時四十五分に")
    assert grammar.clock(Fixed(1, 0)) == Phrase("at one o'clock", "um ein Uhr", "一時に")
    assert grammar.clock(Fixed(9, 21)) == Phrase("at nine twenty-one", "um neun Uhr einundzwanzig", "九時二十一分に")


# ---- sentences ----


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
