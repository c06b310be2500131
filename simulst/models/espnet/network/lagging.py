"""wait-k that a model is trained for: the decoder sees in training what it will have heard in decoding.

Ma et al. 2019 (STACL) for text; for speech Ma et al. 2020 ("SimulMT to SimulST"), with decisions after fixed units of
speech, as fairseq has it. The model predicts token i (i = 0, 1, ...) from the first k + i units of speech: its source
attention is masked. If it writes n tokens after each unit, these are k + ⌊i / n⌋ units. Nothing else differs from an
offline model, so the weights have the same names and shapes.

fairseq's encoder is not unidirectional. In training it encodes the whole utterance, and in decoding it encodes all
speech so far again at each step. So in training the frames that the decoder sees may tell of the speech after them.
With `wait_unidirectional`, frames attend only to earlier ones (as Elbayad et al. 2020 propose for text). Then they are
the same in training and in decoding.

A model can also learn by itself when to write: its texts have a wait token at the end of each chunk of speech (see
simulst/prefix/chunks.py). What it writes after j wait tokens, it predicts from the first j + 1 chunks. The frames of a
blockwise encoder are the same in training and in decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError
from simulst.hypotheses import WAIT

if TYPE_CHECKING:  # torch takes seconds to import, and whoever starts a training needs only the options
    from torch import Tensor

SUBSAMPLING = {"conv2d": 4, "conv2d6": 6}  # feature frames per encoder frame
LEAST_FRAMES = 2
LEAST_FEATURES = {"conv2d": 7, "conv2d6": 11, "conv2d8": 15}  # that the convolution needs for a frame
BLOCKWISE = {**SUBSAMPLING, "conv2d8": 8}


@dataclass(frozen=True)
class WaitOptions:
    """The keys that waiting adds to ESPnet's training configuration.

    wait_k: k; None: the model is not trained for wait-k.
    wait_unit_ms: length of a unit, in ms. fairseq's default is 7 encoder frames of 40 ms.
    wait_writes: tokens that are written after each unit.
    wait_unidirectional: whether the encoder's frames attend only to earlier ones.
    wait_chunk_ms: length of a chunk of speech, in ms, for a model that learns a wait token; None: it does not.
    wait_first_ms: length of its first chunk.
    """

    wait_k: int | None = None
    wait_unit_ms: float = 280.0
    wait_writes: int = 1
    wait_unidirectional: bool = False
    wait_chunk_ms: float | None = None
    wait_first_ms: float | None = None


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

    def visible(self, tokens: Tensor, frames: int) -> Tensor:
        """(n, frames) bool: which encoder frames the prediction after each of n tokens sees. tokens: (..., n).

        n units of speech give one frame less than n times `unit`, as the convolution looks ahead.
        """
        import torch

        heard = self.k + torch.arange(tokens.shape[-1], device=tokens.device) // self.writes
        seen = heard * self.unit - 1
        return torch.arange(frames, device=tokens.device) < seen[:, None]


@dataclass(frozen=True)
class Chunked:
    """What the decoder of a model with a wait token sees.

    first_ms, ms: length of the first chunk of speech, and of the others.
    first: encoder frames of the first chunk.
    step: encoder frames of each other chunk.
    wait: the wait token.
    """

    first_ms: float
    ms: float
    first: int
    step: int
    wait: int
    unidirectional: bool = False

    def visible(self, tokens: Tensor, frames: int) -> Tensor:
        """(..., n, frames) bool: which encoder frames the prediction after each of n tokens sees.

        tokens: (..., n), from <sos> on. After the last wait token, all was heard.
        """
        import torch

        waits = (tokens == self.wait).cumsum(-1)
        seen = torch.where(waits >= waits[..., -1:], frames, self.after(waits))
        return torch.arange(frames, device=tokens.device) < seen[..., None]

    def after(self, waits: Any) -> Any:
        """How many encoder frames were heard after so many wait tokens (a number or a tensor), if more speech comes."""
        return self.first + self.step * waits


def lagging_of(config: Mapping[str, Any]) -> Lagging | Chunked | None:
    """The lagging of an ESPnet configuration; None if the model is not trained to wait.

    Raises SimulstError: k, the unit or the chunks are impossible; the encoder or decoder is of another kind; several
        languages; there is no wait token.
    """
    if config.get("wait_chunk_ms") is not None:
        return _chunked(config)
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


def _chunked(config: Mapping[str, Any]) -> Chunked:
    ms, first_ms = float(config["wait_chunk_ms"]), float(config.get("wait_first_ms") or 0)
    kind, conf = str(config.get("encoder")), config.get("encoder_conf") or {}
    blockwise = kind.startswith("contextual_block")
    if not (blockwise or kind in ("transformer", "conformer")) or config.get("decoder") != "transformer":
        raise SimulstError(
            f"wait_chunk_ms: is not implemented for the encoder '{kind}' with the decoder '{config.get('decoder')}'; "
            "train a Transformer or a Conformer, blockwise or not, with the decoder transformer."
        )
    if config.get("wait_k") is not None:
        raise SimulstError("wait_k and wait_chunk_ms: a model learns to wait in one of the two ways; give one.")
    if (config.get("model_conf") or {}).get("st_mtlalpha", 0.0) > 0:
        raise SimulstError("st_mtlalpha: the CTC layer would learn to write wait tokens; set it to 0.0 in model_conf.")
    layer, front = conf.get("input_layer", "conv2d"), config.get("frontend_conf") or {}
    if layer not in (BLOCKWISE if blockwise else SUBSAMPLING):
        raise SimulstError(f"wait_chunk_ms: encoder_conf has input_layer '{layer}'; use {' or '.join(SUBSAMPLING)}.")
    hop, n_fft = int(front.get("hop_length", 128)), int(front.get("n_fft", 512))
    reach = n_fft - n_fft // 2 - (n_fft - int(front.get("win_length") or n_fft) + 1) // 2
    frame = hop * BLOCKWISE[layer]  # samples
    hops = int(conf.get("hop_size", 16)) if blockwise else 1
    block, ahead = int(conf.get("block_size", 40)), int(conf.get("look_ahead", 16))
    step, rest = divmod(ms * SAMPLE_RATE / 1000, frame * hops)
    if blockwise:
        least = (BLOCKWISE[layer] * block + LEAST_FEATURES[layer] - 1) * hop + reach
        blocks = (first_ms * SAMPLE_RATE / 1000 - least) // (frame * hops)
        first, shortest = block - ahead + int(blocks) * hops, least
    else:
        first, shortest = int(first_ms * SAMPLE_RATE / 1000 / frame) - 1, LEAST_FRAMES * frame
    if not (math.isfinite(ms + first_ms) and step >= 1 and rest == 0 and first_ms * SAMPLE_RATE / 1000 >= shortest):
        unit, start = frame * hops * 1000 / SAMPLE_RATE, shortest * 1000 / SAMPLE_RATE
        raise SimulstError(
            f"wait_chunk_ms: {ms:g} ms, wait_first_ms: {first_ms:g} ms; give a multiple of {unit:g} ms, the step of "
            f"the encoder, and a first chunk of at least {start:g} ms."
        )
    tokens = config.get("token_list")
    if not isinstance(tokens, list) or WAIT not in tokens:
        raise SimulstError(f"wait_chunk_ms: the tokens have no '{WAIT}'; make some that do by 'simulst train extend'.")
    return Chunked(first_ms, ms, first, int(step) * hops, tokens.index(WAIT))


def restrict_decoder(decoder: Any, lagging: Lagging | Chunked) -> None:
    """Make an ESPnet TransformerDecoder see only what it has heard when whole translations pass through it."""
    read: list[Tensor] = []

    def remember(_: Any, args: tuple[Any, ...]) -> None:
        read[:] = [args[2]]

    decoder.register_forward_pre_hook(remember)
    for layer in decoder.decoders:
        _restrict(layer.src_attn, lambda query, key: lagging.visible(read[0], key.shape[1]))


def restrict_encoder(encoder: Any) -> None:
    """Make an ESPnet TransformerEncoder unidirectional."""
    for layer in encoder.encoders:
        _restrict(layer.self_attn, _earlier)


def _earlier(query: Tensor, key: Tensor) -> Tensor:
    import torch

    return torch.ones(query.shape[1], key.shape[1], dtype=torch.bool, device=query.device).tril_()


def _restrict(attention: Any, visible: Callable[..., Tensor]) -> None:
    """Add `visible(query, key)` to the mask of an ESPnet attention."""

    def hook(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        query, key, value, mask, *others = args
        if mask is None:  # ESPnet's stepwise decoding, which has only the frames so far
            return None
        return (query, key, value, mask & visible(query, key), *others)

    attention.use_flash_attn = False  # it knows no such masks
    attention.register_forward_pre_hook(hook)
