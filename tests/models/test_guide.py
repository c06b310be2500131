"""The CTC guide end to end: large models of three families, guided by a small blockwise one."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_espnet
import tiny_huggingface
import tiny_pieces
import torch
from fake import context_of, noted, pushed
from tiny_espnet import noise

from simulst.calls import Steps
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.espnet.guide import ESPnetGuide
from simulst.models.espnet.model import ESPnet
from simulst.models.whisper.model import Whisper
from simulst.opening import Opening
from simulst.policy.commit import All, LocalAgreement
from simulst.policy.ctc_guide import CTCGuide, Guided, GuidedCharacters
from simulst.policy.read import Chunk
from simulst.policy.stop import AnyOf, EndOfSentence, MaxTokens, Stop
from simulst.search import IBWBS, BeamSearch, JointBeamSearch
from simulst.session import Model
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.streams.driver import Driver
from simulst.words import Words

torch.set_num_threads(1)
LETTERS = set(tiny_pieces.TEXT)
GREEDY: Any = JointBeamSearch(1, 0.0, max_length_ratio=0.5)


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small blockwise model, untrained."""
    folder = tmp_path_factory.mktemp("guide")
    tiny_espnet.write(folder, "contextual_block_transformer", 3, token_type="char")
    return str(folder / "exp" / "st")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> ESPnet:
    """A model that sees everything, and likes to begin words."""
    return tiny_espnet.load_wordy(tmp_path_factory.mktemp("full"), "transformer", 0)


