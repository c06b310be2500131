# ruff: noqa: SIM905
"""Clauses, and how to say them in English, German and Japanese: inflection and word order of the mini corpus.

A `Clause` says who does what, when and where, independently of language. Three renderers put it into words. They have
the word orders that make simultaneous translation hard. In German, subordinate clauses end with their verb, participles
and infinitives come last, separable verbs lose their prefix, and a main clause has its verb second. In Japanese, every
verb comes last, and a subordinate or relative clause comes before the clause or noun that it belongs to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lexicon import Noun, Phrase, Verb

# ---- numbers ----

_EN_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_EN_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_EN_ORDINALS |= {"twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}
_DE_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
).split()
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_JA_DIGITS = "〇一二三四五六七八九"


def english_number(n: int) -> str:
    """0 to 99 in words: "twenty-one"."""
    if n < 20:
        return _EN_ONES[n]
    return _EN_TENS[n // 10 - 2] + (f"-{_EN_ONES[n % 10]}" if n % 10 else "")


def english_ordinal(n: int) -> str:
    """1 to 99: "twenty-first"."""
    head, dash, last = english_number(n).rpartition("-")
    return head + dash + _EN_ORDINALS.get(last, last + "th")


def german_number(n: int) -> str:
    """0 to 99 in words: "einundzwanzig"."""
    if n < 20:
        return _DE_ONES[n]
    ones = "ein" if n % 10 == 1 else _DE_ONES[n % 10]
    return (f"{ones}und" if n % 10 else "") + _DE_TENS[n // 10 - 2]


def german_ordinal(n: int) -> str:
    """1 to 99 in the dative after "am": "einundzwanzigsten"."""
    irregular = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    return irregular.get(n) or german_number(n) + ("ten" if n < 20 else "sten")


def japanese_number(n: int) -> str:
    """1 to 99 in kanji: "二十一"."""
    tens, ones = divmod(n, 10)
    return (_JA_DIGITS[tens] if tens > 1 else "") + ("十" if tens else "") + (_JA_DIGITS[ones] if ones else "")


# ---- noun phrases ----

CASES = ("nom", "acc", "dat")
_DEFINITE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die den"}
_STRONG = {"m": "er en em", "f": "e e er", "n": "es es em", "p": "e e en"}  # "dieser", and adjectives without article
_MIXED = {"m": "er en en", "f": "e e en", "n": "es es en", "p": "en en en"}  # adjectives after "ein", "mein"
_WEAK = {"m": "e en en", "f": "e e en", "n": "e e en", "p": "en en en"}  # adjectives after "der", "dieser"
_EIN = {"m": "_ en em", "f": "e e er", "n": "_ _ em", "p": "e e en"}


@dataclass(frozen=True)
class NP:
    """A noun phrase in all cases.

    agree: "1s" I, "1p" we, "m" he, "f" she, "n" it, "p" they.
    gender: German gender of the noun.
    """

    en: str
    de: tuple[str, str, str]
    ja: str
    agree: str
    gender: str = "m"
    count: str = ""  # Japanese number and counter, which follow the particle
    en_object: str = ""  # "him"
    pronoun: bool = False

    def german(self, case: str) -> str:
        return self.de[CASES.index(case)]


def _pronoun(en: str, en_object: str, de: str, ja: str, agree: str) -> NP:
    nom, acc, dat = de.split()
    return NP(en, (nom, acc, dat), ja, agree, en_object=en_object, pronoun=True)


PRONOUNS = {
    "1s": _pronoun("I", "me", "ich mich mir", "私", "1s"),
    "1p": _pronoun("we", "us", "wir uns uns", "私たち", "1p"),
    "m": _pronoun("he", "him", "er ihn ihm", "彼", "m"),
    "f": _pronoun("she", "her", "sie sie ihr", "彼女", "f"),
    "p": _pronoun("they", "them", "sie sie ihnen", "彼ら", "p"),
}
IT = NP("it", ("es", "es", "ihm"), "", "n", "n")
_OWN = {"1s": ("my", "mein"), "1p": ("our", "unser"), "m": ("his", "sein"), "f": ("her", "ihr"), "p": ("their", "ihr")}


def noun_phrase(noun: Noun, det: str, adjective: Phrase | None = None, plural: bool = False, owner: str = "1s") -> NP:
    """Inflect. det: "the", "a", "this", "own" (of `owner`, an `agree`), "" or a number from 2 as digits."""
    number = int(det) if det.isdigit() else 0
    plural = plural or number > 1 or noun.gender == "p"
    gender = "p" if plural else noun.gender
    words = [adjective.en] if adjective else []
    words.append(noun.en_plural if plural else noun.en)
    article = {"own": _OWN[owner][0], "": "", "a": "an" if words[0][0] in "aeiou" else "a"}.get(det, det)
    words.insert(0, english_number(number) if number else article)
    cases = []
    for i, case in enumerate(CASES):
        if det == "the":
            head, table = _DEFINITE[gender].split()[i], _WEAK
        elif det == "this":
            head, table = "dies" + _STRONG[gender].split()[i], _WEAK
        elif det in ("a", "own"):
            stem = "ein" if det == "a" else _OWN[owner][1]
            head, table = stem + _EIN[gender].split()[i].strip("_"), _MIXED
        else:
            head, table = german_number(number) if number else "", _STRONG
        inflected = adjective.de + table[gender].split()[i] if adjective else ""
        name = noun.de_plural if plural else noun.de
        if plural and case == "dat" and name[-1] not in "ns":
            name += "n"
        cases.append(" ".join(filter(None, (head, inflected, name))))
    ja = (adjective.ja if adjective else "") + noun.ja
    if det == "own" and noun.kind == "kin":  # one's own family has a plain word, other people's a polite one
        ja = noun.ja if owner in ("1s", "1p") else noun.ja_polite
    elif det in ("own", "this"):
        ja = {"own": "自分の", "this": "この"}[det] + ja
    count = japanese_number(number) + noun.counter if number else ""
    agree = "p" if plural else noun.agree
    return NP(" ".join(filter(None, words)), (cases[0], cases[1], cases[2]), ja, agree, gender, count)


def relative_pronoun(phrase: NP, case: str) -> str:
    """ "der", "die", "das", "den" (nominative and accusative)."""
    return _DEFINITE[phrase.gender].split()[CASES.index(case)]


# ---- clauses ----


@dataclass(frozen=True)
class Clause:
    """Who does what, when, with whom and where.

    mood: one of MOODS.
    state: what the subject is, with the verb BE.
    fronted: the time comes first in the main clause.
    gap: "subject" or "object", which a relative clause leaves out.
    """

    subject: NP
    verb: Verb
    mood: str = "past"
    time: Phrase | None = None
    person: NP | None = None  # dative object: to whom
    thing: NP | None = None  # the object
    company: NP | None = None
    place: Phrase | None = None
    price: Phrase | None = None
    state: Phrase | None = None
    fronted: bool = False
    gap: str = ""


# Mood: English for he and for I, we, they; German for ich, er, wir; Japanese stem, polite ending, plain ending.
MOODS = {
    "pres": ("", "", "", "", "", ""),
    "inf": ("to", "to", "", "", "", ""),
    "past": ("", "", "habe hat haben", "", "", ""),
    "plup": ("", "", "hatte hatte hatten", "", "", ""),
    "fut": ("will", "will", "werde wird werden", "", "", ""),
    "would": ("would", "would", "werde wird werden", "", "", ""),
    "must": ("has to", "have to", "muss muss müssen", "nai", "なければなりません", "なければならない"),
    "had to": ("had to", "had to", "musste musste mussten", "nai", "なければなりませんでした", "なければならなかった"),
    "can": ("can", "can", "kann kann können", "dict", "ことができます", "ことができる"),
    "could": ("could", "could", "konnte konnte konnten", "dict", "ことができました", "ことができた"),
    "should": ("should", "should", "sollte sollte sollten", "dict", "べきです", "べきだ"),
    "want": ("wants to", "want to", "will will wollen", "masu", "たがっています", "たがっている"),
    "wanted": ("wanted to", "wanted to", "wollte wollte wollten", "masu", "たがっていました", "たがっていた"),
}
_FIRST_PERSON = {"want": ("たいです", "たい"), "wanted": ("たかったです", "たかった")}  # other people's wishes are seen
_SEIN = {"pres": "bin ist sind", "past": "war war waren", "plup": "gewesen"}
_PAST = ("past", "plup")
BE = Verb("be", "was", "", "sein", "ist", "gewesen", "sein", "いる", "", "")


def english(c: Clause) -> str:
    third = c.subject.agree in ("m", "f", "n")
    auxiliary = MOODS[c.mood][0 if third else 1]
    if auxiliary:
        verb = f"{auxiliary} {c.verb.en}"
    elif c.verb is BE:
        past, plural = c.mood in _PAST, c.subject.agree in ("1p", "p")
        verb = ("were" if plural else "was") if past else {"1s": "am"}.get(c.subject.agree, "are" if plural else "is")
    elif c.mood in _PAST:
        verb = c.verb.past
    else:
        verb = _third_person(c.verb.en) if third else c.verb.en
    thing = "" if c.gap == "object" or not c.thing else c.thing.en_object or c.thing.en
    person = (c.person.en_object or c.person.en) if c.person else ""
    objects = [thing, f"to {person}"] if person and c.verb.to else [person, thing]
    words = ["" if c.gap == "subject" else c.subject.en, verb, *objects, c.state.en if c.state else ""]
    words += [f"with {c.company.en_object or c.company.en}"] if c.company else []
    words += [phrase.en for phrase in (c.place, c.price, None if c.fronted else c.time) if phrase]
    lead = f"{c.time.en}, " if c.fronted and c.time else ""
    return lead + " ".join(filter(None, words))


def _third_person(verb: str) -> str:
    first, *rest = verb.split()  # "look for"
    if re.search(r"(s|sh|ch|x|o)$", first):
        first += "es"
    else:
        first = first[:-1] + "ies" if re.search(r"[^aeiou]y$", first) else first + "s"
    return " ".join([first, *rest])


def german_main(c: Clause, first: str = "") -> str:
    """A main clause: verb second, after `first` (a subordinate clause), the fronted time or the subject."""
    finite, end = _german_verb(c)
    subject = c.subject.german("nom")
    lead = first or (c.time.de if c.fronted and c.time else "")
    words = [lead, finite, subject] if lead else [subject, finite]
    return " ".join(filter(None, [*words, *_middle(c), end]))


def german_sub(c: Clause, conjunction: str) -> str:
    """A subordinate clause: verb last; a separable verb stays one word. `conjunction` may be a relative pronoun."""
    finite, end = _german_verb(c)
    subject = "" if c.gap == "subject" else c.subject.german("nom")
    verbs = [end + finite] if c.mood == "pres" and c.verb.prefix else [end, finite]
    return " ".join(filter(None, [conjunction, subject, *_middle(replace(c, fronted=False)), *verbs]))


def german_purpose(c: Clause) -> str:
    """um ... zu with the infinitive: "um seine Mutter anzurufen"."""
    v = c.verb
    return " ".join(["um", *_middle(c), f"{v.prefix}zu{v.inf}" if v.prefix else f"zu {v.inf}"])


def _german_verb(c: Clause) -> tuple[str, str]:
    """The finite verb, and the end of the clause: a prefix, participle, infinitive or nothing."""
    v, person = c.verb, {"1s": 0, "1p": 2, "p": 2}.get(c.subject.agree, 1)
    if v is BE and c.mood in ("pres", "past"):
        return _SEIN[c.mood].split()[person], ""
    if c.mood == "pres":
        return ((v.inf[:-2] + "e", v.third, v.inf)[person], v.prefix)
    if c.mood in _PAST:
        forms = MOODS[c.mood][2]
        if v.aux == "sein":
            forms = _SEIN["pres"] if c.mood == "past" else _SEIN["past"]
        return forms.split()[person], v.participle
    return MOODS[c.mood][2].split()[person], v.prefix + v.inf


def _middle(c: Clause) -> list[str]:
    """The words between the verbs: pronouns, when, to whom, with whom, where, for how much, what."""
    person = c.person.german("dat") if c.person else ""
    thing = c.thing.german(c.verb.case) if c.thing and c.gap != "object" else ""
    if c.verb.de_prep and thing:
        thing = contract(f"{c.verb.de_prep} {thing}")
    early = [person] if c.person and c.person.pronoun else []
    early += [thing] if c.thing and c.thing.pronoun and not c.verb.de_prep else []
    words = [*early, c.time.de if c.time and not c.fronted else "", "" if person in early else person]
    words += [f"mit {c.company.german('dat')}" if c.company else "", c.place.de if c.place else ""]
    words += [c.price.de if c.price else "", "" if thing in early else thing, c.state.de if c.state else ""]
    return [word for word in words if word]


def contract(text: str) -> str:
    """Preposition and article in one word: "an dem Kurs" → "am Kurs"."""
    for long, short in {"an dem": "am", "in dem": "im", "von dem": "vom", "zu dem": "zum", "zu der": "zur"}.items():
        if text.startswith(long + " "):
            return short + text[len(long) :]
    return text


# ---- Japanese ----

_GODAN = {
    "う": "わいっ",
    "く": "かきい",
    "ぐ": "がぎい",
    "す": "さしし",
    "つ": "たちっ",
    "ぶ": "ばびん",
    "む": "まみん",
}
_GODAN |= {"る": "らりっ"}


def conjugate(verb: str) -> dict[str, str]:
    """Stems and plain forms: "nai", "masu", "dict", "ta", "te". "食べ・る" marks a verb that only loses its る."""
    word = verb.replace("・", "")
    if verb.endswith("する"):
        nai, masu, ta = word[:-2] + "し", word[:-2] + "し", word[:-2] + "した"
    elif verb.endswith("くる"):
        nai, masu, ta = word[:-2] + "こ", word[:-2] + "き", word[:-2] + "きた"
    elif "・" in verb or word.endswith("いる"):
        nai, masu, ta = word[:-1], word[:-1], word[:-1] + "た"
    else:
        a, i, sound = list(_GODAN[word[-1]])
        nai, masu = word[:-1] + a, word[:-1] + i
        ta = word[:-1] + ("っ" if word.endswith("行く") else sound) + ("だ" if word[-1] in "ぐぶむ" else "た")
    return {"nai": nai, "masu": masu, "dict": word, "ta": ta, "te": ta[:-1] + {"た": "て", "だ": "で"}[ta[-1]]}


def japanese_verb(c: Clause, form: str) -> str:
    """form: "polite", "plain", "attributive" (before ので, こと), "whether" (before か), "ta", "dict" or "te"."""
    past = c.mood in _PAST or form == "ta"
    if c.state:
        return _japanese_state(c.state.ja, past, form)
    forms = conjugate(c.verb.ja)
    _, _, _, stem, polite, plain = MOODS[c.mood]
    if form in ("ta", "dict", "te"):
        return forms[form]
    if stem:
        if c.subject.agree in ("1s", "1p"):
            polite, plain = _FIRST_PERSON.get(c.mood, (polite, plain))
        ending = polite if form == "polite" else plain
        return forms[stem] + re.sub("べきだ$", {"attributive": "べきな", "whether": "べき"}.get(form, "べきだ"), ending)
    if form == "polite":
        return forms["masu"] + ("ました" if past else "ます")
    return forms["ta" if past else "dict"]


def _japanese_state(state: str, past: bool, form: str) -> str:
    """An adjective or a verb of state: "高い", "有名な", "病気の", "疲れている", "長すぎ・る"."""
    polite = form == "polite"
    if "・" in state or state.endswith("いる"):
        forms = conjugate(state)
        return forms["masu"] + ("ました" if past else "ます") if polite else forms["ta" if past else "dict"]
    if state.endswith("い"):
        return (state[:-1] + "かった" if past else state) + ("です" if polite else "")
    word = state[:-1] if state[-1] in "なの" else state
    if polite:
        return word + ("でした" if past else "です")
    return word + ("だった" if past else {"attributive": "な", "whether": ""}.get(form, "だ"))


def japanese(c: Clause, form: str = "polite", topic: str = "は", insert: str = "") -> str:
    """A Japanese clause: verb last.

    topic: the subject's particle; "" leaves the subject out.
    insert: a clause after the time.
    """
    parts = [f"{c.time.ja}、"] if c.fronted and c.time else []
    if topic and c.subject.ja and c.gap != "subject":
        parts.append(c.subject.ja + topic)
    parts += [c.time.ja] if c.time and not c.fronted else []
    parts += [insert, f"{c.company.ja}と" if c.company else "", _place(c)]
    parts += [c.price.ja if c.price else "", f"{c.person.ja}に" if c.person else ""]
    if c.thing and c.gap != "object":
        parts.append(c.thing.ja + c.verb.particle + c.thing.count)
    parts.append(c.verb.particle if c.subject is IT else "")  # "rain falls" for "it rains"
    return "".join(parts) + japanese_verb(c, form)


def _place(c: Clause) -> str:
    return "" if not c.place else c.place.ja + ("に" if c.verb.has_direction or c.verb is BE or c.verb.at else "で")
