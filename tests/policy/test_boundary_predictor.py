"""The boundary predictor: the same outputs piece by piece as at once, and files that can be trusted."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tones import shares

from simulst.calls import Steps, run_alone
from simulst.errors import SimulstError
from simulst.policy.boundary_predictor import BoundaryPredictor, Heard, Sizes, load_predictor
from simulst.streams.driver import Driver

STEP = 640  # samples per output


@cache
def predictor(mels: int = 20) -> BoundaryPredictor:
    torch.manual_seed(1)
    made = BoundaryPredictor(8, Sizes(mels, channels=3, embedding=6, hidden=7))
    made.mean, made.deviation = torch.linspace(-9, -3, mels), torch.linspace(1, 2, mels)
    with torch.no_grad():
        for weights in made.parameters():
            weights *= 3  # so that small differences show
    return made.eval()


def sound(seed: int, samples: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    loudness = np.repeat(random.choice([0, 0.01, 1], samples // 800 + 1), 800)[:samples]
    return (random.normal(0, 0.1, samples) * loudness).astype(np.float32)


def whole(made: BoundaryPredictor, audio: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return made(made.features(audio)[None])[0][0]


@settings(max_examples=60)
@given(st.integers(0, 99), st.lists(st.integers(1, 12), min_size=1, max_size=8), st.sampled_from([20, 23]))
def test_piece_by_piece_is_as_at_once(seed: int, lengths: list[int], mels: int) -> None:
    """lengths: of the pieces, in outputs; their sizes may even change."""
    audio = sound(seed, sum(lengths) * STEP)
    expected = whole(predictor(mels), audio)
    assert expected.shape == (sum(lengths), 2)
    listener, found = Heard(predictor(mels)), []
    for piece in np.split(audio, np.cumsum(lengths)[:-1] * STEP):
        logits, listener = run_alone(listener.logits(piece))
        found.append(logits)
    torch.testing.assert_close(torch.cat(found), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("frames", [100, 48])
def test_shares_of_pieces(frames: int) -> None:
    """Of the paper's two piece sizes, 25 and 12 outputs: votes, not means of probabilities."""
    audio = sound(3, 10 * frames * 160)
    labels = whole(predictor(), audio).argmax(dim=1).reshape(10, frames // 4).tolist()
    assert 0 < sum(map(sum, labels)) < 10 * frames // 4
    assert shares(predictor(), np.split(audio, 10)) == [sum(row) / len(row) for row in labels]


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=2, max_size=5))
def test_together_is_as_alone(lengths: list[list[int]]) -> None:
    """Several utterances, whose pieces are of different lengths, and of which some end early."""
    audios = [sound(seed, sum(one) * STEP) for seed, one in enumerate(lengths)]
    pieces = [np.split(audio, np.cumsum(one)[:-1] * STEP) for audio, one in zip(audios, lengths, strict=True)]
    found: list[list[torch.Tensor]] = [[] for _ in lengths]

    def listen(number: int) -> Steps[None]:
        listener = Heard(predictor())
        for piece in pieces[number]:
            logits, listener = yield from listener.logits(piece)
            found[number].append(logits)

    driver = Driver()
    for number in range(len(lengths)):
        driver.run(listen(number))
    driver.finish()
    for audio, logits in zip(audios, found, strict=True):
        torch.testing.assert_close(torch.cat(logits), whole(predictor(), audio), atol=1e-5, rtol=0)


def test_little_audio_is_kept() -> None:
    heard = Heard(predictor())
    for _ in range(3):
        _, heard = run_alone(heard.share(sound(0, 25 * STEP)))
        assert heard.audio.size < 2 * STEP and heard.audio.base is None


