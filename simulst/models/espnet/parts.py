"""The loaded parts of an ESPnet2 model, and what they compute.

Contextual-block encoders (Tsunoo et al. 2021) run incrementally. Each block is encoded as soon as its audio is there,
so the output depends on the audio so far, and not on how it was cut into pushes. Full-context encoders (conformer,
transformer, vgg_rnn) encode all audio again at each step. Only features and the convolution after them are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from simulst.audio.features import LogMel, Normalize
from simulst.audio.units import SAMPLE_RATE
from simulst.hypotheses import Tokens
from simulst.models.espnet.divergence import DivergenceHead
from simulst.models.espnet.network.blockwise_encoder import BlockwiseEncoder, Piece
from simulst.models.espnet.network.decoder import CachedDecoder
from simulst.models.espnet.network.full_context_encoder import FullContextEncoder, Reduction
from simulst.models.espnet.network.linear import Linear
from simulst.models.espnet.network.recurrent_decoder import RecurrentDecoder
from simulst.models.espnet.vocabulary import Vocabulary
from simulst.policy.context import HeadPairs
from simulst.search import LENGTH_RATIO, TOKENS_PER_SECOND, JointBeamSearch


@dataclass(eq=False)
class Parts:
    """The parts of a speech translation (or recognition) model. loading.py creates them from files.

    path: the experiment, for errors.
    vocabulary: the output tokens.
    languages: the source and the target language; "" if it is not known, or if there are several.
    features: computes the filterbank features.
    normalize: normalises them.
    encoder: blockwise or full-context.
    decoder: reads one token at a time.
    ctc_layer: predicts the output text from encoder frames (t, width); None: the model has no such layer.
    window: seconds of speech that the decoder sees; 0: all of it.
    device: the torch device.
    batches: whether several streams' frames may be encoded in one batch.
    search: used if a decoding configuration names none. It holds the search's weights that were chosen on dev, if any.
    alignment_heads: those that align its text, if they are known.
    head: foresees divergence; None: none was trained.
    """

    path: Path
    vocabulary: Vocabulary
    languages: tuple[str, str]
    features: LogMel
    normalize: Normalize
    encoder: BlockwiseEncoder | FullContextEncoder
    decoder: CachedDecoder | RecurrentDecoder
    ctc_layer: Linear | None
    window: float
    device: torch.device
    batches: bool
    search: JointBeamSearch
    alignment_heads: HeadPairs = ()
    head: DivergenceHead | None = None
    sample_rate: ClassVar[int] = SAMPLE_RATE

    def __post_init__(self) -> None:
        frame = self.features.hop * self.encoder.subsample  # samples
        # Coarser frames than 40 ms may have several tokens.
        most = max(LENGTH_RATIO, TOKENS_PER_SECOND * frame / SAMPLE_RATE)
        self.search = replace(self.search, max_length_ratio=most)
        self.no_frames = torch.zeros(0, self.encoder.width, device=self.device)
        """No encoder frames: (0, width)."""
        self.window_frames = round(self.window * SAMPLE_RATE / frame) if self.blockwise else 0
        self.seconds_of_blocks: dict[int, float] = {}
        """Seconds that it takes to encode so many blocks at once, as far as measured (see encoding.py)."""

    @property
    def blockwise(self) -> BlockwiseEncoder | None:
        """The encoder if it is blockwise, else None."""
        return self.encoder if isinstance(self.encoder, BlockwiseEncoder) else None

    @property
    def full_context(self) -> FullContextEncoder:
        """The encoder of a model that is not blockwise."""
        assert isinstance(self.encoder, FullContextEncoder)
        return self.encoder

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC layer that predicts the output text."""
        return self.ctc_layer is not None

    def text(self, tokens: Tokens) -> str:
        """Plain text. A word is complete if a space follows it. An incomplete character becomes U+FFFD."""
        return self.vocabulary.text(tokens)

    def encode_blocks(self, pieces: Sequence[Piece]) -> list[tuple[Tensor, Any]]:
        """Encode more features of several utterances at once (see `BlockwiseEncoder.together`)."""
        assert self.blockwise is not None
        return self.blockwise.together([(self.normalize(new), state, final) for new, state, final in pieces])

    def encode_all(self, reduced: Sequence[Tensor]) -> list[Tensor]:
        """The second step of a full-context encoder: results of its first one → encoder frames (t, width).

        All have equal lengths, so that no row is padding.
        """
        return [one.clone() for one in self.full_context(torch.stack([*reduced]))]  # no stream holds others' memory

    @property
    def reduction(self) -> Reduction:
        """The part of a full-context encoder that needs no frame twice."""
        return Reduction(self.features, self.full_context)

    @torch.inference_mode()
    def ctc(self, frames: Tensor) -> Tensor:
        """Log posteriors (t, V) of encoder frames (t, width)."""
        assert self.ctc_layer is not None
        return torch.log_softmax(self.ctc_layer(frames), -1)

    def ctc_together(self, frames: list[Tensor]) -> list[Tensor]:
        """As `ctc`, for frames of several utterances."""
        log_probs = self.ctc(torch.cat(frames))
        return [one.clone() for one in log_probs.split([len(some) for some in frames])]  # none holds others' memory
