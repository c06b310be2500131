"""Wait tokens of Hugging Face's models: labels against a slow version, training against decoding, a taught model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sounds
import speaker
import tiny_huggingface
import tiny_speech_llm
import torch
import yaml
from tiny_huggingface import noise

from simulst.calls import run_alone
from simulst.config import Decoding, parse_decoding
from simulst.data.datadir import Utterance
from simulst.errors import SimulstError
from simulst.hypotheses import WAIT, Found, Hypothesis
from simulst.models import load_model
from simulst.models.cascade.llm import LLM
from simulst.models.huggingface.loading import read
from simulst.models.huggingface.model import HuggingFaceSession
from simulst.models.huggingface.options import HuggingFaceOptions
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Chunk
from simulst.policy.stop import Token
from simulst.prefix.chunks import Grid, from_times, write_chunks
from simulst.search import JointBeamSearch
from simulst.stream import Stream
from simulst.streams import open_stream
from simulst.training.finetune import finetune
from simulst.training.speech_text import IGNORED, Collator, Part, chats_of, examples_of, read_audio_in_place, read_parts
from simulst.training.trainer import token_loss
from simulst.training.waiting import add_tokens, tokens_of

GRID = Grid(800, 400)
SECONDS = 2.3  # chunks end at 0.8, 1.2, 1.6, 2 and 2.3 s
TEXTS = {
    "a": f"<lag0> the cat{WAIT} sat{WAIT}{WAIT} on the mat{WAIT}",
    "b": f"<lag2>{WAIT}{WAIT} the dog{WAIT} sat{WAIT} by the cat;",
}
KINDS = ("whisper", "mbart", "speech_to_text", "qwen2_audio")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place, kinds = tmp_path_factory.mktemp("begin"), {*KINDS, *tiny_speech_llm.KINDS}
    makers = {kind: tiny_speech_llm if kind in tiny_speech_llm.KINDS else tiny_huggingface for kind in kinds}
    return {kind: maker.write(place / kind, kind) for kind, maker in makers.items()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data", TEXTS, dict.fromkeys(TEXTS, noise(SECONDS, 7)))


def write(folder: Path, texts: dict[str, str], audio: dict[str, np.ndarray]) -> Path:
    return sounds.write(folder, audio, {"tc.de": texts, "tc.es": texts})


def taught_tokens(folder: Path, data: Path, pair: str = "es-es") -> tuple[Any, Any]:
    architecture = read(folder, HuggingFaceOptions(padding_seconds=0.5, other_targets=True))
    parts = [Part(pair, data)]
    add_tokens(architecture, read_parts(parts)[0], GRID)
    return architecture, examples_of(architecture, parts, read_parts(parts), 30, grid=GRID)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_those_of_a_slow_version(kind: str, folders: dict[str, Path], data: Path) -> None:
    architecture, examples = taught_tokens(folders[kind], data, "es-es" if kind == "whisper" else "en-de")
    wait = architecture.wait
    assert len(examples) == 10 and set(wait.lags) == {0, 2}
    assert (wait.first_ms, wait.ms) == (GRID.first_ms, GRID.ms)
    batch = Collator(architecture)(examples)
    read_ids = batch["input_ids" if "input_ids" in batch else "decoder_input_ids"]
    for number, (name, text) in enumerate(TEXTS.items()):
        own = slice(5 * number, 5 * number + 5)
        assert [round(one.seconds, 3) for one in examples[own]] == [0.8, 1.2, 1.6, 2.0, SECONDS]
        assert {one.utterance.name for one in examples[own]} == {name}
        chunks = text[len("<lag0>") :].split(WAIT)
        before: list[int] = []
        for ids, labels, chunk, last in zip(
            read_ids[own].tolist(), batch["labels"][own].tolist(), chunks, [False] * 4 + [True], strict=True
        ):
            places = [place for place, label in enumerate(labels) if label != IGNORED]
            assert places == list(range(places[0], places[-1] + 1))
            assert [*ids[places[0] + 1 :], architecture.eos][: len(places) - 1] == labels[places[0] : places[-1]]
            assert ids[: places[0] + 1][-len(before) - 1 :] == [*wait.lags[2 * number], *before]
            *new, end = labels[places[0] : places[-1] + 1]
            assert end == (architecture.eos if last else wait.token)
            assert architecture.text(new).strip() == chunk.strip()
            before += [*new, end]
        without = tuple(token for token in before[:-1] if token != wait.token)
        assert without == architecture.tokens("".join(chunks).strip(), "de")
    # New rows are those of <eos>.
    rows = architecture.model.get_decoder().get_input_embeddings().weight
    assert torch.equal(rows[wait.token], rows[architecture.eos])


@pytest.mark.parametrize(
    ("language", "pieces", "texts", "cut"),
    [
        ("ja", ["世界", "\ufffd", "\ufffd人", "。"], ["世", "", "界人", "。"], [0, 0, 3, 1]),  # 人 in two tokens
        ("de", ["ein", " ", "Hund", " bel", "lt"], [" ein", " Hund", " bellt"], [1, 2, 2]),
        ("de", [" ein Hund", " bellt"], [" ein", " Hund", " bellt"], [0, 1, 1]),
    ],
)
def test_tokens_are_cut_between_words(language: str, pieces: list[str], texts: list[str], cut: list[int]) -> None:
    """A token of two chunks is the later one's, and so is a space before a word."""

    class Fake:
        def text(self, tokens: tuple[int, ...]) -> str:
            return "".join(pieces[token] for token in tokens).replace("\ufffd\ufffd", "")

        def tokens(self, text: str, target: str) -> tuple[int, ...]:
            return tuple(range(len(pieces)))

    fake: Any = Fake()
    assert [len(part) for part in tokens_of(fake, texts, language)] == cut