def test_equal_pieces_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, label = [], BoundaryPredictor.label_pieces
    monkeypatch.setattr(
        BoundaryPredictor, "label_pieces", lambda self, some: sizes.append(len(some)) or label(self, some)
    )
    driver = Driver(longest_wait=np.inf)
    found = [driver.run(Heard(predictor()).share(sound(seed, 3 * STEP))) for seed in range(5)]
    driver.finish()
    assert sizes == [5] and len({one.result()[0] for one in found}) > 1
    assert len({one.result()[1].state.feature.untyped_storage().data_ptr() for one in found}) == 5


def test_an_output_knows_the_newest_audio_and_none_that_is_later() -> None:
    audio = sound(5, 10 * STEP) + np.float32(0.01)
    before = whole(predictor(), audio)
    for output in range(9):
        end = (output + 1) * STEP
        later, earlier = audio.copy(), audio.copy()
        later[end:] *= -3
        earlier[end - 160 : end] *= -3
        assert torch.equal(whole(predictor(), later)[: output + 1], before[: output + 1])
        assert not torch.equal(whole(predictor(), earlier)[output], before[output])


def test_features_are_espnets_and_normalised() -> None:
    from espnet2.asr.frontend.default import DefaultFrontend

    audio = sound(6, 4 * STEP)
    theirs = DefaultFrontend(n_fft=512, win_length=400, hop_length=160, n_mels=20)
    expected = theirs(torch.from_numpy(audio)[None], torch.tensor([audio.size]))[0][0]
    torch.testing.assert_close(predictor().features(audio), expected[:15], atol=1e-4, rtol=0)
    # A shift and a scale of the features that the normalisation takes back change nothing, at the padding neither.
    other = BoundaryPredictor(8, predictor().sizes)
    other.load_state_dict(predictor().state_dict())
    other.mean, other.deviation = other.mean * 2 + 1, other.deviation * 2
    features = predictor().features(audio)[None]
    torch.testing.assert_close(predictor()(features)[0], other(features * 2 + 1)[0], atol=1e-4, rtol=0)


def test_the_papers_sizes() -> None:
    made = BoundaryPredictor()
    shapes = {name: tuple(weights.shape) for name, weights in made.state_dict().items()}
    assert made.tau == 100 and shapes["lstm.weight_ih_l0"] == (4 * 512, 256) and shapes["label.weight"] == (2, 512)
    assert whole(made, sound(0, 16000)).shape == (25, 2)


def test_a_file_holds_all(tmp_path: Path) -> None:
    predictor().save(tmp_path / "predictor.pth")
    loaded = load_predictor(tmp_path / "predictor.pth")
    assert (loaded.tau, loaded.sizes, loaded.training) == (8, predictor().sizes, False)
    audio = sound(2, 5 * STEP)
    assert torch.equal(whole(loaded, audio), whole(predictor(), audio))
    assert [path.name for path in tmp_path.iterdir()] == ["predictor.pth"]


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "predictor.pth"
    with pytest.raises(SimulstError, match=r"predictor\.pth: no such file; name a .*simulst prefix predictor"):
        load_predictor(path)
    for content in (b"", b"no checkpoint", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(SimulstError, match=r"predictor\.pth: not a readable checkpoint"):
            load_predictor(path)
    torch.save({"weights": Path("x")}, path)  # would run code
    with pytest.raises(SimulstError, match="not a readable checkpoint"):
        load_predictor(path)
    torch.save(predictor().state_dict(), path)
    with pytest.raises(SimulstError, match="not a boundary predictor"):
        load_predictor(path)
    predictor().save(path)
    good = torch.load(path, weights_only=True)
    torch.save({**good, "sample_rate": 8000}, path)
    with pytest.raises(SimulstError, match=r"predictor\.pth: trained on audio of 8000 Hz; 16000 Hz is needed"):
        load_predictor(path)
    torch.save({**good, "sizes": {**good["sizes"], "mels": 40}}, path)
    with pytest.raises(SimulstError, match=r"predictor\.pth: its weights are not of the sizes .*'mels': 40"):
        load_predictor(path)
