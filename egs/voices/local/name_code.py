"""Finds what the words of the code of Beneath a Steel Sky's texts stand for, and keeps the table (`sky_code.tsv`).

Three kinds of evidence, which the table's column `how` tells:

speech     EM is sure of it (`derive_code.learn_words`)
words      a letter: most of the words that it stands in are in a language's list of words, and with any other letter
           far fewer are (`name_letters`); evidence: so many of how many words, and of the next best letter
reading    the remaining punctuation and figures, by what the texts say (`READ`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive_code import END as END_WORD
from derive_code import complete_tree, learn_words, sure_words
from prefix_code import END, PrefixCode
from simulst.errors import SimulstError

TABLE = Path(__file__).with_name("sky_code.tsv")
SPELLED = {END: "<end>", " ": "<space>"}
UNKNOWN = "\ufffd"

OPEN = "\0"
SAMPLE = 400  # words that a name is tried on
LISTED = 0.35  # the part of them that has to be listed; names of people and rare forms are not

READ = {
    ".": ("01100", "ends most messages, heard as a full stop"),
    "!": ("1101100", "ends messages that are shouted"),
    ",": ("1110101", "before a space, heard as a comma"),
    "-": ("111101001", "between spaces or parts of words (ID-kort, MICRO-ORGASMES)"),
    ":": ("1111110011", "after FILE, SIZE, DESIGN"),
    "`": ("111111100001", "opens what ' closes (called `Reich'); the Spanish text has it on both sides"),
    '"': ("111111110110", "on both sides of names in Italian and Portuguese"),
    "¡": ("1111101101", "only Spanish: opens sentences that end in !"),
    "¿": ("1111110001", "only Spanish: opens sentences that end in ?"),
    "(": ("1111111111001", "opens (page 6 of your manual)"),
    ")": ("11111111110100", "closes it"),
    "&": ("1111111110000", "between the names of the credits, R&M"),
    "0": ("111111100100", "first of the list 0 to 9 in section 0, messages 321 to 330, and of the disks in section 7"),
    "1": ("11111110011", "second of both; a 100 W bulb, 1 adult"),
    "2": ("11111110001", "third of both"),
    "3": ("111111110000", "fourth of both; a 30 mm wrench, heard as thirty"),
    "4": ("111111110011", "fifth of both; WD40"),
    "5": ("1111111110010", "sixth of both"),
    "6": ("1111111110011", "seventh of both"),
    "7": ("11111111110001", "eighth of both"),
    "8": ("1111111101001", "ninth of both"),
    "9": ("111111110001", "tenth of both; Copyright 1994"),
    "$": ("11111111110110", "before sums: a fine, a balance"),
    "/": ("111111111111000", "in reference numbers; FILE unreadable / format unrecognised"),
    "%": ("111111111111001", "after shares of gases: 96% ionised"),
    "*": ("11111111111101", "uncertain: only around notes such as unused, never in a spoken line"),
    UNKNOWN: ("111111111111111", "three times, where a character is broken (CEIA ? LUZ); lines with it are left out"),
}
"""Character → its code word and why it is that."""


@dataclass(frozen=True)
class Named:
    """A word's letter, and in how many of the words that hold it this letter and the next best give a listed word."""

    letter: str
    hits: int
    next_hits: int
    words: int


def name_letters(
    messages: Mapping[str, Sequence[Sequence[str]]],
    known: Mapping[str, str],
    lists: Mapping[str, Collection[str]],
) -> dict[str, Named]:
    """What letters the words of the code are that are not known: code word → its letter and the evidence.

    messages: language → messages, each a sequence of code words without END. known: code word → character, the space
    among them. lists: language → words. A letter is named when it is the only open one in enough of the
    words that it stands in, most of these are then listed, and no other letter does half as well. A written word has
    small letters, capitals, or a capital and small letters, or else it is not listed.
    """
    names = dict(known)
    found: dict[str, Named] = {}
    lists = {language: {word.lower() for word in words} for language, words in lists.items()}
    letters = sorted({c for words in lists.values() for word in words for c in word if c.isalpha() and ord(c) < 0x100})
    letters += [c.upper() for c in letters if len(c.upper()) == 1 and c.upper() != c]
    while True:
        best: list[tuple[str, Named]] = []
        free = [letter for letter in letters if letter not in names.values()]
        for code, words in _words_with_one_open(messages, names).items():
            sample = words[:SAMPLE]
            ranked = sorted(
                ((sum(_listed(lists[la], text.replace(OPEN, c)) for la, text in sample), c) for c in free), reverse=True
            )
            (hits, letter), (next_hits, _) = ranked[:2]
            if hits >= max(2, LISTED * len(sample)) and hits > 2 * next_hits:
                best.append((code, Named(letter, hits, next_hits, len(sample))))
        if not best:
            return found
        # The surest ones help to name the others.
        best.sort(key=lambda item: item[1].hits / item[1].words + min(item[1].words, 20), reverse=True)
        for code, named in best[:5]:
            if named.letter not in names.values():
                names[code] = named.letter
                found[code] = named