@pytest.mark.parametrize("kind", tiny_speech_llm.KINDS)
def test_training_of_speech_llms_sees_what_decoding_sees(kind: str, folders: dict[str, Path], data: Path) -> None:
    """Log p of each token in a batch of several lengths, and by the decoder; and the encoder learns, too."""
    pair = ("es", "es" if kind == "qwen3_asr" else "de")
    architecture, examples = taught_tokens(folders[kind], data, "-".join(pair))
    batch = Collator(architecture)([examples[0], examples[9], examples[3]])
    plain = architecture.model.forward
    read_audio_in_place(architecture)
    output = architecture.model(audio=batch["audio"], input_ids=batch["input_ids"], use_cache=False)
    architecture.model.forward = plain
    logits, labels = output.logits, batch["labels"]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in architecture.encoder.parameters())
    for row, number in enumerate((0, 9, 3)):
        example = examples[number]
        session: Any = architecture.session_class(architecture, Opening(*pair))
        session.extend(noise(SECONDS, 7)[: round(example.seconds * 16000)])
        run_alone(session._encode())
        decoder = session._decoder(session._encoded, ())
        memory = decoder.memory()
        memory.append(session._encoded.frames)
        asked = len(example.prompt) - example.prompt[::-1].index(architecture.wait.lags[number // 5 * 2][0]) - 1
        given = (*example.prompt[asked:], *example.text)
        for count in range(len(example.prompt) - asked, len(given)):
            decoder._never, decoder._ends = decoder._never[:0], decoder._ends[:1]
            log_p, _ = decoder.prefill(torch.tensor([decoder.eos, *given[:count]]), memory)
            theirs = logits[row, asked + count - 1].log_softmax(-1)
            torch.testing.assert_close(log_p[0], theirs, atol=1e-3, rtol=1e-3)
            assert labels[row, asked + count - 1] == given[count]


def teach(model: Any, batch: dict[str, Any], labels: torch.Tensor) -> None:
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(400):
        loss = token_loss(model(**batch, use_cache=False).logits, labels) / (labels != IGNORED).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if float(loss.detach()) < 0.03:
            break
    assert float(loss.detach()) < 0.03


@pytest.mark.parametrize("kind", ["qwen2_audio", "speech_to_text"])
def test_a_model_that_was_taught_to_wait_waits(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """The folder that an update of a fine-tuning wrote is taught further, on one batch."""
    words = ["the", "cat", "sat", "on", "the", "mat"]
    samples, ends, texts = noise(SECONDS, 7), [*GRID.ends(SECONDS * 1000), SECONDS * 1000], {}
    for lag in (0, 2):
        chunks = [" ".join(w for n, w in enumerate(words) if min(n + lag, 4) == chunk) for chunk in range(5)]
        texts[f"u{lag}"] = f"<lag{lag}> " + f"{WAIT} ".join(chunks)
    parts = [Part("en-de", write(tmp_path / "data", texts, dict.fromkeys(texts, samples)))]
    options = {"epochs": 1, "learning_rate": 0.01, "encoder_layers": 0, "first_ms": 800, "chunk_ms": 400}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(options))
    finetune(tmp_path / "config.yaml", folders[kind], parts, parts, tmp_path / "out")
    architecture = read(tmp_path / "out/model", HuggingFaceOptions())
    batch = Collator(architecture)(examples_of(architecture, parts, read_parts(parts), 30, grid=GRID))
    labels, own = batch.pop("labels"), architecture.model
    if kind == "qwen2_audio":
        with torch.no_grad():
            frames = {id(one): architecture.encoded(one) for one in batch["audio"]}
        read_audio_in_place(architecture)
        architecture.encoded = lambda one: frames[id(one)]
    teach(own, batch, labels)
    own.save_pretrained(tmp_path / "out/model")
    model = load_model(tmp_path / "out/model", threads=1)
    for lag in (0, 2):
        for piece in (len(samples), 3000):
            decoding = Decoding(Chunk(400, 800), All(True, True), Token(lag), JointBeamSearch(1, 0.0))
            stream = Stream(model.session(Opening("en", "de")), decoding)
            for start in range(0, len(samples), piece):
                stream.push(samples[start : start + piece], finished=start + piece >= len(samples))
            found = [(word.text.strip(), word.delay_ms) for word in stream.emissions]
            assert found == [(word, ends[min(number + lag, 4)]) for number, word in enumerate(words)]


@pytest.mark.parametrize("kind", ["whisper", "speech_to_text", "qwen2_audio"])
def test_each_window_begins_with_the_lag(
    kind: str, folders: dict[str, Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What left a window takes the lag with it; the next search reads it again, and a prompt shows text alone."""
    pair = ("es", "es") if kind == "whisper" else ("en", "de")
    architecture, _ = taught_tokens(folders[kind], data, "-".join(pair))
    made, wait = architecture.session_class or HuggingFaceSession, architecture.wait
    seen = []

    def searched(self: Any, prefix: Any, *rest: Any) -> Any:
        seen.append(prefix)
        yield from ()
        return Found([Hypothesis((*prefix, 9))])

    monkeypatch.setattr(HuggingFaceSession, "_search_window", searched)
    session: Any = made(architecture, Opening(*pair))
    session.extend(noise(SECONDS, 7))
    given = (*wait.lags[2], 7, wait.token, 8)
    begun = (*wait.lags[2], *session._between)
    for left, begins, past in ((0, given, ()), (3, (*wait.lags[2], 8), (7,)), (1, begun, (7, 8))):
        session._leave(left, 8000, given)
        found = run_alone(session.search(given, JointBeamSearch(1, 0.0), None))
        assert seen.pop() == begins and session._past == past
        assert found.best == (*given, *(session._between if left == 1 else ()), 9)


def test_a_language_model_that_was_taught_to_wait_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a cascade, whose recogniser hears a word every 200 ms; lags are of chunks."""
    say = "the cat sat on the mat and the dog sat by"
    texts, spans = dict.fromkeys("ab", say), [(0.2 * n, w) for n, w in enumerate(say.split())]
    data = write(tmp_path / "data", texts, dict.fromkeys(texts, np.zeros(35200, np.float32)))
    lines = [f"{name} 1 {begin:.1f} 0.2 {word}\n" for name in texts for begin, word in spans]
    (tmp_path / "source.ctm").write_text("".join(lines))
    (tmp_path / "links").write_text("".join(f"{name} {' '.join(f'{n}-{n}' for n in range(11))}\n" for name in texts))
    aligned = from_times(tmp_path / "source.ctm", texts, "de", tmp_path / "links")
    write_chunks(data, aligned, tmp_path / "chunks", "de", GRID, [0, 1])
    begin, parts = tiny_huggingface.write_language_model(tmp_path / "begin"), [Part("en-de", tmp_path / "chunks")]
    options = {"epochs": 1, "learning_rate": 0.01, "first_ms": 800, "chunk_ms": 400}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**options, "settings": {"dropout": 0.1}}))
    with pytest.raises(SimulstError, match="a language model learns to wait; give first_ms and chunk_ms"):
        finetune(tmp_path / "config.yaml", begin, parts, parts, tmp_path / "out")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(options))
    finetune(tmp_path / "config.yaml", begin, parts, parts, tmp_path / "out")
    loaded = LLM(model=str(tmp_path / "out/model")).opened(tmp_path)
    examples = chats_of(loaded, parts, read_parts(parts), GRID)
    assert [loaded.text(one.text) for one in examples[:3]] == ["the cat sat on", "the mat", "and the"]
    with pytest.raises(SimulstError, match="no source words of 'a'; write the data by"):
        chats_of(loaded, [Part("en-de", write(tmp_path / "none", texts, {}))], read_parts(parts), GRID)
    most = loaded.positions
    loaded.positions = max(len(one.prompt) + len(one.text) for one in examples)
    capsys.readouterr()
    assert len(chats_of(loaded, parts, read_parts(parts), GRID)) < len(examples)
    assert f"left out (longer than the {loaded.positions} tokens" in capsys.readouterr().out
    loaded.positions = most
    batch = Collator(loaded)(examples)
    teach(loaded.model, batch, batch.pop("labels"))
    loaded.model.save_pretrained(tmp_path / "out/model")
    model = load_model(speaker.write(tmp_path, {"type": "llm", "model": str(tmp_path / "out/model")}, say, unsure=0))
    commit, chunk = {"type": "all", "last_word": True, "punctuation": True}, {"ms": 400, "initial_wait_ms": 800}
    for lag in (0, 1):
        policy = {"read": {"type": "chunk", **chunk}, "stop": {"type": "token", "lag": lag}, "commit": commit}
        found = speaker.streamed(model, say, 35200, **policy)
        ends = [800] * 4 + [1200] * 2 + [1600] * 2 + [2000] * 2 + [2200]
        delays = [min(end + 400 * lag, 2200) for end in ends]
        assert [(word.strip(), delay) for word, delay in found] == list(zip(say.split(), delays, strict=True))
        assert speaker.streamed(model, say, 3000, **policy) == found
    say = "The cat sat. The dog sat."
    model = load_model(speaker.write(tmp_path, {"type": "llm", "model": str(tmp_path / "out/model")}, say))
    stream = open_stream(model, parse_decoding(policy, "test"), "en", "de")
    stream.push(speaker.audio(say), finished=True)
    assert stream.committed.count(loaded.wait.lags[1][0]) == 2, "each sentence begins with the lag"


