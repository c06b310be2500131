"""What differs between architectures: the input of the encoder, the tokens before every text, the length of the window.

`Architecture` serves models that take the features of their own extractor, and whose texts begin with a language token
if they are multilingual (wav2vec 2.0 + mBART-50, Speech2Text, ...). Another one is a subclass, anywhere: see
docs/huggingface.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from simulst.audio.mel import MelBands
from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.background import Background
from simulst.errors import SimulstError, first_line
from simulst.find import find, names
from simulst.hypotheses import Tokens
from simulst.languages import code_of, unit_of
from simulst.models.huggingface.decoder import Pairs, Project, SteppedDecoder, sizes_of
from simulst.models.huggingface.language_tokens import LanguageTokens
from simulst.models.huggingface.options import HuggingFaceOptions
from simulst.models.whisper.features import FFT, SILENCE, frames_of, log_mel
from simulst.models.whisper.prompts import ENGLISH_VOCABULARY, Languages
from simulst.policy.context import HeadPairs, WaitToken
from simulst.search import JointOptions
from simulst.search.terms import Terms, terms_of

LEAST_SAMPLES = SAMPLE_RATE // 10  # convolutions and statistics of features need some audio


@dataclass(frozen=True)
class Encoded:
    """Encoder frames (T, width).

    heard: how many of the first are of speech and no padding.
    silence: how many of the last are the same for all windows, as they are of silence.
    """

    frames: Tensor
    heard: int
    silence: int = 0


class Architecture:
    """A loaded model with what turns audio into its input and tokens into text.

    path: of the model, for errors.
    """

    library = ""  # the class of transformers that the weights are loaded as; empty: the one for speech-to-text models
    extracting: ClassVar[dict[str, Any]] = {"padding": True}  # how the extractor makes features of windows
    session_class: Any = None  # serves an utterance; None: a HuggingFaceSession
    shows_previous = False  # whether the prompt has the text before the window
    alignment_heads: HeadPairs = ()  # those that show when a token was spoken; none: all
    wait: WaitToken | None = None  # that the model learnt

    def __init__(self, path: Any, model: Any, extractor: Any, tokenizer: Any, options: HuggingFaceOptions) -> None:
        self.path, self.model, self.extractor, self.tokenizer, self.options = path, model, extractor, tokenizer, options
        channels = getattr(model.config, "input_feat_per_channel", None)
        self._check_features({"sampling_rate": SAMPLE_RATE} | ({"num_mel_bins": channels} if channels else {}))
        self.languages = LanguageTokens(tokenizer, path)
        ends = self._setting("eos_token_id")
        if ends is None:
            raise SimulstError(f"{path}: config.json and generation_config.json name no eos_token_id; add it.")
        self.ends: Tokens = tuple(ends if isinstance(ends, list) else [ends])
        self.eos, *other_ends = self.ends
        bad_words = self._setting("bad_words_ids") or []
        never = [*(self._setting("suppress_tokens") or []), *other_ends, *(w[0] for w in bad_words if len(w) == 1)]
        self.never: Tokens = tuple(token for token in never if 0 <= token != self.eos)
        self.never_first: Tokens = tuple(self._setting("begin_suppress_tokens") or ())

    def _check_features(self, wanted: Mapping[str, int]) -> None:
        """Raise SimulstError unless the extractor's features are these."""
        for name, value in wanted.items():
            if (found := getattr(self.extractor, name, value)) != value:
                raise SimulstError(
                    f"{self.path}: preprocessor_config.json has {name} {found}, but the model needs {value}; copy the "
                    "model's own file."
                )

    @property
    def encoder(self) -> Any:
        """The part that hears."""
        return self.model.get_encoder()

    @property
    def window_seconds(self) -> float:
        """The most audio that is encoded at once."""
        return min(self.longest_seconds, self.options.window)

    @property
    def longest_seconds(self) -> float:
        """The most audio that the encoder can take."""
        return math.inf

    @property
    def positions(self) -> int:
        """The most tokens that the decoder can read, the prompt among them."""
        config = self.model.get_decoder().config
        names = ("max_target_positions", "max_position_embeddings")
        return next((size for name in names if (size := getattr(config, name, None))), 1 << 20)

    def prompt(self, source: str, target: str, previous: Tokens = ()) -> Tokens:
        """What stands before a text. previous: tokens of the text before the window, if `shows_previous`.

        Raises SimulstError: a language that the model does not have.
        """
        start = self._setting("decoder_start_token_id")
        if start is None:
            start = self._setting("bos_token_id")
        if start is None:
            raise SimulstError(f"{self.path}: generation_config.json names no decoder_start_token_id; add it.")
        forced = self._setting("forced_bos_token_id")
        if self.languages:
            return (start, *self.languages.prefix(target))
        return (start,) if forced is None else (start, forced)

    def text(self, tokens: Tokens) -> str:
        """Plain text; a character cut in two ends in U+FFFD."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def tokens(self, text: str, target: str) -> Tokens:
        """The tokens of a sentence, as the model would write them after its prompt. target: its language."""
        target_pieces = hasattr(self.tokenizer, "spm_target")  # Marian's spell source and target in different ways
        return tuple(
            self.tokenizer(**{"text_target" if target_pieces else "text": text}, add_special_tokens=False).input_ids
        )

    def inputs(self, windows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        """What the encoder reads of several windows of audio, (n,) float32 each, padded to the longest of them."""
        # Some extractors divide features by their deviation, which is 0 in digital silence.
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.extractor(list(windows), sampling_rate=SAMPLE_RATE, return_tensors="pt", **self.extracting)
        return {name: torch.where(values.isfinite(), values, 0) for name, values in found.items()}

    def terms(self, background: Background, options: JointOptions, language: str) -> Terms | None:
        """The terms of a recording in these tokens, if they get a bonus."""
        spell = functools.partial(self.tokens, target=language)
        return terms_of(background, options, language, spell, self.text, len(self.tokenizer))

    def prepare(self) -> None:
        """Compute what all windows need. No utterance is charged for it then."""

    def encode(self, samples: np.ndarray) -> Encoded:
        """Encoder frames of a window of audio, (n,) float32."""
        return self.encode_together([samples])[0]

    def padded(self, samples: int) -> int:
        """How many samples the encoder reads for a window of so many. Windows share a batch if this is equal."""
        return samples

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Encoded]:
        """Encoder frames of windows that may share a batch."""
        if windows[0].size < LEAST_SAMPLES:
            return [Encoded(torch.zeros(0, 1, device=self.model.device), 0)] * len(windows)
        inputs = {name: value.to(self.model.device) for name, value in self.inputs(windows).items()}
        with torch.inference_mode():
            return self.encoded(
                {name: v.to(self.model.dtype) if v.is_floating_point() else v for name, v in inputs.items()}
            )

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        """Encoder frames of windows, from what `inputs` gave."""
        output = self.model.get_encoder()(**inputs)
        frames, mask = output.last_hidden_state, getattr(output, "attention_mask", None)
        heard = self.frames_of(inputs, frames.shape[1]) if mask is None else int(mask[0].sum())
        return [Encoded(one[:heard].clone(), heard) for one in frames]  # no stream holds others' memory

    def frames_of(self, inputs: dict[str, Tensor], frames: int) -> int:
        """How many of the encoder's frames of each window the decoder may see."""
        return frames

    def projection(self, encoded: Encoded) -> Project | None:
        """See `Memory` of decoder.py."""
        return None

    def _setting(self, name: str) -> Any:
        """What the checkpoint says of how it generates: newer ones in a file of its own, older ones in config.json."""
        places = (self.model.generation_config, self.model.config, self.model.get_decoder().config)
        return next((value for place in places if (value := getattr(place, name, None)) is not None), None)


