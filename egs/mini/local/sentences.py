"""Parallel English, German and Japanese sentences: the text of the mini corpus.

This file decides which clauses make a sentence; `grammar` makes clauses. Each English sentence has one translation, so
a trained model can reproduce it word for word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from clauses import (
    BE,
    PRONOUNS,
    Clause,
    english,
    german_main,
    german_purpose,
    german_sub,
    japanese,
    noun_phrase,
    relative_pronoun,
)
from grammar import (
    MOODS_OF,
    action,
    again,
    circumstance,
    front,
    happening,
    place_of,
    professional,
    somebody,
    state,
)
from lexicon import ADJECTIVES, NOUNS, REPORTS, UNWANTED, VERBS, Phrase
from simulst.errors import SimulstError

LENGTH = (10, 26)  # English words in a sentence: 3 to 9 seconds
TRAIN = "train"


@dataclass(frozen=True)
class Parts:
    """The clauses of a sentence in the order of the English, n of them, without capital and final punctuation.

    en, de: n texts each; with spaces between, they are the sentence.
    ja: the text of clauses i to j - 1 for each 0 <= i < j <= n. Japanese clauses have another order when they are in
        one sentence than when the first is said before the second is known.
    """

    en: tuple[str, ...]
    de: tuple[str, ...]
    ja: Mapping[tuple[int, int], str]


@dataclass(frozen=True)
class Sentence:
    """One sentence in three languages, true-cased and punctuated, numbers in words (Japanese: kanji)."""

    en: str
    de: str
    ja: str
    parts: Parts = field(compare=False, repr=False)

    def run(self, i: int, j: int) -> Phrase:
        """Clauses i to j - 1 as the translation of only them. A Japanese text that goes on ends with a comma."""
        parts, end = self.parts, j == len(self.parts.en)
        en, de = (" ".join(texts[i:j]) + ("." if end else "") for texts in (parts.en, parts.de))
        if i == 0:
            en, de = (text[0].upper() + text[1:] for text in (en, de))
        return Phrase(en, de, parts.ja[i, j] + ("。" if end else "、"))

    def words(self) -> set[str]:
        """The words of the English and the German, without case and punctuation, and the Japanese characters."""
        return {f"en {word}" for word in _words(self.en)} | {f"de {word}" for word in _words(self.de)} | set(self.ja)


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’]+", text.lower())


# ---- splits ----


def make_splits(sizes: Mapping[str, int], seed: int = 0) -> dict[str, list[Sentence]]:
    """Draw the sentences of each split. No sentence appears twice, and the same seed gives the same sentences.

    Each split except "train" has its own random stream, so it does not depend on the size of "train". "train" is drawn
    last and avoids the sentences of the other splits. Its last sentences are chosen to contain words of the other
    splits that it still lacks. From about 300 sentences on, "train" contains every word of the other splits.

    sizes: split → number of sentences.

    Raises SimulstError: a size is below 1.
    """
    if bad := [split for split, size in sizes.items() if size < 1]:
        raise SimulstError(f"mini corpus: split '{bad[0]}' has size {sizes[bad[0]]}; give at least 1.")
    splits: dict[str, list[Sentence]] = {}
    seen: set[str] = set()
    missing: set[str] = set()
    for split in sorted(sizes, key=lambda name: (name == TRAIN, name)):
        rng = Random(f"{seed} {split}")
        chosen = splits[split] = list[Sentence]()
        while len(chosen) < sizes[split]:
            new = sentence(rng)
            room = sizes[split] - len(chosen) > len(missing) or split != TRAIN
            if new.en in seen or not (room or missing & new.words()):
                continue
            seen.add(new.en)
            chosen.append(new)
            missing = missing - new.words() if split == TRAIN else missing | new.words()
    return {split: splits[split] for split in sizes}


def sentence(rng: Random) -> Sentence:
    """Any sentence whose English has a number of words within LENGTH."""
    builders, weights = zip(*_BUILDERS.items(), strict=True)
    while True:
        parts = rng.choices(builders, weights)[0](rng)
        if LENGTH[0] <= len(" ".join(parts.en).replace("-", " ").split()) <= LENGTH[1]:
            whole = Sentence("", "", "", parts).run(0, len(parts.en))
            return Sentence(whole.en, whole.de, whole.ja, parts)


# ---- sentences: each builder returns the clauses of one ----

Texts = tuple[str, str]
_BECAUSE = (("because", "weil", "ので"), ("because", "weil", "ので"), ("although", "obwohl", "のに"))


def _two(en: Texts, de: Texts, ja: Texts, whole: str = "") -> Parts:
    """Two clauses; whole: the Japanese of both, if it is not the one and then the other."""
    return Parts(en, de, {(0, 1): ja[0], (1, 2): ja[1], (0, 2): whole or "、".join(ja)})


def simple(rng: Random) -> Parts:
    """Yesterday evening, Anna had to call her brother. — Gestern Abend musste Anna ihren Bruder anrufen."""
    if rng.random() < 0.8:
        c = front(rng, action(rng, rng.choice(tuple(MOODS_OF)), detail=0.8))
    else:
        c = front(rng, happening(rng, rng.choice(("past", "future"))))
    return Parts((english(c),), (german_main(c),), {(0, 1): japanese(c)})


def _same(sub: Clause, main: Clause) -> bool:
    """Whether the second subject is the first one again; Japanese then leaves it out."""
    return sub.subject in (main.subject, PRONOUNS.get(main.subject.agree))


def reason(rng: Random) -> Parts:
    """... because she had to work yesterday. — ..., weil sie gestern arbeiten musste."""
    tense = rng.choice(("past", "past", "future"))
    main = front(rng, action(rng, tense))
    because = _because(rng, main, tense)
    return _two(
        (english(main), because.en),
        (f"{german_main(main)},", because.de),
        (japanese(main), because.after),
        because.before + "、" + japanese(main),
    )


@dataclass(frozen=True)
class _Reason:
    """A reason, to be put after what it explains; `before`: Japanese puts it before that, unless that has been said."""

    en: str
    de: str
    before: str
    after: str


def _because(rng: Random, main: Clause, tense: str) -> _Reason:
    """A reason for `main`."""
    sub = circumstance(rng, tense, again(rng, main.subject))
    if main.time:
        sub = replace(sub, time=None)
    en, de, ja = rng.choice(_BECAUSE)
    topic = "" if _same(sub, main) else "が"
    before = japanese(sub, "attributive", topic) + ja
    after = before if en == "although" else japanese(sub, "plain", topic) + "からです"
    return _Reason(f"{en} {english(sub)}", german_sub(sub, de), before, after)


def condition(rng: Random) -> Parts:
    """If Peter is ill, he will stay at home. — Wenn Peter krank ist, wird er zu Hause bleiben."""
    sub = state(rng, "now") if rng.random() < 0.6 else happening(rng, "now")
    main = action(rng, "future", again(rng, sub.subject))
    return _subordinate_first(sub, replace(main, time=None) if sub.time else main, "if", "wenn", "ta", "ら")


def at_that_time(rng: Random) -> Parts:
    """When my sister was in Berlin, she bought ... — Als meine Schwester in Berlin war, hat sie ... gekauft."""
    sub = Clause(somebody(rng), BE, "past", place=place_of(rng, "any"))
    main = action(rng, "past", again(rng, sub.subject))
    main = main if main.verb.has_direction or main.verb.at else replace(main, place=None)
    main = replace(main, time=None) if rng.random() < 0.5 else main
    return _subordinate_first(sub, main, "when", "als", "attributive", "時")


def sequence(rng: Random) -> Parts:
    """After Anna called her aunt, she ... — Nachdem Anna ihre Tante angerufen hatte, hat sie ...; before: bevor."""
    sub = action(rng, "past", verb=rng.choice([v for v in VERBS if v.en not in UNWANTED]), detail=0.3)
    main = replace(action(rng, "past", again(rng, sub.subject), detail=0.4), time=None)
    if rng.random() < 0.5:
        return _subordinate_first(replace(sub, mood="plup"), main, "after", "nachdem", "ta", "後で")
    return _subordinate_first(replace(sub, mood="past"), main, "before", "bevor", "dict", "前に")


def _subordinate_first(sub: Clause, main: Clause, en: str, de: str, form: str, ja: str) -> Parts:
    same = _same(main, sub)
    lead = f"{german_sub(sub, de)},"
    return _two(
        (f"{en} {english(sub)},", english(main)),
        (lead, german_main(main, lead).removeprefix(lead + " ")),
        (japanese(sub, form, "は" if same else "が") + ja, japanese(main, topic="" if same else "は")),
    )


def report(rng: Random) -> Parts:
    """My sister said that she would buy a coat. — Meine Schwester hat gesagt, dass sie einen Mantel kaufen wird."""
    said, speaker, tense = rng.choice(REPORTS), somebody(rng), rng.choice(("past", "future"))
    kind = rng.choices(("action", "state", "happening"), (70, 15, 15))[0]
    if kind == "action":
        content = action(rng, tense, again(rng, speaker), detail=0.4)
    else:
        content = state(rng, tense) if kind == "state" else happening(rng, tense)
    if said.mood == "past" and content.mood == "fut":
        content = replace(content, mood="would")
    main = Clause(speaker, said.verb, said.mood)
    en = english(main), f"{said.en} {english(content)}"
    de = f"{german_main(main)},", german_sub(content, said.de)
    ja = japanese(content, said.form, "" if _same(content, main) else "が") + said.ja
    first = _two(en, de, (japanese(main), ja), japanese(main, insert=ja))
    if rng.random() >= 0.35:
        return first
    because = _because(rng, content, tense)  # two subordinate clauses
    runs = {(1, 3): because.before + ja, (0, 3): japanese(main, insert=because.before + ja), (2, 3): because.after}
    return Parts((*en, because.en), (de[0], f"{de[1]},", because.de), {**first.ja, **runs})


def relative_subject(rng: Random) -> Parts:
    """The man who bought the car called me. — Der Mann, der das Auto gekauft hat, hat mich angerufen."""
    who = professional(rng)
    clause = replace(action(rng, "past", who, detail=0.3), gap="subject")
    german = f"{who.german('nom')}, {german_sub(clause, relative_pronoun(who, 'nom'))},"
    subject = replace(
        who, en=f"{who.en} who {english(clause)}", de=(german,) * 3, ja=japanese(clause, "plain") + who.ja
    )
    main = action(rng, rng.choice(("past", "future")), subject, detail=0.3)
    main = replace(main, time=None if clause.time else main.time)
    whole, topic = japanese(main), subject.ja + "は"
    return _two(
        (subject.en, english(main).removeprefix(subject.en + " ")),
        (german, german_main(main).removeprefix(german + " ")),
        (topic, whole.removeprefix(topic)),
        whole,
    )


def relative_object(rng: Random) -> Parts:
    """Anna read the book that Paul lost. — Anna hat das Buch gelesen, das Paul verloren hat."""
    kind = rng.choice(("goods", "read"))
    verbs = [v for v in VERBS if kind in v.objects.split()]
    adjective = rng.choice(ADJECTIVES[kind]) if rng.random() < 0.4 else None
    what = noun_phrase(rng.choice(NOUNS[kind]), "the", adjective)
    tense = rng.choice(("past", "future"))
    main = front(
        rng, action(rng, tense, verb=rng.choice([v for v in verbs if not v.to and v.en not in (*UNWANTED, "write")]))
    )
    main = replace(main, company=None, place=None, price=None, time=main.time if main.fronted else None)
    clause = action(rng, "past", again(rng, main.subject), rng.choice([v for v in verbs if v != main.verb]))
    if clause.subject == main.subject:
        return relative_object(rng)
    clause, main = replace(clause, gap="object", thing=what), replace(main, thing=what)
    ja = japanese(clause, "plain", "が") + what.ja
    return _two(
        (english(main), f"that {english(clause)}"),
        (f"{german_main(main)},", german_sub(clause, relative_pronoun(what, "acc"))),
        (japanese(main), ja + "です"),
        japanese(replace(main, thing=replace(what, ja=ja))),
    )


def purpose(rng: Random) -> Parts:
    """We went to the market to buy ten apples. — Wir sind zum Markt gegangen, um zehn Äpfel zu kaufen."""
    movements = [v for v in VERBS if v.has_direction]
    main = front(rng, action(rng, rng.choice(("past", "future")), verb=rng.choice(movements)))
    aims = [v for v in VERBS if v.objects and not v.has_direction and v.en not in UNWANTED]
    aim = action(rng, "past", main.subject, verb=rng.choice(aims), detail=0.0)
    aim = replace(aim, mood="inf", time=None, gap="subject", place=None)
    ja = japanese(aim, "dict", "") + "ために"
    return _two(
        (english(main), english(aim)),
        (f"{german_main(main)},", german_purpose(aim)),
        (japanese(main), ja),
        japanese(main, insert=ja),
    )


def coordination(rng: Random) -> Parts:
    """Two main clauses with "and" (und) or "but" (aber)."""
    tense = rng.choice(("past", "past", "future"))
    first = front(rng, action(rng, tense, detail=0.3))
    second = action(rng, tense, again(rng, first.subject), detail=0.3)
    second = replace(second, time=None)
    join = rng.choice(("and", "but"))
    if join == "and":  # the Japanese te form leaves the mood to the second verb
        first = replace(first, mood="past" if tense == "past" else "fut")
        second = replace(second, mood=first.mood)
    german = german_main(second)
    return _two(
        (f"{english(first)},", f"{join} {english(second)}"),
        (german_main(first), f"und {german}") if join == "and" else (f"{german_main(first)},", f"aber {german}"),
        (
            japanese(first, "te") if join == "and" else japanese(first) + "が",
            japanese(second, topic="" if _same(second, first) else "は"),
        ),
    )


_BUILDERS: dict[Callable[[Random], Parts], int] = {
    simple: 4,
    reason: 4,
    condition: 2,
    at_that_time: 2,
    sequence: 2,
    report: 6,
    relative_subject: 2,
    relative_object: 2,
    purpose: 2,
    coordination: 2,
}
