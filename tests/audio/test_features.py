import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.audio.features import LogMel, log_mel_of
from simulst.errors import SimulstError

logging.disable(logging.WARNING)
from espnet2.asr.frontend.default import DefaultFrontend  # noqa: E402

logging.disable(logging.NOTSET)

# n_fft, win, hop: ESPnet's usual ones, those of its issue 4807, and odd ones
SIZES = [
    (512, 400, 160),
    (512, 512, 128),
    (512, 512, 160),
    (640, 640, 160),
    (400, 400, 400),
    (512, 100, 37),
    (65, 33, 7),
]
FRONTENDS: dict[tuple, DefaultFrontend] = {}


def frontend(n_fft: int, win: int | None, hop: int, window: str | None = "hann") -> DefaultFrontend:
    key = (n_fft, win, hop, window)
    if key not in FRONTENDS:
        FRONTENDS[key] = DefaultFrontend(
            n_fft=n_fft, win_length=win, hop_length=hop, window=window, n_mels=20 if n_fft > 100 else 4
        )
    return FRONTENDS[key]


def mel(theirs: DefaultFrontend) -> torch.Tensor:
    return theirs.logmel.melmat


def sound(seed: int, samples: int) -> np.ndarray:
    """Noise whose loudness changes, with digital silence in it."""
    random = np.random.default_rng(seed)
    audio = random.normal(0, 0.1, samples) * np.repeat(random.choice([0, 0.01, 1], samples // 800 + 1), 800)[:samples]
    return audio.astype(np.float32)


def in_pieces(ours: LogMel, audio: np.ndarray, cuts: list[int]) -> torch.Tensor:
    """All frames, each made as soon as it can be, from no more audio than must be kept."""
    done, frames = 0, []
    for cut in [*sorted(c for c in cuts if c < audio.size), audio.size]:
        ready, start = ours.count(cut, final=False), ours.keep_from(done)
        frames.append(ours.frames(audio[start:cut], start, done, ready))
        done = ready
    start = ours.keep_from(done)
    frames.append(ours.frames(audio[start:], start, done, ours.count(audio.size, final=True)))
    return torch.cat(frames)


@pytest.mark.filterwarnings("ignore:A window was not provided")
@settings(max_examples=150)
@given(
    st.sampled_from(SIZES),
    st.sampled_from(["hann", "hamming", "blackman", None]),
    st.integers(0, 99),
    st.integers(0, 9000),
    st.lists(st.integers(0, 9000), max_size=12),
)
def test_every_chunking_gives_espnets_features(
    sizes: tuple[int, int, int], window: str | None, seed: int, samples: int, cuts: list[int]
) -> None:
    n_fft, win, hop = sizes
    theirs = frontend(n_fft, win, hop, window)
    ours = LogMel(mel(theirs), n_fft, win, hop, window)
    audio = sound(seed, samples)
    frames = in_pieces(ours, audio, cuts)
    if samples <= n_fft // 2:
        assert len(frames) == 0
        return
    with torch.no_grad():
        whole, lengths = theirs(torch.from_numpy(audio)[None], torch.tensor([samples]))
    assert len(frames) == lengths[0] == ours.count(samples, final=True)
    torch.testing.assert_close(frames, whole[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("sizes", SIZES)
def test_frames_come_early_and_not_too_early(sizes: tuple[int, int, int]) -> None:
    """`count` is the most frames that do not depend on what follows."""
    n_fft, win, hop = sizes
    ours = LogMel(mel(frontend(n_fft, win, hop)), n_fft, win, hop, None)
    audio = np.random.default_rng(0).normal(0, 0.1, 3000).astype(np.float32)
    for samples in range(n_fft // 2 + 1, 2000, 13):
        count = ours.count(samples, final=False)
        other = audio.copy()
        other[samples:] *= 3
        same = ours.frames(audio, 0, 0, count + 1) == ours.frames(other, 0, 0, count + 1)
        assert same[:count].all() and not same[count].all()


def test_from_a_configuration() -> None:
    conf = {"fs": "16k", "n_fft": 512, "win_length": 400, "hop_length": 160}
    theirs = frontend(512, 400, 160)
    ours = log_mel_of(conf, mel(theirs), 16000)
    assert (ours.n_fft, ours.win_length, ours.hop, ours.dims) == (512, 400, 160, 20)
    usual = log_mel_of({}, mel(theirs), 16000)
    assert (usual.n_fft, usual.win_length, usual.hop) == (512, 512, 128)


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"fs": "8k"}, "8000 Hz"),
        ({"fs": 22050}, "22050 Hz"),
        ({"center": False}, "center: False"),
        ({"normalized": True}, "normalized"),
        ({"apply_stft": False}, "apply_stft"),
        ({"frontend_conf": {"use_wpe": True}}, "dereverberation"),
        ({"window": "wavy"}, "no window 'wavy'"),
        ({"n_fft": 1024}, "257 mel bins"),
        ({"win_length": 1024}, "window 1024"),
        ({"win_length": 100}, "hop 128"),
    ],
)
def test_what_is_not_implemented(conf: dict, words: str) -> None:
    with pytest.raises(SimulstError, match=words):
        log_mel_of(conf, mel(frontend(512, 400, 160)), 16000)
