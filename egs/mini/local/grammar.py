"""Who can do what, when and where: the clauses of the mini corpus, from one small typed grammar.

`sentences` makes sentences of clauses, `clauses` decides how they are said, and `lexicon` has the words.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from clauses import (
    BE,
    IT,
    NP,
    PRONOUNS,
    Clause,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
    japanese_number,
    noun_phrase,
)
from lexicon import (
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
    STATES,
    UNWANTED,
    VERBS,
    Phrase,
    Verb,
)

NUMBERS = 59  # the greatest number of things, euros or minutes
SUBSTANCES = ("drink", "language", "sport")  # nouns without article
MOODS_OF = {
    "past": ("past",) * 6 + ("had to", "could", "wanted"),
    "now": ("pres",) * 6 + ("must", "can"),
    "future": ("fut",) * 4 + ("must", "can", "want", "should"),
}


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


def circumstance(rng: Random, tense: str, same: NP) -> Clause:
    """What may be the reason for something."""
    kind = rng.choices(("state", "their state", "action", "happening"), (25, 25, 35, 15))[0]
    if kind == "action":
        return action(rng, tense, same)
    if kind == "happening":
        return happening(rng, tense)
    return state(rng, tense, same if kind == "their state" else None)


def front(rng: Random, c: Clause) -> Clause:
    return replace(c, fronted=c.time is not None and rng.random() < 0.4)