class Seamless(Architecture):
    """SeamlessM4T and its second version, which read two frames of 10 ms at once; an adapter makes frames of 160 ms."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._check_features({"stride": 2, "num_mel_bins": self.model.config.feature_projection_input_dim // 2})

    def frames_of(self, inputs: dict[str, Tensor], frames: int) -> int:
        mask = inputs.get("attention_mask")
        if mask is None:
            return frames
        config = self.model.config  # of its adapter's convolution, whose padding adds a frame
        seen = int(mask[0].sum()) + 2 * (config.adaptor_kernel_size // 2) - config.adaptor_kernel_size
        return min(frames, seen // config.adaptor_stride + 1)


class Whisper(Architecture):
    """Whisper writes the source language or English; its encoder takes 30 s, see simulst/models/whisper."""

    shows_previous = True

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._check_features({"hop_length": FRAME, "n_fft": FFT, "feature_size": self.model.config.num_mel_bins})
        special = range(self.eos + 1, self.model.config.vocab_size)  # languages, tasks, times
        self.never = tuple({*self.never, *special})
        pairs = tuple((layer, head) for layer, head in self._setting("alignment_heads") or ())
        layers, heads = sizes_of(self.model)
        # Distilled models may name the heads of their teacher, which has more layers.
        if all(layer < layers and head < heads for layer, head in pairs):
            self.alignment_heads = pairs

    @property
    def longest_seconds(self) -> float:
        return self._states * 2 * FRAME / SAMPLE_RATE

    def prompt(self, source: str, target: str, previous: Tokens = ()) -> Tokens:
        before = (self._special("<|startofprev|>"), *previous) if previous else ()
        return before + self._pairs.prompt(source, target, self._special)

    @property
    def _pairs(self) -> Languages:
        """The tokenisers of models that hear English alone have the languages, too."""
        english = self._setting("is_multilingual") is False or self.model.config.vocab_size == ENGLISH_VOCABULARY
        return Languages(self.path, {} if english else self.languages.numbers, self.options.other_targets)

    @property
    def language_pairs(self) -> dict[str, tuple[str, ...]]:
        """Spoken → written languages: English, and the spoken one."""
        return self._pairs.pairs

    @torch.inference_mode()
    def spoken_languages(self, samples: np.ndarray) -> dict[str, float]:
        """How probable each language is in the beginning of audio, by the token after <|startoftranscript|>."""
        encoded = self.encode(samples[: round(self.window_seconds * SAMPLE_RATE)])
        start = self._special("<|startoftranscript|>")
        decoder = SteppedDecoder(self.model, (start,), (), (), encoded.heard, self.projection(encoded))
        memory = decoder.memory()
        memory.append(encoded.frames)
        log_p = decoder.step(torch.tensor([0]), decoder.start(), memory)[0][0]
        numbers = self.languages.numbers
        return dict(zip(numbers, log_p[list(numbers.values())].softmax(0).tolist(), strict=True))

    def tokens(self, text: str, target: str) -> Tokens:
        return super().tokens(f" {text}" if unit_of(target) == "word" else text, target)

    def inputs(self, windows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        """Log-mel features of the longest window and `padding_seconds`: less than 30 s."""
        count = self.padded(max(window.size for window in windows)) // FRAME
        features = [log_mel(window, count, self._bands) for window in windows]
        return {"input_features": torch.from_numpy(np.stack(features))}

    def prepare(self) -> None:
        _ = self._silence_projected, self._numbers

    def padded(self, samples: int) -> int:
        return frames_of(samples, self.options.padding_seconds, self.longest_seconds) * FRAME

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Encoded]:
        together = self._encode(self.inputs(windows)["input_features"])
        silence = self._silence[together.shape[1] :]
        return [
            Encoded(torch.cat([frames, silence]), min(self._states, math.ceil(window.size / FRAME / 2)), len(silence))
            for frames, window in zip(together, windows, strict=True)
        ]

    def projection(self, encoded: Encoded) -> Project:
        return functools.partial(self._projected, silence=encoded.silence)

    @torch.inference_mode()
    def _projected(self, frames: Tensor, silence: int) -> Pairs:
        """Keys and values of the decoder's source attention. Those of the last frames, of silence, are known."""
        new = len(frames) - silence
        known = [part[:, :, new:] for pair in self._silence_projected for part in pair] if silence else []
        parts: list[Tensor] = []
        for layer in self.model.get_decoder().layers:
            for linear in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj):
                part = linear(frames[:new]).unflatten(1, (layer.encoder_attn.num_heads, -1)).transpose(0, 1)[None]
                parts.append(torch.cat([part, known[len(parts)]], 2) if silence else part.contiguous())
        return tuple(zip(parts[::2], parts[1::2], strict=True))

    @torch.inference_mode()
    def _encode(self, features: Tensor) -> Tensor:
        """Frames (n, t, width) of features (n, mels, 2 t). The library's own encoder demands that they fill 30 s."""
        encoder = self.model.get_encoder()
        x = features.to(self.model.device, self.model.dtype)
        gelu = torch.nn.functional.gelu
        x = gelu(encoder.conv2(gelu(encoder.conv1(x)))).transpose(1, 2)
        x = x + encoder.embed_positions.weight[: x.shape[1]]
        for layer in encoder.layers:
            x = layer(x, None)
        return encoder.layer_norm(x)

    @cached_property
    def _silence(self) -> Tensor:
        return self._encode(torch.full((1, self._bands.count, 2 * self._states), SILENCE))[0]

    @cached_property
    def _silence_projected(self) -> Pairs:
        return self._projected(self._silence, silence=0)

    @cached_property
    def _bands(self) -> MelBands:
        return MelBands(np.asarray(self.extractor.mel_filters, np.float32).T)

    @property
    def _states(self) -> int:
        return self.model.config.max_source_positions

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())  # the tokeniser makes it again at each call, in 50 ms

    def _special(self, token: str) -> int:
        number = self._numbers.get(token)
        if number is None:
            raise SimulstError(f"{self.path}: the tokeniser has no token {token}; copy the model's own.")
        return number