@pytest.fixture(scope="module")
def huggingface(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """Models each of whose tokens is a word that the guide can spell."""
    folder, models = tmp_path_factory.mktemp("huggingface"), {}
    for kind in ("mbart", "whisper"):
        model: Any = load_model(tiny_huggingface.write(folder / kind, kind), threads=1)
        pieces, eos = model.architecture.tokenizer.get_vocab(), model.architecture.eos
        words = {
            number for piece, number in pieces.items() if piece[0] in "▁Ġ" and piece[1:] and {*piece[1:]} <= LETTERS
        }
        model.architecture.never = tuple({*range(len(model.architecture.tokenizer))} - words - {eos})
        models[kind] = model
    return models


def large(name: str, full: ESPnet, endless: Whisper, huggingface: dict[str, Model]) -> tuple[Model, Any]:
    if name in huggingface:
        return huggingface[name], JointBeamSearch(1, 0.0, max_length_ratio=0.06)
    return (full, GREEDY) if name == "espnet" else (endless, BeamSearch(1, max_tokens_per_second=10))


def decode(model: Model, how: Decoding, cuts: list[int], memo: Memo | None = None, samples: int = 60000) -> Any:
    stream = open_stream(model, how, "es", "en", meter=Meter(memo))
    assert isinstance(stream, Stream)
    words = pushed(stream, noise(samples), cuts)
    return stream.committed, stream.reads, words


@pytest.mark.parametrize(
    ("name", "between"),
    [("espnet", (-5.0, 5.0)), ("ctranslate2", (-5.0, 5.0)), ("mbart", (-60.0,)), ("whisper", (-60.0,))],
)
def test_guided(
    name: str, between: tuple[float, ...], full: ESPnet, endless: Whisper, huggingface: dict[str, Model], guide: str
) -> None:
    """However the audio comes and whatever is shared; a bound of -inf lets nothing through, and one of inf all."""
    model, search = large(name, full, endless, huggingface)
    memo, counts = Memo(), []
    for threshold in (-math.inf, *between, math.inf):
        how = Decoding(Chunk(600), All(whole_words=True), CTCGuide(guide, threshold), search)
        found = decode(model, how, [], memo)
        assert found == decode(model, how, [333, 10000, 40001], memo) == decode(model, how, [20000])
        early = [text for text, delay in found[2] if delay < 3750]
        counts.append(len(early))
        assert found[1] == [600.0 * n for n in range(1, 7)] + [3750.0]
    assert counts[0] == 0 < counts[-1] and len(set(counts)) > 2
    unguided = decode(model, Decoding(Chunk(600), All(whole_words=True), search=search), [])
    assert found == unguided


def test_nothing_is_written_before_the_guide_has_heard_a_block(full: ESPnet, guide: str) -> None:
    """1.67 s, by its encoder; the large model alone writes at once."""
    for stop, early in ((CTCGuide(guide, 1e9), False), (EndOfSentence(), True)):
        how = Decoding(Chunk(300), All(whole_words=True), stop, GREEDY)
        assert (min(delay for _, delay in decode(full, how, [])[2]) < 1600) == early


def test_guided_streams_together(full: ESPnet, guide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide hears in batches, too; each stream writes what it writes alone. The large model has no blocks."""
    how = Decoding(Chunk(600), All(whole_words=True), CTCGuide(guide, 0.0), GREEDY)
    audios = [noise(50000, 1), noise(60000, 2), noise(40000, 3)]
    alone, streams = ([open_stream(full, how, "es", "en") for _ in audios] for _ in range(2))
    driver, batches = Driver(math.inf), noted(monkeypatch, ESPnet, "encode_blocks", lambda self, some: len(some))
    for one, other, audio in zip(alone, streams, audios, strict=True):
        one.push(audio, finished=True)
        driver.push(other, audio, finished=True)
    driver.finish()
    for one, other in zip(alone, streams, strict=True):
        assert [(e.text, e.delay_ms) for e in one.emissions] == [(e.text, e.delay_ms) for e in other.emissions]
    assert max(batches) == 3 and any(one.emissions for one in alone)


@pytest.mark.parametrize(
    "how",
    [
        Decoding(Chunk(700), LocalAgreement(2, whole_words=True), CTCGuide("", 20.0), IBWBS(3, max_length_ratio=0.5)),
        Decoding(Chunk(700), All(whole_words=True), AnyOf((MaxTokens(5), CTCGuide("", 0.0, exact=True))), GREEDY),
    ],
)
def test_with_other_policies(how: Decoding, full: ESPnet, guide: str) -> None:
    def named(stop: Stop) -> Stop:
        if isinstance(stop, AnyOf):
            return AnyOf(tuple(map(named, stop.of)))
        return dataclasses.replace(stop, model=guide) if isinstance(stop, CTCGuide) else stop

    how = dataclasses.replace(how, stop=named(how.stop))
    found = decode(full, how, [])
    assert found == decode(full, how, [5, 31000], Memo())
    assert found[2]


def test_the_guides_time_is_the_streams(
    full: ESPnet, guide: str, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another stream has paid for it already."""
    heard = []
    hear = ESPnetGuide.hear

    def listen(self: ESPnetGuide, samples: np.ndarray) -> Steps[None]:
        heard.append(samples.size)
        clock.sleep(0.02)
        return hear(self, samples)

    monkeypatch.setattr(ESPnetGuide, "hear", listen)
    stream = Stream(
        full.session(Opening("", "")),
        Decoding(Chunk(500), All(whole_words=True), CTCGuide(guide, 0.0), GREEDY),
        load_model=load_model,
    )
    stream.push(noise(44000), finished=True)
    assert heard == [8000] * 5  # what comes last is not asked about
    assert stream.meter.seconds == pytest.approx(0.1)
    monkeypatch.setattr(ESPnetGuide, "hear", hear)
    memo, spent = Memo(), []
    for slow in (True, False):
        with monkeypatch.context() as patched:
            ctc = ESPnet.ctc
            patched.setattr(ESPnet, "ctc", lambda self, frames: (clock.sleep(0.02 * slow), ctc(self, frames))[1])  # noqa: B023
            how = Decoding(Chunk(2000), All(whole_words=True), CTCGuide(guide, 0.0 + slow), GREEDY)
            stream = Stream(full.session(Opening("", "", Meter(memo))), how, load_model=load_model)
            stream.push(noise(44000), finished=True)
            spent.append(stream.meter.seconds)
    assert min(spent) > 0.019  # of encoding, a part is measured by a clock of its own


def test_bad_guides(full: ESPnet, whisper: Whisper, folder: Path, guide: str, tmp_path: Path) -> None:
    tiny_espnet.write(tmp_path, model_conf=tiny_espnet.NO_CTC)
    for path, words in (
        (str(tmp_path / "exp" / "st"), r"the guide .*st: the model has no CTC layer for the translation; train it"),
        (str(folder), "the guide .*ends: this kind of model has no CTC layer; give an ESPnet model"),
        (str(tmp_path / "nothing"), "the guide .*nothing: no such model folder"),
    ):
        with pytest.raises(SimulstError, match=f"stop: {words}"):
            open_stream(full, Decoding(Chunk(1000), All(whole_words=True), CTCGuide(path, 0.0)), "es", "en")


@pytest.mark.parametrize(
    ("source", "target", "what"), [("es", "es", "write 'en', not 'es'"), ("ja", "en", "hear 'es'")]
)
def test_a_guide_of_other_languages(whisper: Whisper, tmp_path: Path, source: str, target: str, what: str) -> None:
    texts = [["dump/train/text.tc.en", "text", "text"], ["dump/train/text.lc.rm.es", "src_text", "text"]]
    tiny_espnet.write(tmp_path, "contextual_block_transformer", train_data_path_and_name_and_type=texts)
    stop = CTCGuide(str(tmp_path / "exp" / "st"), 0.0)
    how = Decoding(Chunk(1000), All(whole_words=True), stop, BeamSearch(1))
    with pytest.raises(SimulstError, match=f"stop: the guide .*st: the model was trained to {what}"):
        open_stream(whisper, how, source, target)
    assert open_stream(whisper, how, "es", "en")


def test_the_guides_checkpoint(full: ESPnet, guide: str) -> None:
    """Other weights give another text; weights that are not there end in a sentence."""
    torch.manual_seed(0)
    weights = torch.load(Path(guide) / "3epoch.pth")
    others = {name: w + 0.3 * torch.randn(w.shape) if "ctc" in name else w for name, w in weights.items()}
    torch.save(others, Path(guide) / "other.pth")
    found = []
    for checkpoint in ("", "3epoch.pth", "other.pth"):
        stop = CTCGuide(guide, 5.0, checkpoint=checkpoint)
        found.append(decode(full, Decoding(Chunk(600), All(whole_words=True), stop, GREEDY), []))
    assert found[0] == found[1] != found[2]
    with pytest.raises(SimulstError, match=r"stop: the guide .*none\.pth"):
        stop = CTCGuide(guide, 5.0, checkpoint="none.pth")
        open_stream(full, Decoding(Chunk(600), All(whole_words=True), stop, GREEDY), "es", "en")


@pytest.mark.parametrize(("unit", "kind"), [("word", Guided), ("char", GuidedCharacters)])
def test_languages_without_spaces(guide: str, unit: str, kind: type[Guided]) -> None:
    context = context_of(words=Words(str, unit), languages=("es", "en"), load_model=load_model)
    assert type(CTCGuide(guide, 0.0).open(context)) is kind
