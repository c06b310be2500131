"""When target words are spoken, by a model that translates: while it is told to write a reference.

A CTC layer for the translation writes from left to right while it hears, so each word has a frame at which it is known:
that of the best path. A model without one attends to the speech when it writes a word: the times are those of its heads
for alignment, and never go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.calls import run_alone, steps_of
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.languages import unit_of
from simulst.models.espnet.encoding import encode_whole
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.vocabulary import BLANK, WORD_BEGIN
from simulst.needs import Need
from simulst.opening import Opening
from simulst.session import Model, Window
from simulst.words import CUT, completed_by, split

Times = tuple[Sequence[str], Sequence[float]]
"""The pieces that a text is spelled with, and the end of each, in seconds."""
Align = Callable[[np.ndarray, str], Times | None]
"""Of audio, (n,) float32, and its text. None: the model can't spell it, or it is too long."""


def write_times(align: Align, data: Path, out: Path, target: str) -> None:
    """Write a CTM file of the references' words. Texts that can't be aligned are left out.

    Raises SimulstError: no text is aligned; `read_data_dir` raises.
    """
    utterances, lines, aligned, unit = read_data_dir(data, target), list[str](), 0, unit_of(target)
    for utterance in tqdm(utterances, desc="times of words", unit="utt"):
        text = utterance.reference.strip()
        found = align(load_audio(utterance.wav, utterance.start, utterance.end), text) if text else None
        ends, words = completed_by(found[0], unit) if found else [], split(text, unit)
        if found is None or len(ends) != len(words):
            continue
        aligned += 1
        begin = 0.0
        for end, word in zip(ends, words, strict=True):
            time = max(begin, found[1][end])
            lines.append(f"{utterance.name} 1 {begin:.3f} {time - begin:.3f} {word.strip()}\n")
            begin = time
    if not aligned:
        raise SimulstError(f"{data}: the model can align no reference; give data like its training's.")
    write_atomically(out, "".join(lines))
    print(f"{out}: {aligned} of {len(utterances)} utterances")


def by_ctc(model: ESPnet) -> Align:
    """By the CTC layer for the translation. Raises SimulstError: the model has none."""
    if not model.has_ctc:
        raise SimulstError(f"{model.path}: the model has no CTC layer for the translation; train with st_mtlalpha.")

    def align(samples: np.ndarray, text: str) -> Times | None:
        log_probs = torch.cat([model.ctc(frames) for frames in encode_whole(model, samples)])
        tokens = model.vocabulary.spell(text)
        frames = best_frames(log_probs, tokens)
        seconds = samples.size / SAMPLE_RATE / len(log_probs)
        pieces = [model.vocabulary.tokens[token].replace(WORD_BEGIN, " ") for token in tokens]
        return None if frames is None else (pieces, [(frame + 1) * seconds for frame in frames])

    return align


def by_attention(model: Model, name: str, source: str, target: str) -> Align:
    """By attention, or what else the model's sessions have for times of tokens. name: of the model, for errors.

    Raises SimulstError: the model knows no times, or not these languages.
    """
    if Need.END_TIMES not in model.session(Opening(source, target)).traits.gives:
        raise SimulstError(f"{name}: the model knows no times of words; give one of Hugging Face's, or Whisper.")

    def align(samples: np.ndarray, text: str) -> Times | None:
        session = model.session(Opening(source, target))
        if isinstance(session, Window) and samples.size > session.limit():
            return None
        run_alone(steps_of(session.extend(samples, True)))
        tokens = session.spell(text)
        whole = session.text(tokens).strip()
        lengths = [len(session.text(tokens[:end]).rstrip(CUT).lstrip()) for end in range(1, len(tokens))]
        bounds = [0, *(min(length, len(whole)) for length in lengths), len(whole)]
        return [whole[begin:end] for begin, end in pairwise(bounds)], session.end_times(tokens)

    return align


def best_frames(log_probs: torch.Tensor, tokens: Sequence[int]) -> list[int] | None:
    """The last frame of each token on the most probable CTC path. None: there are no tokens, or too few frames.

    log_probs: (T, V).
    """
    from torchaudio.functional import forced_align

    repeats = sum(one == other for one, other in pairwise(tokens))
    if not tokens or len(log_probs) < len(tokens) + repeats:
        return None
    targets = torch.tensor([tokens], dtype=torch.int32)
    [path], _ = forced_align(log_probs[None].float().cpu().contiguous(), targets, blank=BLANK)
    ends: list[int] = []
    last = BLANK
    for frame, label in enumerate(path.tolist()):
        if label != BLANK and label == last:
            ends[-1] = frame
        elif label != BLANK:
            ends.append(frame)
        last = label
    return ends
