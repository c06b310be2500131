"""What differs between speech LLMs: how audio becomes embeddings, and the chat in which these stand.

`SpeechLLM` has what they share. Another type is a subclass, anywhere, that names the class of transformers and makes
embeddings of features: see docs/huggingface.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from simulst.audio.units import FRAME, SAMPLE_RATE
from simulst.background import NOTHING, Background
from simulst.errors import SimulstError
from simulst.hypotheses import Tokens
from simulst.languages import code_of
from simulst.models.cascade.chat import instructed, rendered
from simulst.models.huggingface.architectures import Architecture, Encoded
from simulst.models.huggingface.folder import find_folder
from simulst.models.huggingface.loading import read_part
from simulst.models.speech_llm.model import SpeechLLMSession
from simulst.options import read_json_fields

TRANSLATE = "Translate the speech from {source} to {target}. Write the translation and nothing else."
TRANSCRIBE = "Transcribe the speech in {source}. Write the words and nothing else."


Around = tuple[Tokens, Tokens]
"""The tokens before the audio, and those from there to where the answer begins."""


@dataclass(frozen=True)
class Template:
    """What is used of chat_template.json."""

    chat_template: str


class SpeechLLM(Architecture):
    """A speech LLM.

    system: what the chat begins with; empty: what the template begins with. Some templates would write today's date.
    """

    session_class = SpeechLLMSession
    shows_previous = True
    system = ""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        ends = {*self.ends, self.tokenizer.eos_token_id} - {None}
        self.ends = (self.eos, *sorted(ends - {self.eos}))
        self.never = tuple({*self.tokenizer.all_special_ids, self.audio_token} - ends)

    @property
    def audio_token(self) -> int:
        """The token that stands where the audio is."""
        return int(self.model.config.audio_token_id)

    @property
    def encoder(self) -> Any:
        return self.model.get_encoder(modality="audio")

    def prompt(self, source: str, target: str, previous: Tokens = ()) -> Tokens:
        before, after = self.chat(source, target, previous)
        return before + after

    def chat(self, source: str, target: str, previous: Tokens = (), background: Background = NOTHING) -> Around:
        """What stands around the audio. previous: of the text before the window.

        Raises SimulstError: a language that the model does not have; a chat template that has no place for audio.
        """
        return self.around(self.asked(source, target, previous, background), self.system)

    def asked(self, source: str, target: str, previous: Tokens, background: Background) -> str:
        """What the model is told to do."""
        instruction = self.options.instruction or (TRANSCRIBE if code_of(source) == code_of(target) else TRANSLATE)
        places = {"{source}": source, "{target}": target}
        source, target = (self.name_of(one) if place in instruction else "" for place, one in places.items())
        told = instructed(instruction, source, target, background)
        return f"{told}\nText before this: {self.text(previous).strip()}" if previous else told

    def name_of(self, language: str) -> str:
        """A language's English name. Raises SimulstError: it is not known."""
        from transformers.models.whisper.tokenization_whisper import LANGUAGES

        name = LANGUAGES.get(code_of(language))
        if name is None:
            raise SimulstError(
                f"{self.path}: no English name of the language '{language}' is known; write an instruction that names "
                "it (--model-option instruction=...)."
            )
        return name.title()

    def around(self, asked: str, system: str) -> Around:
        """What the chat template writes around the audio of a message, with what is asked after it."""
        token = self.tokenizer.convert_ids_to_tokens(self.audio_token)
        parts = [{"type": "audio", "audio": ""}, *([{"type": "text", "text": asked}] if asked else [])]
        for content in (parts, f"{token}{asked}"):  # some templates take nothing but text
            before, *after = self._rendered(content, system).split(token)
            if len(after) == 1:
                return self._tokens(before), self._tokens(after[0])
        raise SimulstError(f"{self.path}: the chat template has no place for audio ({token}); copy the model's own.")

    def _tokens(self, text: str) -> Tokens:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def template(self) -> str:
        """The chat template; empty: there is none. Older folders have that of audio in a file of its own."""
        path = find_folder(self.path) / "chat_template.json"
        if path.is_file() and not (path.parent / "chat_template.jinja").is_file():
            return read_json_fields(Template, path, "copy the model's own").chat_template
        return self.tokenizer.chat_template or ""

    def _rendered(self, content: Any, system: str) -> str:
        """The chat, with one place for all audio."""
        if not self.template:
            raise SimulstError(
                f"{self.path}: has no chat template (chat_template.jinja); copy it there, or give a model that was "
                "trained to chat."
            )
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": content}]
        try:
            return rendered(self.path, self.tokenizer, messages, chat_template=self.template)
        except SimulstError:
            if isinstance(content, str):
                raise
            return ""


