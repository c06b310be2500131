"""Sessions of Hugging Face models under our searches and policies, on tiny random models of each kind."""

import contextlib
import itertools
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from fake import Asks, noted, opened, pushed
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_huggingface import KINDS, PAIRS, change, noise

from simulst.calls import Batched, run_alone
from simulst.config import parse_decoding
from simulst.errors import SimulstError, warn_once
from simulst.hypotheses import Tokens
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.huggingface import decoder
from simulst.models.huggingface import model as module
from simulst.models.huggingface.architectures import Architecture, Canary, Seamless, Whisper
from simulst.models.huggingface.model import HuggingFace, HuggingFaceSession, monotonic_frames
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy.context import Look
from simulst.search import BWBS, IBWBS, JointBeamSearch
from simulst.streams import open_stream
from simulst.streams.driver import CANCELLED, Driver

GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=4.0)


def pair_of(model: HuggingFace) -> tuple[str, str]:
    kind = str(model.architecture.path.name)
    return PAIRS[kind]


def generated(architecture: Architecture, samples: np.ndarray, prompt: Tokens, new: int) -> Tokens:
    """The text of the library's own greedy search."""
    inputs = architecture.extractor(samples, sampling_rate=16000, return_tensors="pt")
    kind: dict[str, Any] = {"forced_bos_token_id": prompt[1]}
    if isinstance(architecture, Canary):
        processor = transformers.CanaryProcessor.from_pretrained(architecture.path)
        inputs = processor.apply_transcription_request(samples, source_language="en", target_language="de")
        kind = {}
    if isinstance(architecture, Whisper):
        kind = {"language": "es", "task": "translate", "suppress_tokens": list(architecture.never)}
    if isinstance(architecture, Seamless):
        kind = {"tgt_lang": "deu"}
    [ids] = architecture.model.generate(**inputs, **kind, num_beams=1, do_sample=False, max_new_tokens=new).tolist()
    ids = ids[len(prompt) :] if tuple(ids[: len(prompt)]) == prompt else ids
    return tuple(ids[: ids.index(architecture.eos)] if architecture.eos in ids else ids)


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_search_is_the_librarys(kind: str, seed: int, folders: dict[str, Any]) -> None:
    options = {"padding_seconds": 30.0} if kind == "whisper" else {}
    model: Any = load_model(folders[kind], threads=1, **options)
    architecture, samples = model.architecture, noise(1.7, seed)
    session = window(model, samples)
    found = run_alone(session.search((), GREEDY, None)).best
    theirs = generated(architecture, samples, architecture.prompt(*PAIRS[kind]), 20)
    assert len(theirs) > 4
    assert found[: len(theirs)] == theirs


SEARCH = {"beam": 2, "ctc_weight": 0.0, "max_length_ratio": 0.2}
POLICIES: list[dict[str, Any]] = [
    {"commit": {"type": "hold", "n": 3}},
    {"commit": {"type": "local_agreement", "n": 2}},
    {"commit": {"type": "shared_prefix", "n": 1}},
    {"commit": {"type": "hold", "n": 1, "whole_words": True}, "stop": {"type": "max_words", "n": 1}},
    {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 4, "layers": [-1]}},
    {"commit": {"type": "hold", "n": 1}, "search": {"type": "ibwbs", **SEARCH}},
    {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 4}, "search": {"type": "ibwbs", **SEARCH}},
    {"commit": {"type": "local_agreement"}, "search": {"type": "bwbs", **SEARCH}},
    {"commit": {"type": "all"}, "stop": {"type": "align_att", "frames": 4}, "search": {"type": "bwbs", **SEARCH}},
]


def decoding(policy: dict[str, Any], ms: int = 600) -> Any:
    search = {"type": "joint_beam", **SEARCH}
    return parse_decoding({"read": {"type": "chunk", "ms": ms}, "search": search, **policy}, "test")


