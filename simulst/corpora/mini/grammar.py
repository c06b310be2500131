"""Parallel English, German and Japanese sentences from one small typed grammar: the text of the mini corpus.

This file decides what is said: who can do what, when and where, and which clauses make a sentence. `clauses` decides
how it is said, and `lexicon` has the words. Each English sentence has one translation, so a trained model can reproduce
it word for word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from simulst.corpora.mini.clauses import (
    BE,
    IT,
    NP,
    PRONOUNS,
    Clause,
    english,
    english_number,
    english_ordinal,
    german_main,
    german_number,
    german_ordinal,
    german_purpose,
    german_sub,
    japanese,
    japanese_number,
    noun_phrase,
    relative_pronoun,
)
from simulst.corpora.mini.lexicon import (
    ADJECTIVES,
    CLOCK_WORDS,
    COUNTED,
    DAYS,
    EVENTS,
    MONTHS,
    NAMES,
    NOUNS,
    ONCE,
    PLACE_SETS,
    PLACES,
    RAIN_TIMES,
    REPORTS,
    STATES,
    UNWANTED,
    VERBS,
    Phrase,
    Verb,
)
from simulst.errors import SimulstError

LENGTH = (10, 26)  # English words in a sentence: 3 to 9 seconds
NUMBERS = 59  # the greatest number of things, euros or minutes
TRAIN = "train"
SUBSTANCES = ("drink", "language", "sport")  # nouns without article
MOODS_OF = {
    "past": ("past",) * 6 + ("had to", "could", "wanted"),
    "now": ("pres",) * 6 + ("must", "can"),
    "future": ("fut",) * 4 + ("must", "can", "want", "should"),
}


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


# ---- who, what, when, where ----


def somebody(rng: Random) -> NP:
    """A subject: a name, a pronoun, family, or somebody by profession."""
    kind = rng.choices(("name", "pronoun", "kin", "person"), (4, 3, 3, 4))[0]
    if kind == "name":
        name = rng.choice(NAMES)
        return NP(name.en, (name.de, name.de, name.de), name.ja, name.agree, name.agree)
    if kind == "pronoun":
        return PRONOUNS[rng.choice(tuple(PRONOUNS))]
    if kind == "kin":
        owner = rng.choice(("1s", "1s", "1p"))
        phrase = noun_phrase(rng.choice(NOUNS["kin"]), "own", owner=owner)
        return replace(phrase, ja=PRONOUNS[owner].ja + "の" + phrase.ja)
    return professional(rng)


def professional(rng: Random) -> NP:
    adjective = rng.choice(ADJECTIVES["person"]) if rng.random() < 0.3 else None
    return noun_phrase(rng.choice(NOUNS["person"]), "the", adjective)


def again(rng: Random, subject: NP) -> NP:
    """The same person as a pronoun, or somebody else."""
    return PRONOUNS[subject.agree] if subject.agree in PRONOUNS and rng.random() < 0.6 else somebody(rng)


def other_person(rng: Random, subject: NP) -> NP:
    """An object: somebody who is not the subject."""
    kind = rng.choices(("pronoun", "kin", "person"), (25, 35, 40))[0]
    if kind == "pronoun":
        first = subject.agree[0] == "1"
        return PRONOUNS[rng.choice([p for p in PRONOUNS if p != subject.agree and not (first and p[0] == "1")])]
    if kind == "kin":
        others = [noun for noun in NOUNS["kin"] if not subject.en.endswith(noun.en)]
        return noun_phrase(rng.choice(others), "own", owner=subject.agree)
    while (phrase := professional(rng)).en == subject.en:
        pass
    return phrase


def object_of(rng: Random, verb: Verb, subject: NP) -> NP:
    kind = rng.choice(verb.objects.split())
    if kind == "somebody":
        return other_person(rng, subject)
    noun = rng.choice(NOUNS[kind])
    if kind in SUBSTANCES:
        return noun_phrase(noun, "")
    adjective = rng.choice(ADJECTIVES[kind]) if kind in ADJECTIVES and rng.random() < 0.5 else None
    if kind not in COUNTED:
        return noun_phrase(noun, "the", adjective)
    if verb.en not in UNWANTED and rng.random() < 0.3:
        return noun_phrase(noun, str(rng.randint(2, NUMBERS)), adjective)
    dets = ("the", "a", "this") if kind == "food" or verb.en == "buy" else ("the", "a", "this", "own")
    return noun_phrase(noun, rng.choice(dets), adjective, owner=subject.agree)


def clock(rng: Random) -> Phrase:
    """A time of day. German counts on to the next hour: half past seven is "halb acht"."""
    hour, minute = rng.randint(1, 12), rng.choice((0, 30, 15, 45, rng.randint(10, NUMBERS)))
    after = hour % 12 + 1
    de_hour = "ein" if hour == 1 else german_number(hour)
    if minute in CLOCK_WORDS:
        names = {"en": english_number(hour), "en_after": english_number(after), "de": german_number(hour)}
        names |= {"de_hour": de_hour, "de_after": german_number(after)}
        words = CLOCK_WORDS[minute]
        return Phrase(words.en.format(**names), words.de.format(**names), f"{japanese_number(hour)}時{words.ja}に")
    return Phrase(
        f"at {english_number(hour)} {english_number(minute)}",
        f"um {de_hour} Uhr {german_number(minute)}",
        f"{japanese_number(hour)}時{japanese_number(minute)}分に",
    )


def when(rng: Random, tense: str, exact: float = 0.35) -> Phrase:
    """A day that suits the tense ("past", "now", "future"), with probability `exact` with a time of day."""
    kind = rng.random() if tense != "now" else 1.0
    if kind < 0.2:
        day, month = rng.randint(1, 28), rng.randrange(12)
        return Phrase(
            f"on the {english_ordinal(day)} of {MONTHS[month].en}",
            f"am {german_ordinal(day)} {MONTHS[month].de}",
            f"{japanese_number(month + 1)}月{japanese_number(day)}日に",
        )
    if kind < 0.3:
        span = noun_phrase(rng.choice(NOUNS["time"]), str(rng.randint(2, 30)))
        if tense == "past":
            return Phrase(f"{span.en} ago", f"vor {span.german('dat')}", f"{span.count}前に")
        return Phrase(f"in {span.en}", f"in {span.german('dat')}", f"{span.count}後に")
    day_words = rng.choice(DAYS[tense])
    bare, join, particle = day_words.ja.split("/")
    if join == "-" or rng.random() >= exact:
        return Phrase(day_words.en, day_words.de, bare + particle)
    time = clock(rng)
    return Phrase(f"{day_words.en} {time.en}", f"{day_words.de} {time.de}", f"{bare}{join}{time.ja}")


def place_of(rng: Random, tag: str) -> Phrase:
    """A place of the set `tag`; "to TAG" asks for the way there."""
    place = PLACES[rng.choice(PLACE_SETS[tag.removeprefix("to ")])]
    if tag.startswith("to "):
        return Phrase(place.en_to, place.de_to, place.ja)
    return Phrase(place.en_in, place.de_in, place.ja)


# ---- clauses ----


def action(rng: Random, tense: str, subject: NP | None = None, verb: Verb | None = None, detail: float = 0.5) -> Clause:
    """Somebody does something. detail: how likely company and place are."""
    subject = subject or somebody(rng)
    verb, mood = _verb_and_mood(rng, tense, verb)
    c = Clause(subject, verb, mood, when(rng, tense) if tense == "now" or rng.random() < 0.75 else None)
    if verb.objects:
        c = replace(c, thing=object_of(rng, verb, subject))
    if verb.dative:
        c = replace(c, person=other_person(rng, subject))
    if verb.place and (verb.has_direction or verb.at or rng.random() < detail):
        c = replace(c, place=place_of(rng, verb.place))
    if verb.en in ("buy", "sell") and rng.random() < 0.35:
        n = rng.randint(2, NUMBERS)
        price = Phrase(
            f"for {english_number(n)} euros", f"für {german_number(n)} Euro", f"{japanese_number(n)}ユーロで"
        )
        c = replace(c, price=price)
    if verb.social and rng.random() < detail * 0.6 and not (c.thing and c.thing.agree in ("m", "f", "p")):
        c = replace(c, company=other_person(rng, subject))
    return c


def _verb_and_mood(rng: Random, tense: str, verb: Verb | None) -> tuple[Verb, str]:
    while True:
        chosen, mood = verb or rng.choice(VERBS), rng.choice(MOODS_OF[tense])
        if chosen.en in UNWANTED and chosen.en != "find" and mood not in ("past", "pres"):
            continue
        if verb or mood == "past" or not (chosen.en in UNWANTED or (mood == "pres" and chosen.en in ONCE)):
            return chosen, mood


def state(rng: Random, tense: str, subject: NP | None = None) -> Clause:
    """Somebody or something is so: "the hotel was full"; a person where one is given."""
    kind = "somebody" if subject else rng.choice(tuple(STATES))
    nouns, states = STATES[kind]
    if subject is None:
        subject = noun_phrase(rng.choice(nouns), "the") if nouns else somebody(rng) if kind == "somebody" else IT
    return Clause(subject, BE, "past" if tense == "past" else "pres", state=rng.choice(states))


def happening(rng: Random, tense: str) -> Clause:
    """A train leaves, a film begins, it rains: clauses without a person. "now" is a time to come."""
    verb = rng.choice(EVENTS)
    mood = {"past": "past", "now": "pres", "future": "fut"}[tense]
    if verb.subjects == "it":
        return Clause(IT, verb, mood, rng.choice(RAIN_TIMES[tense]))
    time = when(rng, "past" if tense == "past" else "future", exact=0.8)
    place = place_of(rng, verb.place) if verb.place and rng.random() < 0.5 else None
    return Clause(noun_phrase(rng.choice(NOUNS[verb.subjects]), "the"), verb, mood, time, place=place)


def _circumstance(rng: Random, tense: str, same: NP) -> Clause:
    """What may be the reason for something."""
    kind = rng.choices(("state", "their state", "action", "happening"), (25, 25, 35, 15))[0]
    if kind == "action":
        return action(rng, tense, same)
    if kind == "happening":
        return happening(rng, tense)
    return state(rng, tense, same if kind == "their state" else None)


def _front(rng: Random, c: Clause) -> Clause:
    return replace(c, fronted=c.time is not None and rng.random() < 0.4)


# ---- sentences: each builder returns the clauses of one ----

Texts = tuple[str, str]
_BECAUSE = (("because", "weil", "ので"), ("because", "weil", "ので"), ("although", "obwohl", "のに"))


def _two(en: Texts, de: Texts, ja: Texts, whole: str = "") -> Parts:
    """Two clauses; whole: the Japanese of both, if it is not the one and then the other."""
    return Parts(en, de, {(0, 1): ja[0], (1, 2): ja[1], (0, 2): whole or "、".join(ja)})


def simple(rng: Random) -> Parts:
    """Yesterday evening, Anna had to call her brother. — Gestern Abend musste Anna ihren Bruder anrufen."""
    if rng.random() < 0.8:
        c = _front(rng, action(rng, rng.choice(tuple(MOODS_OF)), detail=0.8))
    else:
        c = _front(rng, happening(rng, rng.choice(("past", "future"))))
    return Parts((english(c),), (german_main(c),), {(0, 1): japanese(c)})


def _same(sub: Clause, main: Clause) -> bool:
    """Whether the second subject is the first one again; Japanese then leaves it out."""
    return sub.subject in (main.subject, PRONOUNS.get(main.subject.agree))


def reason(rng: Random) -> Parts:
    """... because she had to work yesterday. — ..., weil sie gestern arbeiten musste."""
    tense = rng.choice(("past", "past", "future"))
    main = _front(rng, action(rng, tense))
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
    sub = _circumstance(rng, tense, again(rng, main.subject))
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
    main = _front(
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
    main = _front(rng, action(rng, rng.choice(("past", "future")), verb=rng.choice(movements)))
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
    first = _front(rng, action(rng, tense, detail=0.3))
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
