"""The peers that Whisper's talks are compared with: ufal/whisper_streaming and ufal/SimulStreaming, with our weights.

Each is used from a checkout of its own, as its simulation from a file uses it if computation takes no time: audio comes
in pieces of a chunk, or of 40 ms with its voice activity controller, which cuts the stream at pauses of half a second.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.errors import SimulstError

CONTROLLED = 0.04  # seconds of a piece with the voice activity controller, both peers' default
_NOWHERE = io.StringIO()
_NOWHERE.write = len  # type: ignore[method-assign]


class Peer:
    """An online processor of a peer.

    online: has init(), insert_audio_chunk(audio), process_iter() and finish().
    text: of what the last two return, the text that is final.
    seconds: of audio that it is given at a time.
    """

    def __init__(self, online: Any, text: Callable[[Any], str], seconds: float) -> None:
        self._online, self._text, self.piece = online, text, round(seconds * SAMPLE_RATE)

    def begin(self) -> None:
        """Forget the recording before."""
        self._online.init()

    def hear(self, piece: np.ndarray, last: bool) -> str:
        """Give it a piece of audio; returns the text that it wrote. last: whether the recording ends with the piece."""
        with contextlib.redirect_stdout(_NOWHERE):
            self._online.insert_audio_chunk(piece)
            written = self._text(self._online.process_iter())
            # With its controller, a peer has ended what a pause ended. whisper_streaming would write it again.
            if last and getattr(self._online, "status", "voice") == "voice":
                written += self._text(self._online.finish())
            return written


def whisper_streaming(checkout: Path, model: Path, language: str, seconds: float, pauses: bool, threads: int) -> Peer:
    """ufal/whisper_streaming (local agreement, faster-whisper) in int8. Its own code loads the model to CUDA.

    model: in CTranslate2's form. language: spoken. seconds: of its chunk. pauses: whether pauses cut the stream.
    """
    _import_from(checkout, "whisper_online.py")
    import whisper_online
    from faster_whisper import WhisperModel

    class OnCpu(whisper_online.FasterWhisperASR):
        def load_model(self, modelsize: Any = None, cache_dir: Any = None, model_dir: Any = None) -> WhisperModel:
            return WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=threads)

    recogniser = OnCpu(language, model_dir=str(model))
    recogniser.set_translate_task()
    if pauses:
        with _local_detector():
            online = whisper_online.VACOnlineASRProcessor(seconds, recogniser, logfile=_NOWHERE)
    else:
        online = whisper_online.OnlineASRProcessor(recogniser)
    return Peer(online, lambda found: found[2], CONTROLLED if pauses else seconds)


def simulstreaming(
    checkout: Path, model: Path, language: str, seconds: float, pauses: bool, threads: int, beam: int, frames: int
) -> Peer:
    """ufal/SimulStreaming (AlignAtt, PyTorch) in float32, with the heads that align the model's text.

    model: in Hugging Face's form, from local/whisper_to_huggingface.py. frames: of AlignAtt. The others are those of
    `whisper_streaming`.
    """
    import torch

    torch.set_num_threads(threads)
    _import_from(checkout, "simulstreaming_whisper.py")
    import simulstreaming_whisper
    from simulstreaming.whisper.simul_whisper import simul_whisper
    from simulstreaming.whisper.whisper_streaming.vac_online_processor import VACOnlineASRProcessor

    simul_whisper.load_model = lambda **_: _openai_whisper(model)
    recogniser = simulstreaming_whisper.SimulWhisperASR(
        language=language,
        model_path=str(model),
        cif_ckpt_path=None,
        frame_threshold=frames,
        audio_max_len=30.0,
        audio_min_len=0.0,
        segment_length=seconds,
        beams=beam,
        task="translate",
        decoder_type="beam" if beam > 1 else "greedy",
        never_fire=False,
        init_prompt=None,
        static_init_prompt=None,
        max_context_tokens=None,
        logdir=None,
    )
    online = simulstreaming_whisper.SimulWhisperOnline(recogniser)
    if pauses:
        with _local_detector():
            online = VACOnlineASRProcessor(seconds, online)
    return Peer(online, lambda found: found.get("text", ""), CONTROLLED if pauses else seconds)


def _import_from(checkout: Path, name: str) -> None:
    if not (checkout / name).is_file():
        raise SimulstError(f"{checkout}: no {name}; give a checkout of the peer's repository.")
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))


@contextlib.contextmanager
def _local_detector() -> Any:
    """The detector of pauses from its package: the peers ask torch's hub for it."""
    import torch
    from silero_vad import load_silero_vad

    usual = torch.hub.load
    threads = torch.get_num_threads()
    torch.hub.load = lambda *_, **__: (load_silero_vad(), None)
    try:
        yield
    finally:
        torch.hub.load = usual
        torch.set_num_threads(threads)


PARTS = {
    "model.": "",
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens": "decoder.token_embedding",
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "layers.": "blocks.",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "self_attn": "attn",
    "encoder_attn": "cross_attn",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
}
"""Parts of the weights' names: Hugging Face's, and openai/whisper's. The first ones are replaced first."""


def _openai_whisper(model: Path) -> Any:
    """SimulStreaming's own copy of openai/whisper, with the weights of a Hugging Face folder."""
    import torch
    from simulstreaming.whisper.simul_whisper.whisper.model import ModelDimensions, Whisper
    from transformers import WhisperForConditionalGeneration

    theirs = WhisperForConditionalGeneration.from_pretrained(model)
    config, weights = theirs.config, {}
    for name, value in theirs.state_dict().items():
        for part, other in PARTS.items():
            name = name.replace(part, other)
        weights[name] = value
    del weights["proj_out.weight"]  # the embedding
    whisper = Whisper(
        ModelDimensions(
            n_mels=config.num_mel_bins,
            n_audio_ctx=config.max_source_positions,
            n_audio_state=config.d_model,
            n_audio_head=config.encoder_attention_heads,
            n_audio_layer=config.encoder_layers,
            n_vocab=config.vocab_size,
            n_text_ctx=config.max_target_positions,
            n_text_state=config.d_model,
            n_text_head=config.decoder_attention_heads,
            n_text_layer=config.decoder_layers,
        )
    )
    whisper.load_state_dict(weights)
    heads = torch.zeros(config.decoder_layers, config.decoder_attention_heads, dtype=torch.bool)
    for layer, head in vars(theirs.generation_config)["alignment_heads"]:
        heads[layer, head] = True
    whisper.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return whisper.eval()