def run(model: HuggingFace, policy: dict[str, Any], samples: np.ndarray, cut: int, meter: Meter | None = None) -> Any:
    stream = open_stream(model, decoding(policy), *pair_of(model), meter=meter)
    return pushed(stream, samples, range(cut, samples.size, cut))


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_policies(models: dict[str, HuggingFace], number: int) -> None:
    """Each works, whatever the pieces."""
    samples, policy, model = noise(1.4), POLICIES[number], models[KINDS[number % len(KINDS)]]
    found = run(model, policy, samples, 16000)
    assert found and run(model, policy, samples, 5000) == found


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("repetition", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_greedy_bwbs_is_a_loop_over_the_decoder(model: HuggingFace, repetition: bool, seed: int) -> None:
    """What was read stays as it was read; each chunk's audio is all encoded again for the tokens that follow."""
    architecture, samples, written = model.architecture, noise(2.2, seed), []
    options = BWBS(beam=1, ctc_weight=0.0, max_length_ratio=0.2, repetition=repetition)
    session: Any = model.session(Opening(*pair_of(model)))
    text: Tokens = ()
    state = decoder.State()
    for start in range(0, samples.size, 8800):
        last = start + 8800 >= samples.size
        session.extend(samples[start : start + 8800], final=last)
        found = run_alone(session.search((), options, None)).best
        encoded = architecture.encode(samples[: start + 8800])
        steps = decoder.SteppedDecoder(
            architecture.model, session._prompt(), architecture.never, architecture.never_first, encoded.heard
        )
        memory = steps.memory()
        memory.append(encoded.frames)
        room = max(1, int(0.2 * encoded.heard))
        before = None
        while len(text) < room:
            log_p, after = steps.step(torch.tensor([text[-1] if text else architecture.eos]), state, memory)
            best = int(log_p.argmax())
            if best == architecture.eos or (not last and repetition and best in text):
                break
            text, before, state = (*text, best), state, after
        written.append(len(found))
        if not last and len(text) > 1 and before is not None:  # the last token of this chunk is found again
            text, state = text[:-1], before
        assert found == text
    assert len(set(written)) > 1


def test_a_sweep_encodes_once(model: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(model.architecture)
    encoded = noted(monkeypatch, kind, "encode_together", lambda self, windows: [window.size for window in windows])
    memo, samples = Memo(), noise(1.3)
    shared = [run(model, policy, samples, 16000, Meter(memo)) for policy in POLICIES[:3]]
    sizes = [size for windows in encoded for size in windows]
    assert len(sizes) == len(set(sizes)) == 3
    assert shared == [run(model, policy, samples, 16000) for policy in POLICIES[:3]]


def window(model: HuggingFace, samples: np.ndarray) -> HuggingFaceSession:
    session = model.session(Opening(*pair_of(model)))
    session.extend(samples)
    return session


@settings(max_examples=15)
@given(
    kind=st.sampled_from(KINDS),
    sizes=st.lists(st.sampled_from([0, 1599, 1600, 1700, 9000, 9100, 20000]), min_size=2, max_size=5),
    most=st.sampled_from([1.0, 30.0]),
)
def test_windows_together(models: dict[str, HuggingFace], kind: str, sizes: list[int], most: float) -> None:
    """Encoded in batches that are not too long, each as alone. Nobody keeps the memory of others."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST_SECONDS", most)
        calls, groups = [window(models[kind], noise(2, n)[:size])._encoding() for n, size in enumerate(sizes)], {}
    for call in calls:
        groups.setdefault(call.together, []).append(call)
    assert len(groups) <= len(set(sizes))
    for group in groups.values():
        few = group[0].most
        assert few == 1 or few * group[0].size <= most * 16000 + group[0].size / 2
        batches = [group[start : start + few] for start in range(0, len(group), few)]
        answers = [found for batch in batches for found in Batched.answer_together(batch)]
        for call, found in zip(group, answers, strict=True):
            alone = call.answer()
            assert found.heard == alone.heard
            torch.testing.assert_close(found.frames, alone.frames, atol=1e-4, rtol=1e-4)
            assert found.frames.untyped_storage().nbytes() == found.frames.nbytes


BROKEN, NOT_NUMBERS = 7.0, 9.0  # first samples of audio that the patched encoder fails at


def talk(seed: int, begin: float) -> np.ndarray:
    samples = noise(1.0, seed)
    samples[0] = begin
    return samples


alone: dict[Any, Any] = {}


@settings(max_examples=8)
@given(
    kind=st.sampled_from(KINDS),
    talks=st.lists(
        st.tuples(
            st.sampled_from([0, 4, 8]),  # the policy
            st.integers(0, 2),  # the audio
            st.sampled_from([0.0, 0.0, BROKEN, NOT_NUMBERS]),
            st.integers(0, 9),  # after how many steps of the driver it joins
            st.none() | st.integers(0, 20),  # after how many it leaves
        ),
        min_size=2,
        max_size=4,
    ),
    room=st.sampled_from([1, 2, 9]),
)
def test_many_streams(models: dict[str, HuggingFace], kind: str, talks: list[Any], room: int) -> None:
    """Each finds what it finds alone, whoever joins, leaves or fails, and however little memory there is."""
    model = models[kind]
    encode, read = type(model.architecture).encode_together, decoder.SteppedDecoder.read_together

    def encoded(self: Architecture, windows: Any) -> Any:
        if any(window[0] == BROKEN for window in windows):
            raise ValueError("broken")
        found = zip(windows, encode(self, windows), strict=True)
        return [replace(one, frames=one.frames * np.nan) if window[0] == NOT_NUMBERS else one for window, one in found]

    def read_together(self: decoder.SteppedDecoder, reads: Any) -> Any:
        if len(reads) > room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return read(self, reads)

    def found(stream: Any) -> Any:
        texts = [(word.text, word.delay_ms) for word in stream.emissions]
        return texts, [[h.tokens for h in beam] for beam in stream._beams], stream._ended

    def scores(stream: Any) -> list[float]:
        return [h.score for beam in stream._beams for h in beam]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(model.architecture), "encode_together", encoded)
        patched.setattr(decoder.SteppedDecoder, "read_together", read_together)
        driver, streams = (
            Driver(math.inf),
            [open_stream(model, decoding(POLICIES[one[0]]), *PAIRS[kind]) for one in talks],
        )
        pushed: dict[int, Any] = {}
        for step in range(21):
            for number, (_, seed, begin, joins, leaves) in enumerate(talks):
                if step == joins:
                    pushed[number] = driver.push(streams[number], talk(seed, begin), True)
                if step == leaves:
                    driver.cancel(streams[number])
            driver.step()
        driver.finish()
        for number, (policy, seed, begin, _, _) in enumerate(talks):
            error = pushed[number].exception(timeout=0)
            if error is not None and str(error) == CANCELLED:
                continue
            key = kind, policy, seed, begin
            if key not in alone:
                alone[key] = open_stream(model, decoding(POLICIES[policy]), *PAIRS[kind])
                with contextlib.suppress(SimulstError):
                    alone[key].push(talk(seed, begin), True)
            assert found(streams[number]) == found(alone[key])
            assert scores(streams[number]) == pytest.approx(scores(alone[key]), abs=1e-4)
            assert (error is None) == (begin == 0.0)


def test_text_that_restart_hides_is_not_shown(models: dict[str, HuggingFace], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if no audio leaves with it, and none comes before the next search."""
    model = models["whisper"]
    session: Any = window(model, noise(5, seed=1))
    committed = run_alone(session.search((), GREEDY, None)).best[:6]
    monkeypatch.setattr(session, "_end_times", lambda tokens: [1.0] * len(tokens))
    session.cut(committed)
    run_alone(session.search(committed, GREEDY, None))
    assert session.evicted == len(committed) > 0
    shown = session._open[2].decoder._prompt
    session.restart(committed, session.length)
    run_alone(session.search(committed, GREEDY, None))
    assert session._open[2].decoder._prompt == session._prompt() != shown


def test_hardly_any_audio(model: HuggingFace) -> None:
    for samples in (0, 1, 300, 1599, 1600, 1700):
        session = model.session(Opening(*pair_of(model)))
        session.extend(noise(1)[:samples], final=True)
        assert run_alone(session.search((), GREEDY, None)).beam


def test_digital_silence(model: HuggingFace) -> None:
    """Before speech and alone: some extractors divide by the variation of the features."""
    for samples in (np.zeros(20000, np.float32), np.concatenate([np.zeros(9600, np.float32), noise(1)])):
        for policy in POLICIES[-2:]:
            run(model, policy, samples, 4800)


def test_the_prompt_of_each_kind(models: dict[str, HuggingFace]) -> None:
    for kind, target, names in (
        ("mbart", "de", ["</s>", "de_DE"]),
        ("mbart", "zh", ["</s>", "zh_CN"]),
        ("mbart", "zh-CN", ["</s>", "zh_CN"]),
        ("speech_to_text", "fr", ["</s>", "<lang:fr>"]),
        ("seamless", "zh", ["</s>", "__cmn__"]),
        ("canary", "de-AT", ["<|startoftranscript|>", "<|es|>", "<|de|>", "<|pnc|>"]),
        ("whisper", "en", ["<|startoftranscript|>", "<|es|>", "<|translate|>", "<|notimestamps|>"]),
        ("whisper", "es", ["<|startoftranscript|>", "<|es|>", "<|transcribe|>", "<|notimestamps|>"]),
    ):
        architecture = models[kind].architecture
        assert architecture.tokenizer.convert_ids_to_tokens(list(architecture.prompt("es", target))) == names


def test_canary_without_its_template(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["canary"], tmp_path / "canary")
    template = folder / "chat_template.jinja"
    assert "source_language" in template.read_text()
    for text in (None, "{{ raise_exception('no') }}"):
        template.unlink() if text is None else template.write_text(text)
        with pytest.raises(SimulstError, match=r"chat_template\.jinja gives no prompt .*; copy the model's own"):
            load_model(folder, threads=1).session(Opening("en", "de"))


# AlignAtt


def peaked(pairs: Any, frame: int) -> Any:
    """Attention in which `pairs` of layers and heads look at one frame; the others look at the last one, and harder."""

    def stacked(layers: Any, frames: int) -> torch.Tensor:
        n, heads, m, _ = layers[0].shape
        weights = torch.zeros(len(layers) * heads, n, m, frames)
        weights[..., -1] = 1.0
        for layer, head in pairs:
            weights[layer * heads + head] = 0.0
            weights[layer * heads + head, ..., frame] = 0.4
        return weights

    return stacked


def test_only_the_heads_that_the_model_names_align(model: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both for AlignAtt and for the times at which tokens end; layers and heads that STOP names are taken instead."""
    pairs = ((1, 0), (0, 1))
    monkeypatch.setattr(decoder, "_stacked", peaked(pairs, 3))
    named = model.architecture.alignment_heads
    assert named == (pairs if isinstance(model.architecture, Whisper) else ())
    session = window(model, noise(2))
    frames = session._model.encode(session._audio).heard
    asked: list[Any] = []
    layer = tuple((0, head) for head in range(session.traits.heads))
    head = tuple((layer, 1) for layer in range(session.traits.layers))

    def ask(view: Any) -> bool:
        asked.append([view.frames_left(Look(pairs)) for pairs in ((), layer, head, ((1, 0),))])
        return True

    run_alone(session.search((), GREEDY, opened(Asks(ask, frozenset({Need.ATTENTION})))))
    assert asked == [[frames - 4 if named else 0, 0, 0, frames - 4]]
    [end] = session._end_times((10,))
    assert end == pytest.approx((4 if named else frames) * 2 / frames)


def test_a_distilled_whisper_has_not_its_teachers_heads(folders: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(folders["whisper"], tmp_path / "whisper")
    change(tmp_path / "whisper/generation_config.json", alignment_heads=[[1, 0], [7, 1]])
    model: Any = load_model(tmp_path / "whisper", threads=1)
    assert model.architecture.alignment_heads == ()


# The window


@pytest.mark.parametrize(
    ("kind", "search"),
    [("mbart", "joint_beam"), ("whisper", "joint_beam"), ("mbart", "ibwbs"), ("mbart", "bwbs"), ("whisper", "bwbs")],
)
def test_audio_beyond_the_window_slides(kind: str, search: str, folders: dict[str, Any]) -> None:
    model: Any = load_model(folders[kind], threads=1, window=5.0)
    policy = {"commit": {"type": "local_agreement"}, "search": {"type": search, **SEARCH}}
    stream: Any = open_stream(model, decoding(policy, ms=1000), *PAIRS[kind])
    session: HuggingFaceSession = stream.session
    sizes = []
    for second in range(9):
        stream.push(noise(1, second))
        sizes.append(session._audio.size)
    stream.push(np.zeros(0, np.float32), finished=True)
    assert max(sizes) <= 5 * 16000 and session._offset > 3 * 16000
    assert session.length == 9 * 16000 and session.evicted > 0


def test_a_search_from_the_memo_costs_what_it_costs_alone(
    folders: dict[str, Any], clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding the window is charged once, also where it slides. The clock ticks while the encoder runs."""
    model: Any = load_model(folders["speech_to_text"], threads=1, window=5.0)
    encode = model.architecture.encode_together

    def ticking(windows: Any) -> Any:
        clock.now += 1.0
        return encode(windows)

    monkeypatch.setattr(model.architecture, "encode_together", ticking)
    search = {"type": "joint_beam", "beam": 1, "ctc_weight": 0.0, "max_length_ratio": 0.05}
    chunks = {"read": {"type": "chunk", "ms": 2000}, "commit": {"type": "all"}, "search": search}
    memo, charged = Memo(), []
    for shared in (None, memo, memo):
        stream = open_stream(model, parse_decoding(chunks, ""), *pair_of(model), meter=Meter(shared))
        stream.push(noise(12, 0), finished=True)
        charged.append((stream.meter.seconds, [emission.elapsed_ms for emission in stream.emissions]))
    assert charged[0] == charged[1] == charged[2] and charged[0][0] > 5


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
def test_a_text_may_have_25_tokens_a_second_however_long_frames_are(model: HuggingFace, seconds: float) -> None:
    """Up to the decoder's positions. A given ratio counts encoder frames."""
    session: Any = window(model, noise(seconds))
    run_alone(session._encode())
    encoded, most = session._encoded, model.architecture.positions - len(session._prompt())
    for kind in (JointBeamSearch, BWBS, IBWBS):
        options = kind(1, 0.0).filled(session.traits.default_search, session.traits.gives)
        assert session._search_over(encoded, options).room == min(math.ceil(25 * seconds), most)
        given = replace(options, max_length_ratio=0.5)
        assert session._search_over(encoded, given).room == max(1, min(encoded.heard // 2, most))


def test_ibwbs_keeps_the_scores_of_what_stays_in_the_window(model: HuggingFace) -> None:
    session: Any = window(model, noise(2.2))
    committed = run_alone(session.search((), IBWBS(2, 0.0, max_length_ratio=4.0), None)).beam[0].tokens[:4]
    assert len(committed) == 4
    before = session._kept._kept._attention(committed)
    session._leave(3, 8000, committed)
    after = session._kept._kept._attention(committed[3:])
    assert session.evicted == 3
    assert np.diff(after) == pytest.approx(np.diff(before)[3:], abs=1e-6)
    session._leave(1, 8000, committed)
    assert session._kept._kept._attention(()) == pytest.approx(before[:1])


@pytest.mark.parametrize(
    "options",
    [GREEDY, IBWBS(1, 0.0, max_length_ratio=4.0), BWBS(1, 0.0, max_length_ratio=4.0)],
    ids=("joint_beam", "ibwbs", "bwbs"),
)
def test_a_full_context_adds_nothing_and_is_told_once(
    model: HuggingFace, options: Any, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    session = window(model, noise(1.2))
    room = model.architecture.positions - len(session._prompt())
    text = tuple(10 + number % 40 for number in range(room + 5))
    run_alone(session.search(text[: room - 1], options, None))
    assert not [record for record in caplog.records if "positions" in record.getMessage()]
    for size in (room, room + 1, room + 5):
        assert [h.tokens for h in run_alone(session.search(text[:size], options, None)).beam] == [text[:size]]
    [said] = [record.getMessage() for record in caplog.records if "positions" in record.getMessage()]
    assert "fills the 64 positions of the decoder, so a step added nothing; cut the stream" in said


def test_end_times_grow_and_lie_in_the_audio(model: HuggingFace) -> None:
    session = window(model, noise(2.2))
    times = session._end_times(tuple(range(10, 30)))
    assert len(times) == 20 and list(times) == sorted(times)
    assert times[0] > 0 and times[-1] <= 2.2 + 1e-6
    assert len(session._end_times(tuple(range(10, 30)) * 5)) == 100  # more than the decoder can read
    assert session._end_times(()) == []


@pytest.mark.usefixtures("unguarded")
def test_a_stop_that_asks_when_tokens_end(model: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after the committed ones; in seconds of source, also when audio has left; nothing is encoded for it."""
    session = window(model, noise(2.2))
    session._offset = 3 * 16000
    committed = (10, 11)
    asked: list[tuple[Tokens, list[float]]] = []

    def ask(view: Any) -> bool:
        asked.append((view.tokens, view.end_times()))
        return len(view.tokens) == 3

    encoded = noted(monkeypatch, type(model.architecture), "encode_together", lambda *_: 1)
    run_alone(session.search(committed, GREEDY, opened(Asks(ask, frozenset({Need.END_TIMES})))))
    assert len(encoded) == 1
    assert [len(tokens) for tokens, _ in asked] == [0, 1, 2, 3]
    for tokens, times in asked:
        assert times == [3 + time for time in session._end_times(committed + tokens)[2:]]
        assert all(3 < time <= 5.2 + 1e-6 for time in times)


# The times of tokens


@given(st.integers(0, 4), st.integers(1, 5), st.integers(0, 10**6))
@settings(max_examples=60)
def test_the_best_of_all_alignments(tokens: int, frames: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((tokens, frames)) + 0.01

    def score(places: tuple[int, ...]) -> float:
        return sum(np.log(weights[token, frame]) for token, frame in enumerate(places))

    found = tuple(monotonic_frames(weights))
    assert found == tuple(sorted(found)) and len(found) == tokens
    best = max(score(places) for places in itertools.combinations_with_replacement(range(frames), tokens))
    np.testing.assert_allclose(score(found), best)


# Whisper's encoder


def test_whispers_full_window_is_the_librarys(folders: dict[str, Any]) -> None:
    model: Any = load_model(folders["whisper"], threads=1, padding_seconds=30.0)
    architecture = model.architecture
    samples = noise(1.1)
    features = architecture.extractor(samples, sampling_rate=16000, return_tensors="pt").input_features
    with torch.inference_mode():
        expected = architecture.model.get_encoder()(features).last_hidden_state[0]
    encoded = architecture.encode(samples)
    assert encoded.heard == 55 and encoded.frames.shape == (1500, 16)
    torch.testing.assert_close(encoded.frames, expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("seconds", [0.3, 1.0, 30.0])
def test_whispers_silence_is_projected_once(models: dict[str, HuggingFace], seconds: float) -> None:
    """What the decoder sees is what it makes of the frames itself."""
    architecture = models["whisper"].architecture
    encoded = architecture.encode(noise(seconds))
    assert (encoded.silence > 0) == (seconds < 28)
    memories = []
    for project in (None, architecture.projection(encoded)):
        steps = decoder.SteppedDecoder(architecture.model, (2, 7), project=project)
        memories.append(steps.memory())
        memories[-1].append(encoded.frames)
        assert bool(memories[-1].pairs) == (project is not None)
        steps.prefill(torch.tensor([0]), memories[-1])
    torch.testing.assert_close(*(memory.pairs for memory in memories), atol=1e-5, rtol=1e-5)


def test_half_precision(folders: dict[str, Any]) -> None:
    for kind in ("mbart", "seamless", "whisper"):
        model: Any = load_model(folders[kind], threads=1, dtype="bfloat16")
        assert model.architecture.model.dtype == torch.bfloat16
        assert run_alone(window(model, noise(1)).search((), GREEDY, None)).best
