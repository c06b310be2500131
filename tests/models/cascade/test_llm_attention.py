"""AlignAtt on a language model that translates in a cascade: tiny random ones, behind a recogniser."""

import functools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
import speaker
import tiny_huggingface
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from simulst.background import Background
from simulst.config import parse_decoding
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.cascade.llm import LLM, LLMTranslation
from simulst.models.huggingface.causal import CausalDecoder
from simulst.opening import Opening
from simulst.policy.stop import AlignAtt, Stopping
from simulst.search import JointBeamSearch
from simulst.streams import open_stream
from simulst.streams.driver import Driver

SAY = "The cat sat on the mat. The dog sat by the cat."
GREEDY = JointBeamSearch(beam=1, ctc_weight=0.0, max_length_ratio=3.0, no_repeat_ngram=2)
PAIRS = ((1, 0), (0, 1))


@functools.cache
def opener(folder: Path, draft: bool) -> Any:
    return LLM(model=str(folder), draft=draft).load(folder / "cascade.yaml", 1)


def translation(folder: Path, source: str = "en", draft: bool = True) -> LLMTranslation:
    found = opener(folder, draft)(Opening(source, "de"))
    assert isinstance(found, LLMTranslation)
    return found


def stop_of(final: float, **options: Any) -> Stopping:
    """final: so many words of the source are final."""
    stop = AlignAtt(**{"words": 0, "pairs": PAIRS, **options})
    return fake.opened(stop, layers=2, heads=2, source_words=lambda: final)


@pytest.mark.parametrize("kind", speaker.CHATS)
@pytest.mark.parametrize("source", ["the cat sat on the mat", "der Hund, ein Café"])
def test_where_the_search_ends(kind: str, source: str, chats: dict[str, Path]) -> None:
    """Before the first token whose source is not accessible, by the attention of a full pass of the library."""
    ours, plain = translation(chats[kind], draft=False), translation(chats[kind])
    words, loaded = source.split(), ours._loaded
    [whole] = speaker.searched(plain, source, (), GREEDY, None)
    chat = loaded.placed(ours._options.messages("en", "de", source, ()), "word")
    spelled = [loaded.tokenizer.decode([token]) for token in chat.tokens[chat.begin : chat.end]]
    assert "".join(spelled).strip() == source if kind == "qwen3" else len(spelled) >= len(words)
    assert sorted(set(chat.words)) == list(range(len(words)))
    eager = transformers.AutoModelForCausalLM.from_pretrained(chats[kind], attn_implementation="eager").eval()
    with torch.inference_mode():
        seen = eager(input_ids=torch.tensor([[*chat.tokens, *whole.tokens]]), output_attentions=True).attentions
    rows = torch.stack([seen[layer][0, head] for layer, head in PAIRS]).mean(0)
    places = rows[len(chat.tokens) - 1 :, chat.begin : chat.end].argmax(-1).tolist()
    attended = [chat.words[place] for place in places]
    for final in range(len(words) + 1):
        for last in (0, 1, 2):
            kept = next((n for n, word in enumerate(attended) if word > final - 1 - last), len(whole.tokens))
            for one in (ours, plain):
                [found] = speaker.searched(one, source, (), GREEDY, stop_of(final, words=last))
                assert found.tokens == whole.tokens[:kept]


@settings(max_examples=12)
@given(
    st.sampled_from(speaker.CHATS),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=5),
    st.sampled_from([{}, {"zscore": True}, {"median": 3}, {"zscore": True, "median": 3}, {"words": None, "frames": 3}]),
)
def test_what_is_kept_changes_nothing(
    chats: dict[str, Path], kind: str, steps: list[tuple[int, int, int]], options: dict[str, Any]
) -> None:
    """Whatever was searched before: as a search from scratch, with and without drafts."""
    drafts, stepped = (translation(chats[kind], draft=draft) for draft in (True, False))
    words = ["the", "cat", "sat", "on", "the", "mat"]
    for count, final, given_ in steps:
        source = " ".join(words[:count])
        prefix = speaker.searched(stepped, source, (), GREEDY, None)[0].tokens[:given_]
        stop = stop_of(final, **options)
        [expected] = speaker.searched(translation(chats[kind], draft=False), source, prefix, GREEDY, stop)
        for one in (drafts, stepped):
            [found] = speaker.searched(one, source, prefix, GREEDY, stop_of(final, **options))
            assert found.tokens == expected.tokens


def test_a_draft_is_released_without_a_call(chats: dict[str, Path]) -> None:
    ours = translation(chats["qwen3"])
    calls: list[int] = []
    ours._loaded.model.register_forward_pre_hook(lambda *_: calls.append(1))
    sizes = []
    for final in (0, 2, 4, 6):
        [found] = speaker.searched(ours, "the cat sat on the mat", (), GREEDY, stop_of(final))
        sizes.append((len(found.tokens), len(calls)))
    [whole] = speaker.searched(ours, "the cat sat on the mat", found.tokens, GREEDY, None)
    assert len({count for _, count in sizes}) == 1 and len(calls) == sizes[0][1] > 0
    assert sizes == sorted(sizes) and sizes[0][0] < sizes[-1][0] == len(whole.tokens)
    speaker.searched(ours, "the cat sat on the", (), GREEDY, stop_of(6))
    assert len(calls) > sizes[0][1]


STOP = {"type": "align_att", "words": 0, "pairs": [list(pair) for pair in PAIRS]}
CONFIGURATION = {
    "read": {"type": "chunk", "ms": 400},
    "stop": STOP,
    "commit": {"type": "all", "whole_words": True},
}
HEARD = {"unsure": 2, "every": 200}


