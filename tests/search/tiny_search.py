"""A random decoder and CTC layer, searched by us and by ESPnet."""

from __future__ import annotations

import logging
from typing import Any

import torch
from espnet2.asr.ctc import CTC
from fake import opened

logging.disable(logging.WARNING)
from espnet.nets.batch_beam_search import BatchBeamSearch  # noqa: E402
from espnet.nets.scorers.ctc import CTCPrefixScorer  # noqa: E402
from espnet.nets.scorers.length_bonus import LengthBonus  # noqa: E402
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder  # noqa: E402

logging.disable(logging.NOTSET)

from simulst.calls import run_alone  # noqa: E402
from simulst.hypotheses import Beam, Tokens  # noqa: E402
from simulst.models.espnet.network.decoder import CachedDecoder  # noqa: E402
from simulst.policy.stop import MaxTokens  # noqa: E402
from simulst.search import JointBeamSearch, JointOptions  # noqa: E402
from simulst.search.beam import JointSearch, joint_beam_search  # noqa: E402

WIDTH, SIZE = 16, 20
EOS = SIZE - 1


class Tiny:
    """A random decoder and CTC layer.

    sharp: how far apart their scores are.
    end: added to the score of <eos>.
    """

    def __init__(self, seed: int, sharp: float = 6.0, end: float = 1.0) -> None:
        torch.manual_seed(seed)
        self.decoder = TransformerDecoder(SIZE, WIDTH, attention_heads=2, linear_units=32, num_blocks=2).eval()
        self.ctc = CTC(SIZE, WIDTH).eval()
        with torch.no_grad():
            self.decoder.output_layer.weight *= sharp
            self.decoder.output_layer.bias[EOS] += end
            self.ctc.ctc_lo.weight *= sharp
            self.ctc.ctc_lo.bias[0] += 2

    def memory(self, seed: int, frames: int) -> torch.Tensor:
        return torch.randn(frames, WIDTH, generator=torch.Generator().manual_seed(seed))

    def search(
        self,
        memory: torch.Tensor,
        options: JointBeamSearch,
        prefix: Tokens = (),
        max_new: int | None = None,
        draft: Tokens = (),
        decoder: CachedDecoder | None = None,
    ) -> Beam:
        search = JointSearch(decoder or CachedDecoder(self.decoder), options, EOS, EOS)
        if len(memory):
            with torch.no_grad():
                search.append(memory, self.ctc.log_softmax(memory[None])[0])
        stop = opened(MaxTokens(max_new)) if max_new else None
        return run_alone(joint_beam_search(search, prefix, stop, draft=draft))

    def espnet(self, memory: torch.Tensor, options: JointBeamSearch, max_length_ratio: float = 0.0) -> list[Any]:
        """Texts and scores as ESPnet's st_inference finds them."""
        with torch.no_grad():
            found = BatchBeamSearch(**self.for_espnet(options))(memory, maxlenratio=max_length_ratio)
        # ESPnet keeps impossible hypotheses with a score of -1e10. Our search drops them.
        texts = [(tuple(t for t in h.yseq.tolist() if t != EOS), float(h.score)) for h in found]
        return [(text, score) for text, score in texts if score > -1e8]

    def for_espnet(self, options: JointOptions) -> dict[str, Any]:
        """What makes one of ESPnet's searches."""
        w = 0.3 if options.ctc_weight is None else options.ctc_weight
        return {
            "scorers": {
                "decoder": self.decoder,
                "ctc": CTCPrefixScorer(self.ctc, EOS),
                "length_bonus": LengthBonus(SIZE),
            },
            "weights": {"decoder": 1 - w, "ctc": w, "length_bonus": options.length_bonus or 0.0},
            "beam_size": options.beam,
            "vocab_size": SIZE,
            "sos": EOS,
            "eos": EOS,
            "pre_beam_score_key": "full",
        }