class Canary(Architecture):
    """NVIDIA's Canary, whose prompt names both languages; the library's processor writes it."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        channels = self.model.config.encoder_config.num_mel_bins
        self._check_features({"hop_length": FRAME, "n_fft": 512, "win_length": 400, "feature_size": channels})
        self._known = functools.cache(self._asked)

    def prompt(self, source: str, target: str, previous: Tokens = ()) -> Tokens:
        return self._known(code_of(source), code_of(target))

    def _asked(self, source: str, target: str) -> Tokens:
        from transformers.models.canary.processing_canary import LANGUAGE_CODE_TO_NAME, CanaryProcessor

        for language in (source, target):
            if language not in LANGUAGE_CODE_TO_NAME:
                known = ", ".join(sorted(LANGUAGE_CODE_TO_NAME))
                raise SimulstError(f"{self.path}: Canary has no language '{language}'; it has {known}.")
            self.languages.find(language)
        processor = CanaryProcessor(self.extractor, self.tokenizer, self.tokenizer.chat_template)
        silence = np.zeros(LEAST_SAMPLES, np.float32)  # the library writes no prompt without audio
        try:
            asked: Any = processor.apply_transcription_request(silence, source_language=source, target_language=target)
        except Exception as error:  # a template is a program, which may raise anything
            said = first_line(error)
            raise SimulstError(
                f"{self.path}: chat_template.jinja gives no prompt ({said}); copy the model's own."
            ) from error
        return tuple(asked["decoder_input_ids"][0].tolist())


SPEECH_LLMS = "simulst.models.speech_llm.architectures"
ARCHITECTURES: dict[str, type[Architecture] | str] = {
    "whisper": Whisper,
    "seamless_m4t": Seamless,
    "seamless_m4t_v2": Seamless,
    "canary": Canary,
    "granite_speech": f"{SPEECH_LLMS}:GraniteSpeech",
    "phi4_multimodal": f"{SPEECH_LLMS}:Phi4Multimodal",
    "qwen2_5_omni": f"{SPEECH_LLMS}:Qwen25Omni",
    "qwen2_5_omni_thinker": f"{SPEECH_LLMS}:Qwen25Omni",
    "qwen2_audio": f"{SPEECH_LLMS}:Qwen2Audio",
    "qwen3_asr": f"{SPEECH_LLMS}:Qwen3ASR",
    "voxtral": f"{SPEECH_LLMS}:Voxtral",
}
"""By the type of model that config.json names; all other types are an `Architecture`."""


def find_architecture(kind: str, named: str, where: str) -> type[Architecture]:
    """The class for a model. kind: its type. named: by the option `architecture`; empty: the class is that of its type.

    Raises SimulstError: there is none of this name, or it is something else; a type that two classes claim.
    """
    if not named and kind not in names("architecture", ARCHITECTURES):
        return Architecture
    found = find("architecture", named or kind, ARCHITECTURES, where)
    if not (isinstance(found, type) and issubclass(found, Architecture)):
        raise SimulstError(
            f"{where}: the architecture '{named or kind}' is not derived from {Architecture.__module__}.Architecture; "
            "see docs/huggingface.md."
        )
    return found
