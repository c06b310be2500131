"""When target words are spoken, by the CTC layer of a model that translates: the best alignment of a reference.

Such a layer writes a translation from left to right, while it hears. So each word has a frame at which it is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tqdm import tqdm

from simulst.audio.read import load_audio
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import write_atomically
from simulst.languages import unit_of
from simulst.models.espnet.encoding import encode_whole
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.vocabulary import BLANK, WORD_BEGIN
from simulst.words import completed_by, split


def write_times(model: ESPnet, data: Path, out: Path, target: str) -> None:
    """Write a CTM file of the references' words. Texts that the model can't spell, or that are too long, are left out.

    Raises SimulstError: the model has no CTC layer for the translation; no text is aligned; `read_data_dir` raises.
    """
    if not model.has_ctc:
        raise SimulstError(f"{model.path}: the model has no CTC layer for the translation; train with st_mtlalpha.")
    utterances, lines, aligned, unit = read_data_dir(data, target), list[str](), 0, unit_of(target)
    for utterance in tqdm(utterances, desc="times of words", unit="utt"):
        samples = load_audio(utterance.wav, utterance.start, utterance.end)
        log_probs = torch.cat([model.ctc(frames) for frames in encode_whole(model, samples)])
        tokens = model.vocabulary.spell(utterance.reference)
        pieces = [model.vocabulary.tokens[token].replace(WORD_BEGIN, " ") for token in tokens]
        ends, words = completed_by(pieces, unit), split(utterance.reference.strip(), unit)
        frames = best_frames(log_probs, tokens)
        if frames is None or len(ends) != len(words):
            continue
        aligned += 1
        seconds = utterance.seconds / len(log_probs)
        begin = 0.0
        for end, word in zip(ends, words, strict=True):
            time = max(begin, (frames[end] + 1) * seconds)
            lines.append(f"{utterance.name} 1 {begin:.3f} {time - begin:.3f} {word.strip()}\n")
            begin = time
    if not aligned:
        raise SimulstError(f"{data}: {model.path} can align no reference; give data like its training's.")
    write_atomically(out, "".join(lines))
    print(f"{out}: {aligned} of {len(utterances)} utterances")


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
