"""ESPnet2 speech translation models, trained by ESPnet and decoded here without its tasks.

Contextual-block encoders (Tsunoo et al. 2021) run incrementally, a block at a time, and each block is encoded as soon
as its audio is there, so that the output is a function of the audio so far and not of how it came. Encoders that see
everything (conformer, transformer) encode all audio again at each step.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import re
import statistics
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simulst.data.combine import language_token
from simulst.errors import SimulstError
from simulst.models.base import Memo
from simulst.models.blockwise import GROUP, BlockwiseEncoder, State
from simulst.models.decoder import CachedDecoder
from simulst.models.experiment import Experiment, first_line
from simulst.models.features import Normalize, log_mel_of
from simulst.models.whole import Prefixes, WholeEncoder
from simulst.policy.stop import Stop
from simulst.search import BWBS, IBWBS, Beam, JointBeamSearch, JointOptions, Tokens
from simulst.search.beam import TO_THE_END, JointSearch, joint_beam_search
from simulst.search.blockwise import BlockwiseBeamSearch, IncrementalBlockwiseBeamSearch
from simulst.vad import check_pause

SAMPLE_RATE = 16000
BLANK = 0  # of ESPnet's CTC layers
ENCODERS = {
    "contextual_block_conformer": "contextual_block_conformer_encoder:ContextualBlockConformerEncoder",
    "contextual_block_transformer": "contextual_block_transformer_encoder:ContextualBlockTransformerEncoder",
    "conformer": "conformer_encoder:ConformerEncoder",
    "transformer": "transformer_encoder:TransformerEncoder",
}
LEAST_WINDOW = 5.0  # seconds
PRICINGS = 3  # measurements of the time that a session is spared


class ESPnet:
    """An ESPnet2 speech translation (or recognition) model; the languages are the ones that it was trained for.

    path: an experiment directory, or a packed zip. device: for torch. threads: of torch, in the whole process; 0: as
    they are. checkpoint: a file of weights in the directory; empty: the averaged ones, or else the best.
    window: seconds of speech that the decoder looks back on, for streams without end; 0: all of it. Blockwise only.
    pause: seconds without speech that end a sentence, see simulst/pauses.py; 0: never.
    precision: float32; bfloat16; or int8, which leaves the encoder as it is (see `CachedDecoder`, `BlockwiseEncoder`).
    Raises SimulstError: a missing or broken file, or a part of ESPnet that is not implemented here.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        path: str | Path,
        source_language: str,
        target_language: str,
        *,
        device: str = "cpu",
        threads: int = 0,
        checkpoint: str = "",
        window: float = 0.0,
        pause: float = 0.0,
        precision: str = "float32",
    ) -> None:
        if device != "cpu" and not (device.startswith("cuda") and torch.cuda.is_available()):
            raise SimulstError(f"the device '{device}' is not there; give cpu, or cuda on a machine that has it.")
        if threads:
            torch.set_num_threads(threads)
        experiment = Experiment(Path(path), checkpoint)
        config = experiment.config
        try:
            _refuse_what_is_missing(config)
            self._tokens = experiment.tokens()
            self._pieces = _sentencepiece(experiment) if config["token_type"] == "bpe" else None
            self._token_type = config["token_type"]
            weights = {name: tensor.to(device) for name, tensor in experiment.weights().items()}
            self.features = log_mel_of(
                config.get("frontend_conf") or {}, _take(weights, "frontend.logmel.melmat"), SAMPLE_RATE
            )
            self._normalize = _normalization(config, weights)
            encoder = _class("espnet2.asr.encoder." + ENCODERS[config["encoder"]])
            decoder = _class("espnet2.asr.decoder.transformer_decoder:TransformerDecoder")
            module = _load(
                encoder(input_size=self.features.dims, **config.get("encoder_conf") or {}), weights, "encoder."
            ).to(device)
            width = module.output_size()
            self._nothing = torch.zeros(0, width, device=device)
            self._seconds: dict[int, float] = {}  # see `seconds`
            self.decoder = CachedDecoder(
                _load(decoder(len(self._tokens), width, **config.get("decoder_conf") or {}), weights, "decoder.").to(
                    device
                ),
                precision,
            )
            # An ST model's `ctc` writes the source language; an ASR model's is the one that writes its tokens.
            name = "st_ctc.ctc_lo." if "src_token_list" in config else "ctc.ctc_lo."
            self._ctc: torch.nn.Module | None = None
            if name + "weight" in weights:
                self._ctc = _load(torch.nn.Linear(width, len(self._tokens)), weights, name).to(device)
            self._blockwise: BlockwiseEncoder | None = None
            self._whole: WholeEncoder | None = None
            products, subsample = "bfloat16" if precision == "bfloat16" else "float32", 4
            if config["encoder"].startswith("contextual_block"):
                self._blockwise = BlockwiseEncoder(module, products)
                subsample = self._blockwise.subsample
            else:
                by_frame = config.get("normalize") != "utterance_mvn"
                self._whole = WholeEncoder(module, self._normalize, by_frame, products)
            self.pause = check_pause(pause)
            if window and not (self.blockwise and window >= LEAST_WINDOW):
                raise SimulstError(
                    f"window: {window:g} s need a blockwise encoder and {LEAST_WINDOW:g} s or more; 0 keeps everything."
                )
            if self.blockwise and config.get("normalize") == "utterance_mvn":
                raise SimulstError("normalize: utterance_mvn cannot be streamed; train with global_mvn.")
        except SimulstError as error:
            if str(error).startswith(str(path)):
                raise
            raise SimulstError(f"{path}: {error}") from error
        except (TypeError, ValueError, RuntimeError) as error:
            raise SimulstError(f"{path}: the weights and config.yaml do not fit ({first_line(error)}).") from error
        self.window_frames = round(window * SAMPLE_RATE / (self.features.hop * subsample))
        try:
            self.language = self._language(target_language)
        except SimulstError as error:
            raise SimulstError(f"{path}: {error}") from error
        options = config.get("model_conf") or {}
        self.sos = self._special(options.get("tgt_sym_sos", options.get("sym_sos", "<sos/eos>")))
        self.eos = self._special(options.get("tgt_sym_eos", options.get("sym_eos", "<sos/eos>")))

    @property
    def blockwise(self) -> bool:
        """Whether the encoder works in blocks, and so incrementally."""
        return self._blockwise is not None

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC layer that predicts the output text."""
        return self._ctc is not None

    def session(self, memo: Memo | None = None) -> ESPnetSession:
        """A new utterance."""
        return ESPnetSession(self, memo or Memo(keep=False))

    def feed(self, blocks: int) -> int:
        """Feature frames with which the encoder writes one more block, when it has written `blocks`.

        With more at once it would write several blocks, with less none, all the same ones.
        """
        assert self._blockwise is not None
        encoder = self._blockwise
        return encoder.subsample * encoder.hop_size if blocks else encoder.first_features

    @property
    def block_frames(self) -> tuple[int, int]:
        """Encoder frames that the first block writes, and each one after it."""
        assert self._blockwise is not None
        return self._blockwise.first_size, self._blockwise.hop_size

    def encode_blocks(self, features: torch.Tensor, state: State | None, final: bool) -> tuple[torch.Tensor, Any]:
        """The encoder frames (B, t, width) that more features (B, n, dims) bring, and the state for the next call."""
        assert self._blockwise is not None
        return self._blockwise(self._normalize(features), state, final)

    def seconds(self, blocks: int) -> float:
        """What encoding so many blocks at once takes, to charge a session that is spared it; measured at first."""
        if blocks > GROUP:  # the encoder does no more at once
            return self.seconds(GROUP) * blocks / GROUP
        if blocks not in self._seconds:
            session, times = self.session(), []
            for count in (1, *[blocks] * PRICINGS):
                session.extend(np.zeros(math.ceil(session.block_end(count)) - session.length, dtype=np.float32))
                started = time.perf_counter()
                session._encode()
                times.append(time.perf_counter() - started)
            self._seconds[blocks] = statistics.median(times[1:])
        return self._seconds[blocks]

    def encode(self, audio: np.ndarray) -> torch.Tensor:
        """All of an utterance, (n,) float32, at once: encoder frames (t, width)."""
        return self.encode_prefixes([self.prefixes(audio)], audio.size)[0]

    def prefixes(self, audio: np.ndarray) -> Prefixes:
        """What can be known of the prefixes of an utterance, (n,) float32, before they are encoded."""
        assert self._whole is not None
        return Prefixes(self.features, self._whole, audio)

    def encode_prefixes(self, utterances: Sequence[Prefixes], samples: int) -> torch.Tensor:
        """The first `samples` samples of each of B utterances: encoder frames (B, t, width)."""
        assert self._whole is not None
        return self._whole(torch.stack([utterance(samples) for utterance in utterances]))

    @torch.inference_mode()
    def ctc(self, memory: torch.Tensor) -> torch.Tensor | None:
        """Log posteriors (t, vocabulary) of encoder frames (t, width)."""
        return None if self._ctc is None else torch.log_softmax(self._ctc(memory), -1)

    def text(self, tokens: Tokens) -> str:
        """Plain text; a word is whole if a space follows it. A character cut in two ends in U+FFFD."""
        pieces = [self._tokens[token] for token in tokens if token not in (BLANK, self.sos, self.eos)]
        if self._pieces is not None:
            return self._pieces.decode_pieces(pieces)
        if self._token_type == "word":
            return "".join(piece + " " for piece in pieces)
        return "".join(pieces).replace("<space>", " ")

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return len(self._tokens)

    @property
    def nothing(self) -> torch.Tensor:
        """No encoder frames: (0, width)."""
        return self._nothing

    def _language(self, target: str) -> Tokens:
        """What every text begins with, unwritten: in a multilingual model, the token of the target language."""
        written = [token for token in self._tokens if re.fullmatch(r"<2[A-Za-z]+>", token)]
        if not written:
            return ()
        if language_token(target) not in written or self._pieces is None:
            raise SimulstError(f"the model does not write '{target}'; it has {', '.join(t[2:-1] for t in written)}.")
        return tuple(self._tokens.index(piece) for piece in self._pieces.encode(language_token(target), out_type=str))

    def _special(self, token: str) -> int:
        return self._tokens.index(token) if token in self._tokens else len(self._tokens) - 1


class ESPnetSession:
    """One utterance: the audio that may still be needed, what the encoder has made of the rest, and its search."""

    sample_rate = SAMPLE_RATE

    def __init__(self, model: ESPnet, memo: Memo) -> None:
        self._model = model
        self._memo = memo
        self._audio = np.zeros(0, dtype=np.float32)
        self._start = 0  # number of its first sample
        self._final = False
        self._fed = 0  # feature frames that the encoder has had, here or in a session that shares the memo
        self._written = 0  # blocks that it has written
        self._place = Place()  # from which it can go on; later audio is kept
        self._flushed = False
        self._blocks: list[Block] = []  # what it has written and the window holds
        self._marks: list[tuple[int, int]] = []  # encoder frames and how many tokens had been found in them
        self._gone: Tokens = ()  # committed tokens that the window holds no more
        self._search: JointSearch | None = None
        self._searched = 0  # blocks that it has
        self._blockwise: BlockwiseBeamSearch | IncrementalBlockwiseBeamSearch | None = None

    @property
    def length(self) -> int:
        return self._start + self._audio.size

    @property
    def saved_seconds(self) -> float:
        return self._memo.saved_seconds

    def extend(self, samples: np.ndarray, final: bool = False) -> None:
        self._audio = np.concatenate([self._audio, samples])
        self._final = final

    def search(self, committed: Tokens, options: JointOptions, stop: Stop) -> Beam:
        _check(self._model, options, stop)
        self._marks.append((self._blocks[-1].end if self._blocks else 0, len(committed)))
        self._encode()
        self._slide_window(committed)
        gone, language = len(self._gone), self._model.language
        beam = self._search_window(language + committed[gone:], options, stop)
        if not (gone or language):
            return beam
        return [replace(h, tokens=self._gone + h.tokens[len(language) :]) for h in beam]

    def text(self, tokens: Tokens) -> str:
        return self._model.text(tokens)

    def block_end(self, count: int) -> float:
        model = self._model
        if not model.blockwise:
            raise SimulstError("the model's encoder has no blocks; write 'read: {type: chunk, ms: ...}'.")
        blocks, frames = self._written, self._fed
        ready = model.features.count(self.length, final=False)
        while count:
            frames += model.feed(blocks)
            blocks += 1
            count -= frames > ready
        return model.features.samples(frames)

    def limit(self) -> float:
        return math.inf

    def is_full(self) -> bool:
        return False  # of a full window the session lets go by itself, see `_slide_window`

    def spoken(self, tokens: Tokens) -> Tokens:
        return tokens

    def slide(self, committed: Tokens) -> None:
        """Nothing to do."""

    def encoded(self) -> torch.Tensor:
        """Encoder frames (t, width) of all audio so far, as far as the window holds them."""
        self._encode()
        return torch.cat([self._model.nothing, *(block.frames for block in self._blocks)])

    def _search_window(self, committed: Tokens, options: JointOptions, stop: Stop) -> Beam:
        if isinstance(options, JointBeamSearch):
            stop = TO_THE_END if self._final else stop
            key = ("search", self.length, self._final, len(self._gone), committed, options, repr(stop))
            return self._memo.get(key, lambda: joint_beam_search(self._over_blocks(options, stop), committed, stop))
        if isinstance(options, IBWBS):
            search = self._over_blocks(options, stop)
            self._blockwise = self._blockwise or IncrementalBlockwiseBeamSearch(search, options)
            return self._blockwise.step(committed, stop, self._final)
        assert isinstance(options, BWBS)
        search = self._new_search(options, stop)
        self._blockwise = self._blockwise or BlockwiseBeamSearch(search, options)
        # As in ESPnet, every block is searched, also where READ, or the end of the audio, brings several at once.
        first = True
        for frames, log_probs in self._new_frames():
            sizes = self._block_sizes(search.frames, len(frames))
            scores = [None] * len(sizes) if log_probs is None else log_probs.split(sizes)
            for piece, piece_scores in zip(frames.split(sizes), scores, strict=True):
                if not first:
                    self._blockwise.step(committed, stop, final=False)
                search.append(piece, piece_scores)
                first = False
        return self._blockwise.step(committed, stop, self._final)

    def _over_blocks(self, options: JointOptions, stop: Stop) -> JointSearch:
        """The search with all frames."""
        search = self._new_search(options, stop)
        for frames, log_probs in self._new_frames():
            search.append(frames, log_probs)
        return search

    def _new_search(self, options: JointOptions, stop: Stop) -> JointSearch:
        if self._search is None:
            model = self._model
            self._search = JointSearch(model.decoder, options, model.sos, model.eos, stop.needs.startswith("ctc"))
            self._searched = 0
        return self._search

    def _new_frames(self) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        """Encoder frames that the search lacks, with their CTC log posteriors."""
        for block in self._blocks[self._searched :]:
            self._searched += 1
            yield block.frames, self._memo.get(("ctc", block.key), functools.partial(self._model.ctc, block.frames))

    def _block_sizes(self, known: int, count: int) -> list[int]:
        """How `count` frames, which follow `known` others, belong to blocks of the encoder."""
        first, hop = self._model.block_frames
        ends = [known, *(end for end in range(first, known + count, hop) if end > known), known + count]
        return [end - start for start, end in pairwise(ends)]

    def _slide_window(self, committed: Tokens) -> None:
        """If the window is over-full, let go of half of it, and of the tokens that were found in no more than that."""
        most = self._model.window_frames
        frames = sum(len(block.frames) for block in self._blocks)
        if not most or frames <= most:
            return
        while frames > most // 2 and len(self._blocks) > 1:
            frames -= len(self._blocks.pop(0).frames)
        first = self._blocks[0].end - len(self._blocks[0].frames)
        found = [count for end, count in self._marks if end <= first]
        self._marks = [mark for mark in self._marks if mark[0] > first]
        self._gone = committed[: max([len(self._gone), *found])]
        self._search = self._blockwise = None

    def _encode(self) -> None:
        model = self._model
        if not model.blockwise:
            frames = self._memo.get(("encode", self.length), lambda: model.encode(self._audio))
            self._blocks = [Block(("encode", self.length), frames, len(frames))]
            self._search = None
            return
        ready = model.features.count(self.length, final=False)
        written = self._written
        while (end := self._fed + model.feed(self._written)) <= ready:
            self._fed = end
            self._written += 1
        keys: list[Hashable] = [("block", number) for number in range(written, self._written)]
        if self._final and not self._flushed:
            self._flushed = True
            self._fed = model.features.count(self.length, final=True)
            keys.append(self._rest)
        if not keys:
            return
        # A memo has each block for itself, so that all READs share it; but what it lacks is encoded together.
        parts, made = [], dict[Hashable, Part]()
        saved = self._memo.saved_seconds
        for key in keys:
            part = self._memo.get(key, functools.partial(self._part, key, made))
            parts.append(part.frames)
            self._place = part.place or self._place
        if not made:
            # Others may have encoded more at once, or less, at another price. Measuring it costs this session nothing.
            started = time.perf_counter()
            price = model.seconds(len(keys))
            self._memo.saved_seconds = saved + price - (time.perf_counter() - started)
        frames = torch.cat(parts) if len(parts) > 1 else parts[0]
        key = ("blocks", written, self._written, self._final and self.length)
        self._blocks.append(Block(key, frames, len(frames) + (self._blocks[-1].end if self._blocks else 0)))
        keep = model.features.keep_from(self._place.fed) - self._start
        if keep > 0:
            self._audio, self._start = self._audio[keep:], self._start + keep

    @property
    def _rest(self) -> Hashable:
        """The key of what comes behind the last whole block."""
        return ("rest", self.length)

    def _part(self, key: Hashable, made: dict[Hashable, Part]) -> Part:
        if key not in made:
            made.update(self._parts())
        return made[key]

    def _parts(self) -> dict[Hashable, Part]:
        """All blocks from the last place that is known to where READ is now, encoded together."""
        model, place = self._model, self._place
        features = model.features.frames(self._audio, self._start, place.fed, self._fed)
        encoded, state = model.encode_blocks(features[None], place.state, self._final)
        frames = encoded[0]
        first, hop = model.block_frames
        numbers = range(place.blocks, self._written)
        sizes = [hop if number else first for number in numbers]
        parts = frames.split([*sizes, len(frames) - sum(sizes)])
        keys: list[Hashable] = [("block", number) for number in numbers]
        made = {key: Part(part) for key, part in zip([*keys, self._rest], parts, strict=True)}
        if not self._final:
            made[keys[-1]] = Part(parts[-2], Place(self._fed, self._written, state))
        return made


@dataclass(frozen=True)
class Place:
    """Where the encoder stands. fed: feature frames that it has had. blocks: that it has written."""

    fed: int = 0
    blocks: int = 0
    state: State | None = None


@dataclass(frozen=True)
class Part:
    """A block, or what comes behind the last one: frames (t, width). place: behind it, where that is known.

    It is known of the last of several blocks that were encoded together, as the encoder tells no state in between.
    """

    frames: torch.Tensor
    place: Place | None = None


@dataclass(frozen=True)
class Block:
    """What the encoder wrote at once. key: its name in a memo. frames: (t, width). end: all frames up to its last."""

    key: Hashable
    frames: torch.Tensor
    end: int


def _check(model: ESPnet, options: Any, stop: Stop) -> None:
    """Raises SimulstError: a search or STOP that this model cannot do."""
    if not isinstance(options, JointOptions):
        raise SimulstError("an ESPnet model needs another search; write 'search: {type: joint_beam}'.")
    if isinstance(options, (BWBS, IBWBS)) and not model.blockwise:
        raise SimulstError("blockwise search needs a blockwise encoder; write 'search: {type: joint_beam}'.")
    # STOP first: without its CTC layer no ctc_weight helps.
    if stop.needs.startswith("ctc") and not model.has_ctc:
        raise SimulstError(
            "stop: the CTC policy needs a CTC layer for the translation, which the model lacks (it was trained with "
            "st_mtlalpha 0); take another STOP, such as align_att."
        )
    if options.ctc_weight > 0 and not model.has_ctc:
        raise SimulstError(
            "the model has no CTC layer for the translation (it was trained with st_mtlalpha 0); "
            "write 'ctc_weight: 0.0' under search."
        )


def _refuse_what_is_missing(config: dict[str, Any]) -> None:
    if config.get("encoder") not in ENCODERS:
        raise SimulstError(f"encoder: '{config.get('encoder')}' is not implemented; use {', '.join(ENCODERS)}.")
    for name, value in (("decoder", "transformer"), ("frontend", "default")):
        if config.get(name) != value:
            raise SimulstError(f"{name}: '{config.get(name)}' is not implemented; use '{value}'.")
    for name in ("preencoder", "postencoder", "hier_encoder", "md_encoder", "input_size"):
        if config.get(name) is not None:
            raise SimulstError(f"{name}: '{config[name]}' is not implemented; train without it.")
    if config.get("token_type") not in ("bpe", "char", "word"):
        raise SimulstError(f"token_type: '{config.get('token_type')}' is not implemented; use bpe, char or word.")


def _normalization(config: dict[str, Any], weights: dict[str, torch.Tensor]) -> Normalize:
    """What ESPnet does to features (..., n, dims) before the encoder; its statistics are stored with the weights."""
    kind, conf = config.get("normalize"), config.get("normalize_conf") or {}
    if kind is None:
        return lambda features: features
    if kind == "global_mvn":
        mean, std = (_take(weights, f"normalize.{name}").float() for name in ("mean", "std"))
        mean = mean if conf.get("norm_means", True) else torch.zeros_like(mean)
        std = std if conf.get("norm_vars", True) else torch.ones_like(std)
        return lambda features: (features - mean) / std
    if kind == "utterance_mvn" and conf.get("norm_means", True) and not conf.get("norm_vars", False):
        return lambda features: features - features.mean(-2, keepdim=True)
    raise SimulstError(f"normalize: '{kind}' with {conf} is not implemented; use global_mvn.")


def _sentencepiece(experiment: Experiment) -> Any:
    from sentencepiece import SentencePieceProcessor

    name = experiment.config.get("bpemodel")
    if not name:
        raise SimulstError("config.yaml names no bpemodel, which token_type: bpe needs.")
    try:
        return SentencePieceProcessor(model_proto=experiment.read(str(name)))
    except RuntimeError as error:
        raise SimulstError(f"{name} is not a SentencePiece model ({error}).") from error


def _class(name: str) -> Any:
    try:
        with contextlib.redirect_stdout(None):  # where ESPnet says that Flash Attention is missing
            module, _, attribute = name.partition(":")
            return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise SimulstError(f"ESPnet models need the package espnet ({error}); install it.") from error


def _load(module: torch.nn.Module, weights: dict[str, torch.Tensor], prefix: str) -> Any:
    """A module in evaluation mode with its part of the weights, all of it and no more."""
    part = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
    try:
        module.load_state_dict(part, strict=True)
    except RuntimeError as error:
        raise SimulstError(f"the weights '{prefix}*' do not fit config.yaml: {' '.join(str(error).split())}") from error
    return module.eval()


def _take(weights: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in weights:
        raise SimulstError(f"the weights lack '{name}'; give a whole model, not only its encoder.")
    return weights[name]
