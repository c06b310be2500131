"""The options of the searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.options import Amount, NotNegative, Number, Positive, Share
from simulst.policy.base import Options

Beam = Annotated[int, Field(ge=1, le=1000)]  # a larger beam would only fill the memory
CTC_WEIGHT = 0.3  # where no other was chosen for the model
LENGTH_RATIO = 1.0  # where the model has no usual one
TOKENS_PER_SECOND = 25.0  # of speech: 1.0 for frames of 40 ms


@dataclass(frozen=True)
class SearchOptions(Options):
    """Options of a search: a frozen dataclass.

    short: the options' names in labels. A label has the kind of search and the options that are not at their default.
    """

    label = "{changed}"
    short: ClassVar[Mapping[str, str]]

    @property
    def changed(self) -> str:
        """The options that are not at their default, with short names."""
        changed = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return "-".join(self.short[name] + _short(getattr(self, name)) for name in changed)

    def filled(self, usual: SearchOptions, gives: frozenset[Need]) -> SearchOptions:
        """These options, and those of the model where they leave something open.

        usual: the search that the model uses if a decoding configuration names none.
        gives: what the model's session gives.
        """
        return self


@dataclass(frozen=True)
class BeamSearch(SearchOptions):
    """Beam search inside the model's library.

    beam: how many hypotheses are kept (CUNI-KIT 2022 uses 8; 1 is greedy search).
    length_penalty: scores are divided by the length to this power.
    no_repeat_ngram: forbid n-grams of this length from coming twice; 0: allow them.
    max_tokens_per_second: most tokens per second of speech. It prevents endless repetition.
    """

    beam: Beam = 5
    length_penalty: Number = 1.0
    no_repeat_ngram: Amount = 0
    max_tokens_per_second: Positive = TOKENS_PER_SECOND

    needs = frozenset({Need.LIBRARY_SEARCH})
    short: ClassVar = {
        "beam": "beam",
        "length_penalty": "lp",
        "no_repeat_ngram": "ngram",
        "max_tokens_per_second": "tps",
    }


@dataclass(frozen=True)
class JointOptions(SearchOptions):
    """Options that all of simulst's own searches share. These searches drive the decoder token by token.

    beam: how many hypotheses are kept (CUNI-KIT 2023 uses 6; 1 is greedy search).
    ctc_weight: weight of the CTC score; the decoder has the rest (CUNI-KIT 2023: 0.3 for De, 0.4 for Zh).
    length_bonus: added to the score per token; ESPnet calls it penalty.
        None for both: what was chosen on development data for the model. They depend on each other, so if one is given,
        the other is 0.3 (0 without a CTC layer) or 0. These also stand where nothing was chosen.
    max_length_ratio: most tokens per encoder frame so far. It prevents endless repetition (Nguyen et al. 2021: 1.0 for
        De, 1.6 for Pt). None: what is usual for the model: 25 tokens a second of speech, however long its frames are;
            1.0 for models of ESPnet whose frames last 40 ms or less; more for short texts that are translated to text.
    no_repeat_ngram: forbid n-grams of this length from coming twice; 0: allow them.
    terms_bonus: added to the decoder's log p for each token of a term of the recording's context (terms.py).
    """

    beam: Beam = 6
    ctc_weight: Share | None = None
    length_bonus: Number | None = None
    max_length_ratio: Positive | None = None
    no_repeat_ngram: Amount = 0
    terms_bonus: NotNegative = 0.0

    final = "raw"  # some searches have an option for it
    short: ClassVar = {
        **{"beam": "beam", "ctc_weight": "ctc", "length_bonus": "bonus", "max_length_ratio": "ratio"},
        **{"no_repeat_ngram": "ngram", "terms_bonus": "terms"},
        **{"step_back": "back", "repetition": "rep", "final": "final", "draft": "draft"},
    }

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.STEPS} | ({Need.CTC} if self.ctc_weight != 0 else set()))

    def filled(self, usual: SearchOptions, gives: frozenset[Need]) -> Self:
        weight, bonus = self.ctc_weight, self.length_bonus
        if weight is bonus is None and isinstance(usual, JointOptions):
            weight, bonus = usual.ctc_weight, usual.length_bonus
        if weight is None:
            weight = CTC_WEIGHT if Need.CTC in gives else 0.0
        ratio = self.max_length_ratio
        if ratio is None and isinstance(usual, JointOptions):
            ratio = usual.max_length_ratio
        return replace(self, ctc_weight=weight, length_bonus=bonus or 0.0, max_length_ratio=ratio)

    @property
    def length_ratio(self) -> float:
        """Most tokens per encoder frame."""
        return LENGTH_RATIO if self.max_length_ratio is None else self.max_length_ratio

    @property
    def per_token(self) -> bool:
        """Whether `joint_beam_search` ranks what it has found by score per token."""
        return self.final == "per_token"

    @property
    def keeps_width(self) -> bool:
        """Whether `joint_beam_search` keeps `beam` hypotheses running until as many have ended, as CTranslate2 does."""
        return False


@dataclass(frozen=True)
class JointBeamSearch(JointOptions):
    """Joint CTC/attention beam search. Each step starts again after the committed tokens (simulst/search/beam.py).

    final: how the hypotheses that a search has found are ranked: by score ("raw") or by score per new token
        ("per_token"), <eos> included. CTranslate2's search divides by the length, too (length_penalty 1), but does not
        count <eos>. As there, a search that ranks by score per token ends once `beam` hypotheses have ended.
        Later ones would be longer and longer, and a text that repeats itself has the best score per token.
    draft: whether what the last step found, and COMMIT held back, is scored on the new audio in one pass. Its tokens
        are kept up to the first one that is not the best any more. It is for greedy search, whose words stay the same,
        up to rounding, and has no effect where STOP goes by attention: such a step leaves no draft.
    """

    final: Literal["raw", "per_token"] = "raw"
    draft: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draft and self.beam > 1:
            raise SimulstError(
                f"search: draft is for greedy search, as a beam of {self.beam} would find other words with it; "
                "write 'beam: 1', or leave 'draft' out."
            )

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | ({Need.DRAFT} if self.draft else set())

    @property
    def keeps_width(self) -> bool:
        return self.per_token


@dataclass(frozen=True)
class BWBS(JointOptions):
    """Blockwise synchronous beam search (Tsunoo et al. 2021), as in ESPnet (simulst/search/blockwise.py).

    If the encoder sees everything, it encodes all audio again at each step, and a block is all of its frames. The
    decoder's states stay as they were.

    repetition: whether the search of a block also ends if a hypothesis repeats one of its tokens.
    """

    repetition: bool = True

    label = "BWBS{changed:-}"

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.KEPT_BEAM}


@dataclass(frozen=True)
class IBWBS(JointOptions):
    """Improved incremental blockwise beam search (CUNI-KIT 2023, algorithm 1; simulst/search/blockwise.py).

    If the encoder sees everything, it encodes all audio again at each step, and a block is all of its frames.

    step_back: how many of the last tokens that COMMIT finds stable are held back and searched again in the next block.
        COMMIT sees <eos> as a token, so <eos> is one of them if it is stable. If STOP ended the search, the tokens that
        STOP drops are searched again instead.
    repetition: whether a hypothesis that repeats one of its tokens counts as unreliable. None: with blockwise encoders
        only, as in the paper (section 3.2).
    final: how the last block is searched. "raw", "per_token": to the end of the sentence, as `JointBeamSearch` does,
        ranked by score or by score per token. "literal": as algorithm 1 has it for every block (lines 3 to 18):
        unreliable hypotheses leave the search, and the score per token ranks all that left. Repeated tokens, which the
        algorithm does not have, do not count in it, as in BWBS: most sentences repeat one.
    """

    step_back: Amount = 2
    repetition: bool | None = None
    final: Literal["raw", "per_token", "literal"] = "raw"

    label = "IBWBS{changed:-}"

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.INCREMENTAL}

    def filled(self, usual: SearchOptions, gives: frozenset[Need]) -> Self:
        repetition = Need.BLOCKS in gives if self.repetition is None else self.repetition
        return replace(super().filled(usual, gives), repetition=repetition)


def draft_after(committed: Tokens, options: SearchOptions, last: Tokens) -> Tokens:
    """What a search is given as a draft: what follows the committed tokens in the text that the last step found."""
    wanted = isinstance(options, JointBeamSearch) and options.draft
    return last[len(committed) :] if wanted and last[: len(committed)] == committed else ()


def _short(value: Any) -> str:
    return value.replace("_", "") if isinstance(value, str) else f"{float(value):g}"
