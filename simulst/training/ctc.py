"""CTC on the transcript, beside the translation: with it, an encoder with random weights learns to listen.

Without it, the decoder learns to write the target language long before the encoder tells it anything of the audio, and
from then on the loss hardly falls. ESPnet's trainings have the same help (`asr_weight`); paper A's encoder is
pre-trained instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simulst.data.datadir import text_file
from simulst.errors import SimulstError
from simulst.files.table import read_table
from simulst.hypotheses import Tokens
from simulst.training.new_model import learn_pieces
from simulst.training.speech_text import IGNORED, Part

BLANK, UNKNOWN, PIECES = "<blank>", "<unk>", 300


def read_transcripts(parts: Sequence[Part]) -> list[dict[str, str]]:
    """Utterance → transcript, of each part. Parts without transcripts, such as prefix pairs, have none.

    Raises SimulstError: no part has any.
    """
    found: list[dict[str, str]] = []
    for part in parts:
        source, _ = part.languages
        normalised = part.data / f"text.lc.rm.{source}"
        try:
            file = normalised if normalised.is_file() else text_file(part.data, source)
        except SimulstError:
            found.append({})
        else:
            found.append(read_table(file, allow_empty=True))
    if not any(found):
        raise SimulstError(
            f"{parts[0].data}: no transcripts in the language that is spoken; add them as text.<language>, or train "
            "without ctc_weight."
        )
    return found


class Pieces:
    """Transcripts as numbers of word pieces, which are learnt from them. 0 is CTC's blank."""

    def __init__(self, file: Path, texts: Iterable[str] | None = None) -> None:
        """Read the pieces, or learn them from texts and write the file."""
        from tokenizers import Tokenizer

        if texts is not None:
            learn_pieces(texts, PIECES, (BLANK, UNKNOWN)).save(str(file))
        self._tokenizer = Tokenizer.from_file(str(file))

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def tokens(self, transcripts: Mapping[str, str]) -> dict[str, Tokens]:
        """Utterance → tokens of its transcript."""
        return {name: tuple(self._tokenizer.encode(text).ids) for name, text in transcripts.items()}


class EncoderCTC(nn.Module):
    """A linear layer on what the encoder gives, for the training only: the model that is saved does not have it."""

    def __init__(self, size: int, pieces: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size, pieces)

    def forward(self, encoded: Tensor, mask: Tensor | None, heard: Tensor) -> Tensor:
        """The loss, summed over the batch.

        encoded: (n, frames, size) of the encoder.
        mask: (n, times), 1 where the encoder's input is not padding; None: nowhere is padding.
        heard: (n, tokens), filled up with IGNORED. Rows without tokens count for nothing.
        """
        frames = encoded.shape[1]
        lengths = torch.full((len(encoded),), frames, device=encoded.device)
        if mask is not None:
            lengths = torch.ceil(mask.sum(1) * (frames / mask.shape[1])).long().clamp(1, frames)
        known = heard != IGNORED
        rows = known.any(1)
        if not rows.any():
            return encoded.sum() * 0.0
        scores = self.layer(encoded[rows]).float().log_softmax(-1).transpose(0, 1)
        return nn.functional.ctc_loss(
            scores,
            heard[rows].clamp(min=0),
            lengths[rows],
            known[rows].sum(1),
            reduction="sum",
            zero_infinity=True,  # more pieces than frames
        )


def add_ctc(model: Any, batch: Mapping[str, Any], pieces: int, seed: int) -> None:
    """Give the model the layer for the training, as `model.ctc`. batch: of examples, to see what the encoder gives."""
    inputs = {name: value for name, value in batch.items() if name not in ("labels", "heard")}
    with torch.no_grad():
        size = model(**inputs, use_cache=False).encoder_last_hidden_state.shape[-1]
    torch.manual_seed(seed)
    model.ctc = EncoderCTC(size, pieces)