def test_bad_input(folders: dict[str, Path], data: Path, tmp_path: Path) -> None:
    architecture, _ = taught_tokens(folders["mbart"], data, "en-de")
    for text, message in ((f"<lag0> a{WAIT} b", "its text has 2; write it by"), ("a", "its text has 0")):
        with pytest.raises(SimulstError, match=f"'a' has 5 chunks with first_ms 800 and chunk_ms 400, but {message}"):
            add_tokens(architecture, [Utterance("a", data / "a.wav", text)], GRID)
    (data / "text.tc.de").write_text(f"a <lag1>{WAIT * 4}\nb <lag2>{WAIT * 4}\n")
    parts = [Part("en-de", data)]
    with pytest.raises(SimulstError, match="'a' has lag 1, but no training data has"):
        examples_of(architecture, parts, read_parts(parts), 30, grid=GRID)
    chunks = {"chunk_ms": 400, "first_ms": 800}
    for options in (
        {"chunk_ms": 400},
        chunks | {"new_model": {"encoder": {}, "decoder": {}}},
        chunks | {"ctc_weight": 0.3},
    ):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({"epochs": 1, "learning_rate": 0.1, **options}))
        with pytest.raises(SimulstError, match="chunk_ms goes with first_ms and --model, and not with new_model"):
            finetune(tmp_path / "config.yaml", folders["mbart"], parts, parts, tmp_path / "out")
    architecture.model.save_pretrained(tmp_path / "model")
    tiny_huggingface.sentence_pieces(tiny_huggingface.LANGUAGES["mbart"]).save_pretrained(tmp_path / "model")
    architecture.extractor.save_pretrained(tmp_path / "model")
    with pytest.raises(SimulstError, match="but the tokeniser has no <wait> and lags"):
        load_model(tmp_path / "model")