class Qwen2Audio(SpeechLLM):
    """Qwen2-Audio, whose encoder reads 30 s; of its frames, 40 ms each, those of padding are left out."""

    library = "Qwen2AudioForConditionalGeneration"
    extracting: ClassVar = {"padding": "max_length", "return_attention_mask": True}

    @property
    def longest_seconds(self) -> float:
        return self.model.config.audio_config.max_source_positions * 2 * FRAME / SAMPLE_RATE

    @cached_property
    def template(self) -> str:
        """A template without audio is that of the language model alone; the library has the one of training."""
        from transformers import Qwen2AudioProcessor

        found, token = super().template, self.tokenizer.convert_ids_to_tokens(self.audio_token)
        return found if token in found else str(Qwen2AudioProcessor(self.extractor, self.tokenizer).chat_template)

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        from transformers.masking_utils import create_bidirectional_mask

        features, core = inputs["input_features"], self.model.model
        tower = core.audio_tower
        lengths, counts = tower._get_feat_extract_output_lengths(inputs["attention_mask"].sum(-1))
        heard = torch.arange((features.shape[-1] - 2) // 2 + 1, device=features.device) < lengths[:, None]
        mask = create_bidirectional_mask(tower.config, features.new_zeros(*heard.shape, 1), heard.long())
        frames = core.multi_modal_projector(tower(features, attention_mask=mask).last_hidden_state)
        return [Encoded(one[:count].clone(), int(count)) for one, count in zip(frames, counts, strict=True)]


class Voxtral(SpeechLLM):
    """Voxtral, which reads windows of 30 s as frames of 80 ms, those of padding among them. Its chat is no template."""

    library = "VoxtralForConditionalGeneration"

    def chat(self, source: str, target: str, previous: Tokens = (), background: Background = NOTHING) -> Around:
        known, names = self.tokenizer.get_vocab(), ("[INST]", "[BEGIN_AUDIO]", "[/INST]")
        if lacking := [name for name in names if name not in known]:
            raise SimulstError(f"{self.path}: the tokeniser has no token {lacking[0]}; copy the model's own.")
        begin, audio, end = (known[name] for name in names)
        asked = self._tokens(self.asked(source, target, previous, background))
        return (self.tokenizer.bos_token_id, begin, audio), (*asked, end)

    def inputs(self, windows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        long = self.model.config.audio_config.max_source_positions * 2  # frames that the encoder reads at once
        options = {"padding": True, "truncation": False, "pad_to_multiple_of": long * FRAME, "return_tensors": "pt"}
        found = self.extractor(list(windows), sampling_rate=SAMPLE_RATE, **options).input_features
        return {"input_features": found.unflatten(2, (-1, long)).transpose(1, 2)}  # (n, parts, mels, frames)

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        features = inputs["input_features"]
        frames = self.model.get_audio_features(features.flatten(0, 1)).pooler_output
        return of_each(frames, len(features))

    def encode_together(self, windows: Sequence[np.ndarray]) -> list[Encoded]:
        found = zip(super().encode_together(windows), windows, strict=True)
        return [replace(one, heard=min(one.heard, math.ceil(window.size / FRAME / 8))) for one, window in found]


class Qwen25Omni(SpeechLLM):
    """The thinker of Qwen2.5-Omni, whose encoder works in blocks of 2 s; a frame is 40 ms."""

    library = "Qwen2_5OmniThinkerForConditionalGeneration"

    def inputs(self, windows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        # The library pads them to 300 s, which takes long, and leaves out what is more than the audio.
        padded = [np.pad(window, (0, self.extractor.n_fft)) for window in windows]
        found = self.extractor(padded, sampling_rate=SAMPLE_RATE, padding=True, return_tensors="pt").input_features
        return {"input_features": found[:, :, : math.ceil(windows[0].size / FRAME)]}

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        features = inputs["input_features"]
        heard = torch.ones_like(features[:, 0], dtype=torch.int64)
        return of_each(self.model.get_audio_features(features, heard).last_hidden_state, len(features))


class Qwen3ASR(SpeechLLM):
    """Qwen3-ASR, which transcribes. It is told a context and the language, with which its answer begins."""

    library = "Qwen3ASRForConditionalGeneration"
    extracting: ClassVar = {"padding": True, "return_attention_mask": True}

    def chat(self, source: str, target: str, previous: Tokens = (), background: Background = NOTHING) -> Around:
        from transformers.models.qwen3_asr.processing_qwen3_asr import LANGUAGE_CODE_TO_NAME

        name = LANGUAGE_CODE_TO_NAME.get(code_of(source))
        if name is None or code_of(target) != code_of(source):
            raise SimulstError(
                f"{self.path}: the model can't write '{source}' as '{target}'; it writes what is said, in "
                f"{', '.join(sorted(LANGUAGE_CODE_TO_NAME))}."
            )
        before, after = self.around("", instructed(self.text(previous), source, target, background).strip())
        return before, after + self._tokens(f"language {name}<asr_text>")

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        features = inputs["input_features"]
        return of_each(self.model.get_audio_features(features, inputs["attention_mask"]).pooler_output, len(features))


class GraniteSpeech(SpeechLLM):
    """Granite Speech; three frames stand for 0.3 s. Without a system message, its template writes today's date."""

    library = "GraniteSpeechForConditionalGeneration"
    system = "You are Granite, developed by IBM. You are a helpful AI assistant."

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        if self.model.config.has_lora_adapter and not getattr(self.model, "_hf_peft_config_loaded", False):
            raise SimulstError(f"{self.path}: the model hears by an adapter, which needs the package peft; install it.")

    @property
    def encoder(self) -> Any:
        return self.model.model.encoder

    def inputs(self, windows: Sequence[np.ndarray]) -> dict[str, Tensor]:
        return {"input_features": self.extractor(list(windows)).input_features}

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        frames = self.model.get_audio_features(inputs["input_features"]).pooler_output
        return of_each(frames.flatten(0, 1), len(frames))


class Phi4Multimodal(SpeechLLM):
    """Phi-4-multimodal, with its adapter for speech; a frame is 80 ms."""

    library = "Phi4MultimodalForCausalLM"

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        adapter = find_folder(self.path) / "speech-lora"
        if adapter.is_dir():
            read_part(self.path, "speech-lora", lambda: self.model.load_adapter(adapter, adapter_name="speech"))

    @property
    def audio_token(self) -> int:
        return int(self.model.config.audio_config.audio_token_id)

    @property
    def encoder(self) -> Any:
        return self.model.model.embed_tokens_extend.audio_embed.encoder

    @property
    def positions(self) -> int:
        """Beyond the first ones, all that was read would have to be read again at other positions."""
        return min(super().positions, self.model.config.original_max_position_embeddings)

    def encoded(self, inputs: dict[str, Tensor]) -> list[Encoded]:
        sizes = inputs["audio_embed_sizes"]
        ids = torch.full((1, int(sizes.sum())), self.audio_token, device=sizes.device)
        embedding, rows = self.model.model.embed_tokens_extend.audio_embed, self.model.get_input_embeddings()(ids)
        return of_each(embedding(ids, rows, inputs["audio_input_features"], sizes)[0], len(sizes))


def of_each(frames: Tensor, windows: int) -> list[Encoded]:
    """The frames of windows that are equally long, from those of all, (windows * T, width)."""
    return [Encoded(one.clone(), len(one)) for one in frames.unflatten(0, (windows, -1))]