@pytest.fixture(scope="module")
def models(chats: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    def load(kind: str) -> Any:
        options = {"type": "llm", "model": str(chats[kind]), "history": 1}
        return load_model(speaker.write(tmp_path_factory.mktemp("cascade"), options, SAY, **HEARD))

    return {kind: load(kind) for kind in speaker.CHATS}


def written(model: Any, cuts: list[int], decoding: Any) -> list[tuple[str, float]]:
    return fake.pushed(open_stream(model, decoding, "en", "de"), speaker.audio(SAY), cuts)


@settings(max_examples=8)
@given(st.sampled_from(speaker.CHATS), st.lists(st.integers(1, speaker.audio(SAY).size - 1), max_size=8).map(sorted))
def test_any_cut_of_the_audio(models: dict[str, Any], kind: str, cuts: list[int]) -> None:
    decoding = parse_decoding(CONFIGURATION, "test")
    whole = written(models[kind], [], decoding)
    assert written(models[kind], cuts, decoding) == whole
    assert len({delay for _, delay in whole}) > 1


def test_streams_together(models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As alone, in batches, with terms and histories."""
    sizes = fake.noted(monkeypatch, CausalDecoder, "read_together", lambda self, reads: len(reads))
    stop = {**STOP, "zscore": True, "median": 3}
    search = {"type": "joint_beam", "beam": 1, "ctc_weight": 0, "terms_bonus": 1.0}
    decoding = parse_decoding({**CONFIGURATION, "stop": stop, "search": search}, "test")
    known = Background("A talk.", "", (("cat", "Katze"), ("mat", "Hund")))
    audios = [speaker.audio(SAY)[: size * 4800] for size in (6, 9, 20)]
    alone, together = (
        [open_stream(models["qwen3"], decoding, "en", "de", background=known) for _ in audios] for _ in range(2)
    )
    driver = Driver(longest_wait=math.inf)
    for audio, one, other in zip(audios, alone, together, strict=True):
        one.push(audio, finished=True)
        driver.push(other, audio, finished=True)
    driver.finish()
    first, second = ([[(e.text, e.delay_ms) for e in one.emissions] for one in some] for some in (alone, together))
    assert first == second and all(first) and 3 in sizes


def test_characters(chats: dict[str, Path]) -> None:
    """Words of Chinese are characters, of the source and of the text."""
    ours = translation(chats["qwen3"], "zh")
    chat = ours._loaded.placed(ours._options.messages("zh", "de", "你好世界", ()), "char")
    assert sorted(set(chat.words)) == [0, 1, 2, 3]
    assert len(chat.words) == chat.end - chat.begin > 4  # bytes
    ends = [len(speaker.searched(ours, "你好世界", (), GREEDY, stop_of(final))[0].tokens) for final in range(5)]
    assert ends == sorted(ends) and ends[0] < ends[-1]


def test_heads_beside_the_model(chats: dict[str, Path], tmp_path: Path) -> None:
    """They are used where STOP names none."""
    folder = tiny_huggingface.write_language_model(tmp_path / "m", "qwen3")
    source, beside = "the cat sat on the mat", folder / "alignment_heads.json"
    stops = [stop_of(3, pairs=(pair,)) for pair in ((0, 0), (1, 1))]
    expected = [speaker.searched(translation(folder), source, (), GREEDY, stop) for stop in stops]
    assert expected[0] != expected[1]
    with pytest.raises(SimulstError, match="nobody has said which of its heads align a text; find them by 'simulst"):
        speaker.searched(translation(folder), source, (), GREEDY, stop_of(3, pairs=()))
    for pair, found in zip(((0, 0), (1, 1)), expected, strict=True):
        opener.cache_clear()
        beside.write_text(f'{{"heads": [[{pair[0]}, {pair[1]}]], "more": 1}}')
        assert speaker.searched(translation(folder), source, (), GREEDY, stop_of(3, pairs=())) == found
    assert speaker.searched(translation(folder), source, (), GREEDY, stops[0]) == expected[0]
    for text, words in (
        ('{"heads": [[2, 0]]}', "names head 0 of layer 2, but the decoder has 2 layers of 2 heads; find the heads"),
        ("{}", "alignment_heads.json: heads: Field required"),
    ):
        opener.cache_clear()
        beside.write_text(text)
        with pytest.raises(SimulstError, match=words):
            translation(folder)


def test_a_template_without_a_place(tmp_path: Path) -> None:
    told = tiny_huggingface.TEMPLATE.replace("m.content", "m.content | upper")
    ours = translation(tiny_huggingface.write_language_model(tmp_path / "m", template=told))
    assert speaker.searched(ours, "the cat", (), GREEDY, None)
    with pytest.raises(SimulstError, match="the chat template has no place for the source as it is"):
        speaker.searched(ours, "the cat", (), GREEDY, stop_of(1))


def test_beams_and_attention(chats: dict[str, Path]) -> None:
    """A wider search has no drafts; the hypotheses end where the best does."""
    ours = translation(chats["llama"])
    wide = replace(GREEDY, beam=3)
    found = speaker.searched(ours, "the cat sat on the mat", (), wide, stop_of(4))
    whole = speaker.searched(ours, "the cat sat on the mat", (), wide, None)
    assert ours._draft is None and 0 < len(found[0].tokens) < len(whole[0].tokens)
