"""wait-k that a model is trained for: the decoder sees in training what it will have heard in decoding.

Ma et al. 2019 (STACL) for text; for speech Ma et al. 2020 ("SimulMT to SimulST"), with decisions after fixed units of
speech, as fairseq has it. The model predicts token i (i = 0, 1, ...) from the first k + i units of speech: its source
attention is masked. If it writes n tokens after each unit, these are k + ⌊i / n⌋ units. Nothing else differs from an
offline model, so the weights have the same names and shapes.

fairseq's encoder is not unidirectional. In training it encodes the whole utterance, and in decoding it encodes all
speech so far again at each step. So in training the frames that the decoder sees may tell of the speech after them.
With `wait_unidirectional`, frames attend only to earlier ones (as Elbayad et al. 2020 propose for text). Then they are
the same in training and in decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError

if TYPE_CHECKING:  # torch takes seconds to import, and whoever starts a training needs only the options
    import torch
    from torch import Tensor

SUBSAMPLING = {"conv2d": 4, "conv2d6": 6}  # feature frames per encoder frame
LEAST_FRAMES = 2


@dataclass(frozen=True)
class WaitOptions:
    """The keys that wait-k adds to ESPnet's training configuration.

    wait_k: k; None: the model is not trained for wait-k.
    wait_unit_ms: length of a unit, in ms. fairseq's default is 7 encoder frames of 40 ms.
    wait_writes: tokens that are written after each unit.
    wait_unidirectional: whether the encoder's frames attend only to earlier ones.
    """

    wait_k: int | None = None
    wait_unit_ms: float = 280.0
    wait_writes: int = 1
    wait_unidirectional: bool = False


@dataclass(frozen=True)
class Lagging:
    """What the decoder of a wait-k model sees.

    k: units before the first token.
    unit_ms: length of a unit, in ms.
    unit: length of a unit, in encoder frames.
    writes: tokens that are written after each unit.
    unidirectional: whether the encoder's frames attend only to earlier ones.
    """

    k: int
    unit_ms: float
    unit: int
    writes: int = 1
    unidirectional: bool = False

    def visible(self, tokens: int, frames: int, device: torch.device | None = None) -> Tensor:
        """(tokens, frames) bool: which encoder frames the prediction of token 0, 1, ... sees.

        n units of speech give one frame less than n times `unit`, as the convolution looks ahead.
        """
        import torch

        heard = self.k + torch.arange(tokens, device=device) // self.writes
        seen = heard * self.unit - 1
        return torch.arange(frames, device=device) < seen[:, None]


def lagging_of(config: Mapping[str, Any]) -> Lagging | None:
    """The lagging of an ESPnet configuration; None if the model is not trained for wait-k.

    Raises SimulstError: k or the unit is impossible; the encoder or decoder is of another kind; several languages.
    """
    k, unit_ms = config.get("wait_k"), float(config.get("wait_unit_ms", WaitOptions.wait_unit_ms))
    writes, unidirectional = config.get("wait_writes", 1), bool(config.get("wait_unidirectional", False))
    if k is None:
        return None
    if k < 1:
        raise SimulstError(f"wait_k: {k}; wait for at least one unit.")
    if writes < 1:
        raise SimulstError(f"wait_writes: {writes}; at least one token must be written.")
    kinds = ("transformer",) if unidirectional else ("transformer", "conformer")
    if config.get("encoder") not in kinds or config.get("decoder") != "transformer":
        what = "wait_unidirectional" if unidirectional else "wait_k"
        raise SimulstError(
            f"{what}: is not implemented for the encoder '{config.get('encoder')}' with the decoder "
            f"'{config.get('decoder')}'; train the encoder {' or '.join(kinds)} and the decoder transformer."
        )
    layer = (config.get("encoder_conf") or {}).get("input_layer", "conv2d")
    if layer not in SUBSAMPLING:
        raise SimulstError(f"wait_k: encoder_conf has input_layer '{layer}'; use one of {', '.join(SUBSAMPLING)}.")
    hop = int((config.get("frontend_conf") or {}).get("hop_length", 128))
    frame_ms = hop * SUBSAMPLING[layer] * 1000 / SAMPLE_RATE
    frames = unit_ms / frame_ms
    if not (frames >= LEAST_FRAMES and frames.is_integer()):
        raise SimulstError(
            f"wait_unit_ms: {unit_ms:g} ms; give a multiple of {frame_ms:g} ms, the encoder's frame, and at least "
            f"{LEAST_FRAMES * frame_ms:g} ms."
        )
    tokens = config.get("token_list")
    if isinstance(tokens, list) and any(str(token).startswith("<2") for token in tokens):
        raise SimulstError("wait_k: the model writes several languages, which is not implemented; train one for each.")
    return Lagging(k, unit_ms, int(frames), writes, unidirectional)


def restrict_decoder(decoder: Any, lagging: Lagging) -> None:
    """Make an ESPnet TransformerDecoder see only what it has heard when whole translations pass through it."""
    for layer in decoder.decoders:
        _restrict(layer.src_attn, lagging.visible)


def restrict_encoder(encoder: Any) -> None:
    """Make an ESPnet TransformerEncoder unidirectional."""
    for layer in encoder.encoders:
        _restrict(layer.self_attn, _earlier)


def _earlier(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    import torch

    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril_()


def _restrict(attention: Any, visible: Callable[..., Tensor]) -> None:
    """Add `visible(queries, keys, device)` to the mask of an ESPnet attention."""

    def hook(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        query, key, value, mask, *others = args
        if mask is None:  # ESPnet's stepwise decoding, which has only the frames so far
            return None
        seen = visible(query.shape[1], key.shape[1], query.device)
        return (query, key, value, mask & seen, *others)

    attention.use_flash_attn = False  # it knows no such masks
    attention.register_forward_pre_hook(hook)
