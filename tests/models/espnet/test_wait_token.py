"""Wait tokens: what a model sees in training is what it has heard in decoding, and it waits as it was taught."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_espnet
import torch
from fake import pushed
from tiny_espnet import frames_of, noise

from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.hypotheses import WAIT
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.network.lagging import Chunked, lagging_of
from simulst.opening import Opening
from simulst.policy.commit import All, Hold
from simulst.policy.read import Chunk, Offline
from simulst.policy.stop import AnyOf, MaxTokens, Token
from simulst.search import BWBS, IBWBS, JointBeamSearch, SearchOptions
from simulst.stream import Stream
from simulst.streams.driver import Driver
from simulst.training.espnet import keep_ctc

LAGS = (0, 2)
SAMPLES = 80_000  # 5 s
CASES = {"contextual_block_conformer": (1680.0, 640.0), "conformer": (800.0, 400.0)}
COMMIT = All(last_word=True, punctuation=True)
GREEDY = JointBeamSearch(1, 0.0)
WITH_CTC = [GREEDY, JointBeamSearch(1, 0.3), JointBeamSearch(4, 0.3)]


@pytest.fixture(scope="module", params=CASES)
def taught(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[ESPnet, Any, Chunk]:
    """A model that learnt to write a word after each chunk, `lag` chunks late."""
    folder = tmp_path_factory.mktemp("taught")
    theirs = tiny_espnet.write_waiting(folder, request.param, CASES[request.param], LAGS)
    first_ms, ms = CASES[request.param]
    chunks = len(np.arange(first_ms, SAMPLES / 16, ms))
    model = load_model(folder / "waiting/exp/st")
    assert isinstance(model, ESPnet)
    texts = [[*model.vocabulary.lags[lag], *text_of(model, lag, chunks)] for lag in LAGS]
    length, eos = max(map(len, texts)), theirs.eos
    read = torch.tensor([[theirs.sos, *row, *[eos] * (length - len(row))] for row in texts])
    target = torch.tensor([[*row, eos, *[-1] * (length - len(row))] for row in texts])
    with torch.no_grad():
        speech = torch.from_numpy(np.stack([noise(SAMPLES, 7)] * len(LAGS)))
        frames, lengths = theirs.encode(speech, torch.tensor([SAMPLES] * len(LAGS)))
    optimiser = torch.optim.Adam(theirs.decoder.parameters(), 0.01)
    for _ in range(600):
        logits, _ = theirs.decoder(frames, lengths, read, torch.tensor([len(row) + 1 for row in texts]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if float(loss) < 0.05:
            break
    assert float(loss) < 0.05
    torch.save(theirs.state_dict(), folder / "waiting/exp/st/taught.pth")
    keep_ctc(folder / "tokens/begin.pth", folder / "waiting/exp/st")
    model = load_model(folder / "waiting/exp/st", checkpoint="taught.pth")
    assert isinstance(model, ESPnet)
    return model, theirs, Chunk(ms, first_ms)


def text_of(model: ESPnet, lag: int, chunks: int) -> list[int]:
    """Two words at the chunk with this number, one after each chunk from then on, and the last one at the end."""
    assert model.vocabulary.wait is not None
    a, b = words_of(model)
    found = []
    for chunk in range(chunks):
        found += [*([a, b] if chunk == lag else [a] if chunk > lag else []), model.vocabulary.wait]
    return [*found, b]


def words_of(model: ESPnet) -> tuple[int, int]:
    a, b = [n for n, token in enumerate(model.vocabulary.tokens) if len(token) > 2 and token[0] == "▁"][:2]
    return a, b


def stream_of(model: ESPnet, read: Any, lag: int, search: SearchOptions = GREEDY) -> Stream:
    return Stream(model.session(Opening("en", "de")), Decoding(read, COMMIT, Token(lag), search))


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("piece", [SAMPLES, 3000])
def test_a_model_that_was_taught_to_wait_waits(taught: tuple[ESPnet, Any, Chunk], lag: int, piece: int) -> None:
    model, _, read = taught
    stream = stream_of(model, read, lag)
    words = pushed(stream, noise(SAMPLES, 7), range(piece, SAMPLES, piece))
    ends = np.arange(read.initial_wait_ms, SAMPLES / 16, read.ms).tolist()
    assert stream.reads == [*ends, SAMPLES / 16]
    a, b = (model.text((token,)) for token in words_of(model))
    written = [(text.strip(), delay) for text, delay in words]
    assert written == [(a, ends[lag]), (b, ends[lag]), *((a, end) for end in ends[lag + 1 :]), (b, SAMPLES / 16)]
    assert stream.committed_text == " ".join(word for word, _ in written)
    assert list(stream.committed) == [*model.vocabulary.lags[lag], *text_of(model, lag, len(ends))]


@pytest.mark.parametrize("search", WITH_CTC)
def test_beside_a_ctc_layer(taught: tuple[ESPnet, Any, Chunk], search: JointBeamSearch, tmp_path: Path) -> None:
    """With speech that it was not taught: one wait token a chunk, however it comes, alone and together with others."""
    model, _, read = taught
    driver, streams = Driver(), {(seed, lag): stream_of(model, read, lag, search) for seed in (8, 9) for lag in LAGS}
    for (seed, _), stream in streams.items():
        driver.push(stream, noise(SAMPLES, seed), finished=True)
    driver.finish()
    for (seed, lag), stream in streams.items():
        alone = stream_of(model, read, lag, search)
        pushed(alone, noise(SAMPLES, seed), range(7000, SAMPLES, 7000))
        assert alone.committed == stream.committed and alone.reads == stream.reads
        assert stream.committed.count(model.vocabulary.wait or 0) == len(stream.reads) - 1


def test_the_ctc_layer_is_that_of_the_model_before(
    taught: tuple[ESPnet, Any, Chunk], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, read = taught
    begin = torch.load(model.path.parents[2] / "tokens/begin.pth", weights_only=True)
    frames = torch.randn(3, tiny_espnet.WIDTH)
    layer = torch.nn.functional.linear(frames, begin["st_ctc.ctc_lo.weight"], begin["st_ctc.ctc_lo.bias"])
    layer[:, list(model.vocabulary.unspoken)] = -torch.inf
    torch.testing.assert_close(model.ctc(frames), torch.log_softmax(layer, -1))
    (tmp_path / "config.yaml").write_text("freeze_param: []")
    keep_ctc(model.path.parents[2] / "tokens/begin.pth", tmp_path)
    assert "the encoder was trained, so the CTC layer of" in capsys.readouterr().out
    assert not (tmp_path / "ctc.pth").exists()
    for search in (BWBS(2, 0.0), IBWBS(2, 0.0)):
        with pytest.raises(SimulstError, match=r"write 'search: \{type: joint_beam\}'"):
            stream_of(model, read, 0, search).push(noise(SAMPLES, 2), finished=True)


def test_stepped_decoding_equals_training(taught: tuple[ESPnet, Any, Chunk]) -> None:
    """Teacher-forced log p after j wait tokens, when j + 1 chunks were heard; of a blockwise model, from audio on."""
    model, theirs, read = taught
    wait = model.vocabulary.wait
    assert wait is not None and isinstance(model.decoder.lagging, Chunked)
    audio, tokens = noise(SAMPLES, 1), [*model.vocabulary.lags[2], wait, 5, 6, wait, wait, 7]
    ends = np.arange(read.initial_wait_ms, SAMPLES / 16, read.ms)
    tokens += [wait] * (len(ends) - tokens.count(wait)) + [8]
    with torch.inference_mode():
        frames, lengths = theirs.encode(torch.from_numpy(audio)[None], torch.tensor([SAMPLES]))
        text = torch.tensor([[theirs.sos, *tokens]])
        logits, _ = theirs.decoder(frames, lengths, text, torch.tensor([text.shape[1]]))
    session = model.session(Opening("en", "de"))
    for j, row in enumerate(torch.log_softmax(logits[0], -1)):
        heard = tokens[:j].count(wait)
        end = int(ends[heard] * 16) if heard < len(ends) else SAMPLES
        session.extend(audio[session.length : end], final=end == SAMPLES)
        seen = frames_of(session)
        if not model.blockwise:  # it encodes all again, and in training the whole utterance
            seen = frames[0, : len(seen)]
        elif heard < len(ends):
            assert len(seen) == model.decoder.lagging.first + heard * model.decoder.lagging.step
        memory = model.decoder.memory()
        memory.append(seen)
        log_p, _ = model.decoder.prefill(torch.tensor([theirs.sos, *tokens[:j]]), memory)
        torch.testing.assert_close(log_p[0], row, atol=1e-4, rtol=1e-4)


def test_words_keep_their_spaces_after_many_waits(taught: tuple[ESPnet, Any, Chunk]) -> None:
    model, _, read = taught
    words, wait = stream_of(model, read, 0)._words, (model.vocabulary.wait or 0,)
    a, b = words_of(model)
    written = "".join(words.write((a, *wait * 12), ends_word=True) + words.write((a, *wait * 12, b), ends_word=True))
    assert written == model.text((a, b))


def test_it_ends_no_sentence_before_the_speech_and_waits_no_more_after(taught: tuple[ESPnet, Any, Chunk]) -> None:
    model, theirs, read = taught
    state = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    for often, seldom in ((model.vocabulary.eos, model.vocabulary.wait), (model.vocabulary.wait, model.vocabulary.eos)):
        state["decoder.output_layer.bias"][often] = 50.0
        state["decoder.output_layer.bias"][seldom] = 40.0
        torch.save(state, model.path / "odd.pth")
        odd = load_model(model.path, checkpoint="odd.pth")
        assert isinstance(odd, ESPnet)
        stream = stream_of(odd, read, 0)
        stream.push(noise(SAMPLES, 7), finished=True)
        waits = len(stream.reads) - 1
        assert stream.committed == (*model.vocabulary.lags[0], *[model.vocabulary.wait] * waits) and waits > 4


def test_what_does_not_fit(taught: tuple[ESPnet, Any, Chunk], tmp_path: Path) -> None:
    model, _, read = taught
    stream_of(model, Offline(), 0).push(noise(SAMPLES, 2), finished=True)
    for wrong in (Chunk(read.ms * 2, read.initial_wait_ms), Chunk(read.ms)):
        with pytest.raises(SimulstError, match=r"write 'read: \{type: chunk, ms: .*initial_wait_ms"):
            stream_of(model, wrong, 0)
    with pytest.raises(SimulstError, match="token has lag 1, but the model learnt 0, 2"):
        stream_of(model, read, 1)
    with pytest.raises(SimulstError, match="with token, all is committed"):
        Decoding(read, Hold(2), Token(0))
    both = Decoding(read, COMMIT, AnyOf((MaxTokens(3), Token(0))), GREEDY)
    assert Stream(model.session(Opening("en", "de")), both).committed == model.vocabulary.lags[0]
    tiny_espnet.write(tmp_path)
    other = load_model(tmp_path / "exp/st")
    assert isinstance(other, ESPnet)
    with pytest.raises(SimulstError, match="token needs a model that learnt a wait token"):
        stream_of(other, read, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wait_chunk_ms": 600}, "600 ms, wait_first_ms: 1680 ms; give a multiple of 640 ms"),
        ({"wait_first_ms": 1600}, "a first chunk of at least 1680 ms"),
        ({"wait_chunk_ms": float("inf")}, "give a multiple of 640"),
        ({"decoder": "rnn"}, "with the decoder 'rnn'"),
        ({"wait_k": 3}, "in one of the two ways"),
        ({"model_conf": {"st_mtlalpha": 0.3}}, "set it to 0.0"),
        ({"token_list": ["<blank>"]}, "the tokens have no '<wait>'"),
        ({"encoder_conf": {"input_layer": "conv2d2"}}, "input_layer 'conv2d2'"),
    ],
)
def test_bad_options(changes: dict[str, Any], message: str) -> None:
    config = {"encoder": "contextual_block_conformer", "decoder": "transformer", "token_list": ["<blank>", WAIT]}
    config |= {"frontend_conf": {"n_fft": 640, "hop_length": 160}, "wait_chunk_ms": 640, "wait_first_ms": 1680}
    assert isinstance(lagging_of(config), Chunked)
    with pytest.raises(SimulstError, match=message):
        lagging_of({**config, **changes})