def _words_with_one_open(
    messages: Mapping[str, Sequence[Sequence[str]]], names: Mapping[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """Code word without a name → language and text of each different word in which it alone has none (OPEN)."""
    words: dict[str, dict[tuple[str, str], None]] = {}
    space = next(code for code, character in names.items() if character == " ")
    for language, coded in messages.items():
        for message in coded:
            text, open_codes = "", set()
            for code in (*message, space):
                character = names.get(code)
                if character is None:
                    open_codes.add(code)
                    text += OPEN
                elif character.isalpha():
                    text += character
                else:
                    if len(open_codes) == 1 and len(text) > 2:
                        words.setdefault(open_codes.pop(), {})[language, text] = None
                    text, open_codes = "", set()
    return {code: list(found) for code, found in words.items()}


def _listed(words: Collection[str], text: str) -> bool:
    return (text.islower() or text.isupper() or text.istitle()) and text.lower() in words


# ---- the table ----


@dataclass(frozen=True)
class Row:
    """A line of the table: a code word, its character (END: the end), its uses in all languages, how it was found."""

    code: str
    character: str
    uses: int
    how: str
    evidence: str


def derive_table(
    messages: Mapping[str, Sequence[str]],
    heard: Sequence[tuple[str, str]],
    lists: Mapping[str, Collection[str]],
) -> list[Row]:
    """The whole table, shortest words first.

    messages: language → bits of its messages. heard: English messages' bits up to END, and what was heard. lists: see
    `name_letters`.
    Raises SimulstError: words that nothing names, or messages that do not end where they should.
    """
    learned = learn_words(heard)
    known = sure_words(learned)
    codes, wrong = complete_tree([bits for each in messages.values() for bits in each], known)
    if wrong:
        raise SimulstError(f"{wrong} messages do not end where their lengths say; the words of the code are not right.")
    code = PrefixCode({word: END if word == END_WORD else word for word in codes})
    coded = {la: [code.decode(bits, la).symbols for bits in each] for la, each in messages.items()}
    uses = Counter(word for each in coded.values() for message in each for word in message)
    named = name_letters(coded, known, lists)
    rows = [Row(END_WORD, END, sum(map(len, coded.values())), "speech", "ends every message")]
    for word, character in known.items():
        _, p, count = learned[character]
        rows.append(Row(word, character, uses[word], "speech", f"probability {p:.2f}, {count:.0f} times heard"))
    for word, letter in named.items():
        evidence = f"{letter.hits} of {letter.words} words, next best {letter.next_hits}"
        rows.append(Row(word, letter.letter, uses[word], "words", evidence))
    done = {row.code for row in rows}
    for character, (word, why) in READ.items():
        if word in codes and word not in done:
            rows.append(Row(word, character, uses[word], "reading", why))
    if left := sorted(set(codes) - {row.code for row in rows}):
        raise SimulstError(f"nothing names the code words {', '.join(left)}; read the texts and add them to READ.")
    return sorted(rows, key=lambda row: (len(row.code), row.code))


def heard_lines(messages: Mapping[int, Sequence[str]], heard: Mapping[str, str]) -> list[tuple[str, str]]:
    """The bits up to END and what was heard of each line, those with the shortest bits first.

    messages: section → its messages' bits. heard: a line's name (`steel_sky`) → text.
    """
    pairs = []
    for name, text in heard.items():
        section, number = map(int, name.split("-")[1:])
        coded = messages.get(section, ())
        bits = coded[number].rstrip("0") + END_WORD[1:] if number < len(coded) else ""
        if bits.endswith(END_WORD):
            pairs.append((bits.removesuffix(END_WORD), text))
    return sorted(pairs, key=lambda pair: len(pair[0]))


def format_table(rows: Sequence[Row]) -> str:
    """The table as text between tabs."""
    lines = ["code\tcharacter\tuses\thow\tevidence"]
    for row in rows:
        character = SPELLED.get(row.character, row.character)
        lines.append(f"{row.code}\t{character}\t{row.uses}\t{row.how}\t{row.evidence}")
    return "\n".join(lines) + "\n"


def parse_table(text: str) -> list[Row]:
    """The rows of a table. Raises SimulstError: a line that is none."""
    spelled = {shown: character for character, shown in SPELLED.items()}
    rows = []
    for number, line in enumerate(text.splitlines()[1:], start=2):
        fields = line.split("\t")
        if len(fields) != 5 or not fields[2].isdigit() or set(fields[0]) - {"0", "1"}:
            raise SimulstError(f"{TABLE}, line {number}: not code, character, uses, how, evidence; fix the line.")
        rows.append(Row(fields[0], spelled.get(fields[1], fields[1]), int(fields[2]), fields[3], fields[4]))
    return rows


def sky_code() -> PrefixCode:
    """The code of the game's texts, from the table."""
    return PrefixCode({row.code: row.character for row in parse_table(TABLE.read_text(encoding="utf-8"))})
