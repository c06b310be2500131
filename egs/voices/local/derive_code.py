"""Finds the words of the code of Beneath a Steel Sky's texts from the game's own data: speech, and the texts' bits.

1. `learn_words`: recognised English speech is aligned with the bits of its line by EM (the recursions of Baum et al.
   1970), as in a cipher of which some plain text is roughly known. That gives the words of the common letters.
2. `complete_tree`: where does a word end? With a wrong answer some messages end where their length does not say so;
   with the right one none do. So the tree is completed from its most frequent open node to the rarest.

What the other words stand for: `name_code`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numba import njit
from tqdm import tqdm

LONGEST = 11  # bits of a word that EM considers
SHORTEST = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALPHABET = LETTERS + LETTERS.upper() + " .,!?'-"
# How often English characters come, in 1000: what lengths of words to begin with.
COMMON = dict(
    zip(
        " etaoinshrdlcumwfgypbvk",
        (170, 95, 66, 61, 57, 52, 52, 48, 46, 44, 31, 30, 21, 21, 19, 18, 17, 15, 15, 14, 11, 8, 6),
        strict=True,
    )
) | {".": 50, ",": 12, "!": 10, "?": 10, "'": 12}
OTHERS = 2
INSERTION, DELETION = 0.05, 0.03  # of a character that is written and not heard, and the other way round
LONGEST_LINE = 60  # characters; longer lines cost time and lose precision

END = "100000"
"""Ends each message: after it come only the zeros that fill up its last unit."""
LONGEST_NODE = 18  # bits


@njit(cache=True)
def _expect(bits, this, other, p_other, p, counts, insertion, deletion):  # type: ignore[no-untyped-def]
    """Add the expected uses of words by characters in one pair to `counts`; returns the pair's probability.

    bits: shape (n,). this, other: numbers of the characters heard, shape (m,), and of what each may be written as with
    probability p_other. p, counts: shape (characters, words); a word's number is its bits after a 1.
    A character may have been heard that is not written, or the other way round (a word of any bits).
    """
    n, m = bits.size, this.size
    forward = np.zeros((m + 1, n + 1))
    backward = np.zeros((m + 1, n + 1))
    forward[0, 0] = 1.0
    for j in range(m + 1):
        for i in range(n + 1):
            f = forward[j, i]
            if f == 0.0:
                continue
            if j < m:
                forward[j + 1, i] += f * deletion
            word = 1
            for length in range(1, LONGEST + 1):
                if i + length > n:
                    break
                word = word << 1 | bits[i + length - 1]
                if length < SHORTEST:
                    continue
                if j < m:
                    q = (1 - p_other[j]) * p[this[j], word] + p_other[j] * p[other[j], word]
                    forward[j + 1, i + length] += f * q
                if length < 9:
                    forward[j, i + length] += f * insertion / (6 << length)
    whole = forward[m, n]
    if whole <= 0.0:
        return whole
    backward[m, n] = 1.0
    for j in range(m, -1, -1):
        for i in range(n, -1, -1):
            b = backward[j, i]
            if j < m:
                b += deletion * backward[j + 1, i]
            word = 1
            for length in range(1, LONGEST + 1):
                if i + length > n:
                    break
                word = word << 1 | bits[i + length - 1]
                if length < SHORTEST:
                    continue
                if j < m:
                    after = backward[j + 1, i + length]
                    q1 = (1 - p_other[j]) * p[this[j], word]
                    q2 = p_other[j] * p[other[j], word]
                    b += after * (q1 + q2)
                    use = forward[j, i] * after / whole
                    if use > 0.0:
                        counts[this[j], word] += use * q1
                        counts[other[j], word] += use * q2
                if length < 9:
                    b += backward[j, i + length] * insertion / (6 << length)
            backward[j, i] = b
    return whole


def learn_words(lines: Sequence[tuple[str, str]], rounds: int = 15) -> dict[str, tuple[str, float, float]]:
    """What character has which word: character → word, its probability and its expected number.

    lines: the bits of a message up to its END, and what was heard.
    """
    number = {character: i for i, character in enumerate(ALPHABET)}
    pairs = []
    for message, heard in lines:
        text = "".join(c for c in heard.replace("’", "'") if c in number)
        if not (SHORTEST <= len(text) <= LONGEST_LINE and 3.5 < len(message) / len(text) < 7):
            continue
        this = np.array([number[c] for c in text])
        other = np.array([number[c.swapcase()] for c in text])
        # Capitals mark emphasis, which is not heard.
        p_other = np.array([0.0 if not c.isalpha() else 0.3 if c.islower() else 0.15 for c in text])
        pairs.append((np.array([int(bit) for bit in message]), this, other, p_other))
    p = _first_guess()
    for _ in tqdm(range(rounds), "EM", disable=None):
        counts = np.zeros_like(p)
        for bits, this, other, p_other in pairs:
            _expect(bits, this, other, p_other, p, counts, INSERTION, DELETION)
        used = counts + 0.02 * p
        used *= used / (used.sum(axis=0) + 1e-12)  # a word has one character: they compete for it
        p = used / (used.sum(axis=1, keepdims=True) + 1e-300)
    best = p.argmax(axis=1)
    return {c: (bin(best[i])[3:], float(p[i, best[i]]), float(counts[i].sum())) for c, i in number.items()}


def _first_guess() -> np.ndarray:
    """Words of a likely length for a character, all alike: shape (characters, 2^(LONGEST+1))."""
    p = np.zeros((len(ALPHABET), 2 << LONGEST))
    for i, character in enumerate(ALPHABET):
        count = COMMON.get(character.lower(), OTHERS) * (0.15 if character.isupper() else 1)
        for length in range(SHORTEST, LONGEST + 1):
            off = length + math.log2(max(count, 0.5) / 1000)
            p[i, 1 << length : 2 << length] = math.exp(-0.5 * (off / 1.3) ** 2) / (1 << length)
    return p / p.sum(axis=1, keepdims=True)


def sure_words(learned: Mapping[str, tuple[str, float, float]], least: float = 0.9, uses: int = 15) -> dict[str, str]:
    """Word → character, of those that EM is sure of; of words that contradict each other the shorter one."""
    sure: dict[str, str] = {}
    for character, (word, p, count) in sorted(learned.items(), key=lambda item: (len(item[1][0]), -item[1][1])):
        if p > least and count > uses and not any(word.startswith(w) or w.startswith(word) for w in (*sure, END)):
            sure[word] = character
    return sure


# ---- the tree ----


def complete_tree(messages: Collection[str], known: Collection[str]) -> tuple[list[str], int]:
    """All words of the code, and how many of the messages do not end with END and fewer zeros than fill a unit.

    messages: bits with what fills up the last unit. known: words that are certain, END not among them.
    """
    bits = np.array([int(bit) for message in messages for bit in message], np.int8)
    ends = np.cumsum([len(message) for message in messages])
    # Lengths count 2 bits up to 254, and 16 from there on.
    fill = np.array([2 if len(message) < 256 else 16 for message in messages])
    kind = np.zeros(2 << LONGEST_NODE, np.int8)  # of the node with this number: 0 open, 1 inner, 2 leaf
    for word in (*known, END):
        _make_leaf(kind, int("1" + word, 2))

    def parse(node: int = 0) -> tuple[int, int, np.ndarray]:
        """How many messages (that use the leaf `node`) end right and wrong, and how many stop at each open node."""
        stops = np.zeros(kind.size, np.int64)
        right, wrong = _parse(bits, ends, fill, kind, stops, int("1" + END, 2), node)
        return right, wrong, stops

    with tqdm(desc="open nodes", disable=None) as progress:
        while (stops := parse()[2]).any():
            node = int(stops.argmax())
            kind[node] = 2
            right, wrong, _ = parse(node)
            if wrong or not right:
                kind[node] = 1
            progress.update()
    # A message with an END within makes a leaf look like an inner node: take back what made more of them end wrong.
    best = parse()[0]
    for node in np.flatnonzero(kind == 1)[::-1]:
        inner = kind.copy()
        _make_leaf(kind, int(node))
        right = parse()[0]
        if right > best:
            best = right
        else:
            kind[:] = inner
    return [bin(node)[3:] for node in np.flatnonzero(kind == 2)], len(messages) - best


def _make_leaf(kind: np.ndarray, node: int) -> None:
    """The nodes above become inner nodes; those below go."""
    first, last = node, node + 1
    while first < kind.size:
        kind[first:last] = 0
        first, last = first << 1, last << 1
    kind[node] = 2
    while node := node >> 1:
        kind[node] = 1


@njit(cache=True)
def _parse(bits, ends, fill, kind, stops, end, track):  # type: ignore[no-untyped-def]
    """See `complete_tree`: messages that end right and wrong, if track > 0 of those that use this leaf."""
    right = wrong = 0
    first = 0
    for m in range(ends.size):
        last = ends[m]
        node = 1
        used = track == 0
        done = False
        for i in range(first, last):
            node = node << 1 | bits[i]
            if node >= kind.size:
                break
            if kind[node] == 0:
                stops[node] += 1
                done = True
                break
            if kind[node] == 2:
                if node == end:
                    if last - i - 1 < fill[m] and not bits[i + 1 : last].any():
                        right += used
                        done = True
                    break
                if node == track:
                    used = True
                node = 1
        if not done:
            wrong += used
        first = last
    return right, wrong
