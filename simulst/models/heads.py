"""Which heads of a decoder align its text with the source: those whose attention most often meets an aligned place.

The score of a head is the share of tokens at which it attends most to a place that is aligned with them (as in
Whisper's and AlignAtt4LLM's choice of heads, arXiv 2606.03967).
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from simulst.calls import run_alone, steps_of
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.hypotheses import Tokens
from simulst.models.aligned_pairs import Aligned
from simulst.needs import Need
from simulst.opening import Opening
from simulst.options import read_json_fields
from simulst.policy.context import HeadPairs, View
from simulst.policy.stop import AlignAtt, Stopping
from simulst.search import JointBeamSearch
from simulst.session import Model, Traits

logger = logging.getLogger(__name__)

HEADS = "alignment_heads.json"
"""The file beside a model that `simulst models heads` writes."""

SPLITS = 100  # pairs are divided in half so often


@dataclass(frozen=True)
class Heads:
    """Of such a file: the heads that align best, best first, each as the number of its layer and its number there."""

    heads: tuple[tuple[int, int], ...]


def heads_beside(folder: Path, layers: int, heads: int) -> HeadPairs:
    """The heads that were found for a model with so many layers and heads in each; none if nobody looked for them.

    Raises SimulstError: the file is broken, or of another model.
    """
    path = folder / HEADS
    if not path.is_file():
        return ()
    remedy = "find the heads again (simulst models heads)"
    found = read_json_fields(Heads, path, remedy).heads
    for layer, head in found:
        if not (0 <= layer < layers and 0 <= head < heads):
            raise SimulstError(
                f"{path}: names head {head} of layer {layer}, but the decoder has {layers} layers of {heads} heads; "
                f"{remedy}."
            )
    return found


def looked_at(stop: Stopping | None, aligning: HeadPairs, path: Path) -> HeadPairs:
    """The heads whose attention a search must show: those that STOP names and those that align; none if it needs none.

    path: of the model. Raises SimulstError: STOP goes by attention, and nobody has named a head.
    """
    if stop is None or Need.ATTENTION not in stop.options.needs:
        return ()
    heads = tuple(dict.fromkeys([*stop.attends, *aligning]))
    if not heads:
        raise SimulstError(
            f"{path}: nobody has said which of its heads align a text; find them by 'simulst models heads', or name "
            "them in 'pairs' of stop."
        )
    return heads


@dataclass(frozen=True)
class Seen:
    """What a decoder attends to while it writes a text.

    weights: (layers, heads, tokens, places), when each token is chosen.
    places: for each place of the source, the number of characters up to its end; -1: it is none of the text.
    tokens: the same of the target's tokens. Both are empty where the model's tokens can't spell the text.
    """

    weights: np.ndarray
    places: Sequence[int]
    tokens: Sequence[int]


Shows = Callable[[str, str], Seen]
"""What a model attends to in a source while it writes a given translation. Raises SimulstError: they are too long."""


@dataclass(frozen=True)
class Ranking:
    """What `simulst models heads` writes beside a model.

    heads: the best, best first: layer and number.
    scores: of each, the share of tokens at which it meets an aligned word.
    mean: the same of the mean of all of them.
    pairs, tokens: of how many pairs and tokens.
    same: of the best heads of one half of the pairs, the share that is among the best of the other half.
    other: the score of one half's best heads on the other half.
    """

    heads: HeadPairs
    scores: Sequence[float]
    mean: float
    pairs: int
    tokens: int
    same: float
    other: float

    def write(self, path: Path) -> None:
        """As JSON."""
        write_atomically(path, json.dumps(asdict(self), indent=1) + "\n")


class Probe(Stopping):
    """A STOP that ends a search at once, and keeps what its next token attends to: (layers, heads, T)."""

    options = AlignAtt(1)
    attention: Any = None

    def __init__(self, traits: Traits) -> None:
        """It needs nothing of a stream. traits: of the session that searches."""
        self._sizes = traits.layers, traits.heads
        self.attends = tuple(itertools.product(range(traits.layers), range(traits.heads)))

    def ends(self, view: View) -> bool:
        rows = getattr(view, "attention", None)  # of all heads, as it attends to all
        self.attention = None if rows is None else rows[:, -1].unflatten(0, self._sizes)
        return True


@dataclass(frozen=True)
class Spoken:
    """What shows the attention of a speech model: the source of a pair is the path of a recording.

    Its places are ends of frames, in ms. languages: spoken and written.
    parts: name of an utterance → its recording, begin and end in seconds. Pairs may have such names for paths.
    """

    model: Model
    languages: tuple[str, str]
    parts: Mapping[str, tuple[Path, float, float | None]] = field(default_factory=dict)

    def seen(self, source: str, target: str) -> Seen:
        """See `Shows`. Raises SimulstError: the model shows no attention of its heads."""
        from simulst.audio.read import load_audio
        from simulst.audio.units import SAMPLE_RATE

        samples, session = load_audio(*self.parts.get(source, (source,))), self.model.session(Opening(*self.languages))
        traits, tokens = session.traits, session.spell(target)
        probe = Probe(traits)
        if not {Need.ATTENTION, Need.STEPS} <= traits.gives or not tokens:
            raise SimulstError("this speech model shows no attention of heads; give one of Hugging Face's or ESPnet's.")
        run_alone(steps_of(session.extend(samples, True)))
        options = JointBeamSearch(beam=1, ctc_weight=0.0).filled(traits.default_search, traits.gives)
        rows = []
        for count in range(len(tokens)):
            probe.attention = None
            run_alone(steps_of(session.search(tokens[:count], options, probe)))
            if probe.attention is None:
                raise SimulstError(
                    f"{source}: {len(tokens)} tokens are too many for its audio or the model; leave it out."
                )
            rows.append(probe.attention.cpu().numpy())
        weights = np.stack(rows, 2)
        frames = weights.shape[3]
        places = [round((frame + 1) * len(samples) * 1000 / SAMPLE_RATE / frames) for frame in range(frames)]
        return Seen(weights, places, ends_of(session.text, tokens, target))


def ends_of(text: Callable[[Tokens], str], tokens: Tokens, whole: str, special: Sequence[int] = ()) -> list[int]:
    """For each token of a text, the number of characters up to its end; -1: it is a special one.

    Spaces at the beginning do not count: some tokenisers put one there. Empty if the tokens spell another text, as
    those of a vocabulary without some character do.
    """
    if text(tokens).strip() != whole.strip():
        return []
    lengths = [len(text(tokens[:end]).lstrip()) for end in range(1, len(tokens) + 1)]
    return [-1 if token in special else length for token, length in zip(tokens, lengths, strict=True)]


def rank(shows: Shows, pairs: Sequence[Aligned], count: int) -> Ranking:
    """The best `count` heads. Raises SimulstError: nothing is aligned; there are fewer heads."""
    looked = ((shows(pair.source, pair.target), pair) for pair in tqdm(pairs, desc="attention", unit="pair"))
    found = [_met(seen, pair) for seen, pair in looked if seen.tokens and seen.places]
    kept = [(weights, good) for weights, good in found if len(good)]
    if len(kept) < 2:
        raise SimulstError(
            f"{len(kept)} of {len(pairs)} pairs have aligned words and are spelled by the model's tokens; give 2 or "
            "more such pairs to find heads (60 are a good number)."
        )
    layers, heads = kept[0][0].shape[:2]
    if count > layers * heads:
        raise SimulstError(f"the model has {layers * heads} heads; choose {count} of them with a smaller --count.")
    hits = np.array([_hits(weights, good).reshape(-1) for weights, good in kept])  # (pairs, heads)
    sizes = np.array([len(good) for _, good in kept])
    best = _best(hits, count)
    chosen = [divmod(int(number), heads) for number in best]
    where = [list(part) for part in zip(*chosen, strict=True)]
    together = sum(int(_hits(weights[where[0], where[1]].mean(0), good)) for weights, good in kept)
    same, other = _halves(hits, sizes, count)
    scores = [round(float(score), 4) for score in hits.sum(0)[best] / sizes.sum()]
    total = int(sizes.sum())
    return Ranking(chosen, scores, round(together / total, 4), len(kept), total, round(same, 4), round(other, 4))


def _met(seen: Seen, pair: Aligned) -> tuple[np.ndarray, np.ndarray]:
    """Of the tokens of aligned words: their weights, (layers, heads, tokens, places), and which places are right."""
    places, tokens = (
        np.array([[begin < end <= last for begin, last in words] for end in ends]).reshape(len(ends), len(words))
        for ends, words in ((seen.places, pair.source_words), (seen.tokens, pair.target_words))
    )
    links = np.zeros((len(pair.source_words), len(pair.target_words)), dtype=bool)
    for source, target in pair.links:
        links[source, target] = True
    good = (places @ links @ tokens.T).T  # of booleans: (tokens, places)
    counted = good.any(1)
    return seen.weights[:, :, counted], good[counted]


def _hits(weights: np.ndarray, good: np.ndarray) -> np.ndarray:
    """(..., tokens, places), (tokens, places) → at how many tokens the greatest weight is right, (...)."""
    return good[np.arange(len(good)), weights.argmax(-1)].sum(-1)


def _best(hits: np.ndarray, count: int) -> np.ndarray:
    return np.argsort(-hits.sum(0), kind="stable")[:count]


def _halves(hits: np.ndarray, sizes: np.ndarray, count: int) -> tuple[float, float]:
    """See `Ranking.same` and `Ranking.other`: means over random halves."""
    random, same, other = np.random.default_rng(0), [], []
    for _ in range(SPLITS):
        order = random.permutation(len(hits))
        one, two = order[: len(order) // 2], order[len(order) // 2 :]
        best = _best(hits[one], count)
        same.append(len(np.intersect1d(best, _best(hits[two], count))) / count)
        other.append(hits[two][:, best].sum() / count / sizes[two].sum())
    return float(np.mean(same)), float(np.mean(other))
