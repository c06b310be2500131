"""An ESPnet2 model whose parts are loaded: it opens sessions, and computes what they ask for.

Contextual-block encoders (Tsunoo et al. 2021) run incrementally, a block at a time, and each block is encoded as soon
as its audio is there, so that the output is a function of the audio so far and not of how it came. Encoders that see
everything (conformer, transformer) encode all audio again at each step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulst.errors import SimulstError
from simulst.features import LogMel, Normalize
from simulst.meter import Meter
from simulst.models.espnet.blockwise_encoder import BlockwiseEncoder, EncoderState
from simulst.models.espnet.decoder import CachedDecoder
from simulst.models.espnet.full_context_encoder import FullContextEncoder, ReducedPrefixes
from simulst.models.espnet.session import ESPnetSession
from simulst.models.espnet.vocabulary import Vocabulary
from simulst.search import Tokens
from simulst.units import SAMPLE_RATE


class ESPnet:
    """A speech translation (or recognition) model. loading.py makes it from files.

    languages: heard and written, "" for what is not known or several. window: seconds of speech that the decoder looks
    back on; 0: all of it.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        path: Path,
        vocabulary: Vocabulary,
        languages: tuple[str, str],
        features: LogMel,
        normalize: Normalize,
        encoder: BlockwiseEncoder | FullContextEncoder,
        decoder: CachedDecoder,
        ctc_layer: torch.nn.Module | None,
        window: float,
        device: torch.device,
    ) -> None:
        self.path = path
        self.vocabulary = vocabulary
        self.languages = languages
        self.features = features
        self.encoder = encoder
        self.decoder = decoder
        self.no_frames = torch.zeros(0, encoder.width, device=device)
        """No encoder frames: (0, width)."""
        self.window_frames = 0
        if isinstance(encoder, BlockwiseEncoder):
            self.window_frames = round(window * SAMPLE_RATE / (features.hop * encoder.subsample))
        self.seconds_of_blocks: dict[int, float] = {}
        """What it takes to encode so many blocks at once, as far as that was measured (see encoding.py)."""
        self._normalize = normalize
        self._ctc_layer = ctc_layer

    def session(self, source: str, target: str, meter: Meter | None = None) -> ESPnetSession:
        """A new utterance. Raises SimulstError: a language that the model was not trained for."""
        for wanted, trained, what in ((source, self.languages[0], "hear"), (target, self.languages[1], "write")):
            if trained and wanted != trained:
                raise SimulstError(f"{self.path}: the model was trained to {what} '{trained}', not '{wanted}'.")
        try:
            prefix = self.vocabulary.language_prefix(target)
        except SimulstError as error:
            raise SimulstError(f"{self.path}: {error}") from error
        return ESPnetSession(self, prefix, meter or Meter())

    @property
    def blockwise(self) -> BlockwiseEncoder | None:
        """The encoder, if it works in blocks, and so incrementally."""
        return self.encoder if isinstance(self.encoder, BlockwiseEncoder) else None

    @property
    def full_context(self) -> FullContextEncoder:
        """The encoder, if it does not."""
        assert isinstance(self.encoder, FullContextEncoder)
        return self.encoder

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC layer that predicts the output text."""
        return self._ctc_layer is not None

    def text(self, tokens: Tokens) -> str:
        """Plain text; a word is whole if a space follows it. A character cut in two ends in U+FFFD."""
        return self.vocabulary.text(tokens)

    def encode_blocks(self, features: Tensor, state: EncoderState | None, final: bool) -> tuple[Tensor, Any]:
        """The encoder frames (B, t, width) that more features (B, n, dims) bring, and the state for the next call."""
        assert self.blockwise is not None
        return self.blockwise(self._normalize(features), state, final)

    def encode(self, audio: np.ndarray) -> Tensor:
        """All of an utterance, (n,) float32, by an encoder without blocks: encoder frames (t, width)."""
        return self.encode_prefixes([self.reduced(audio)], audio.size)[0]

    def reduced(self, audio: np.ndarray) -> ReducedPrefixes:
        """What can be known of the prefixes of an utterance, (n,) float32, before they are encoded."""
        return ReducedPrefixes(self.features, self.full_context, audio)

    def encode_prefixes(self, utterances: list[ReducedPrefixes], samples: int) -> Tensor:
        """The first `samples` samples of each of B utterances: encoder frames (B, t, width)."""
        return self.full_context(torch.stack([utterance(samples) for utterance in utterances]))

    @torch.inference_mode()
    def ctc(self, frames: Tensor) -> Tensor:
        """Log posteriors (t, vocabulary) of encoder frames (t, width)."""
        assert self._ctc_layer is not None
        return torch.log_softmax(self._ctc_layer(frames), -1)
