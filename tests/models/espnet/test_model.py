from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_espnet
import tiny_pieces
import torch
import yaml
from fake import noted
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_espnet import frames_of, noise

import simulst
from simulst.calls import run_alone
from simulst.config import Decoding
from simulst.errors import SimulstError
from simulst.meter import Memo, Meter
from simulst.models import load_model
from simulst.models.espnet import encoding
from simulst.models.espnet.loading import HONOURED, REFUSED
from simulst.models.espnet.model import ESPnet
from simulst.models.espnet.session import ESPnetSession
from simulst.models.espnet.vocabulary import Vocabulary
from simulst.models.registry import digest_of_weights
from simulst.opening import Opening
from simulst.policy.commit import All
from simulst.policy.read import Offline
from simulst.search import LENGTH_RATIO, JointBeamSearch
from simulst.stream import Stream

torch.set_num_threads(1)  # on so little, threads only wait for each other
BLOCKWISE = ("contextual_block_conformer", "contextual_block_transformer")


@pytest.fixture(scope="session")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    """ESPnet's model and the experiment's folder, for each encoder."""
    made = {}
    for seed, encoder in enumerate(tiny_espnet.ENCODERS):
        folder = tmp_path_factory.mktemp(encoder)
        made[encoder] = tiny_espnet.write(folder, encoder, seed), folder / "exp" / "st"
    return made


@pytest.fixture(scope="session")
def models(experiments: dict[str, tuple[Any, Path]]) -> dict[str, ESPnet]:
    return {encoder: load_model(path) for encoder, (_, path) in experiments.items()}


@pytest.fixture
def copy(experiments: dict[str, tuple[Any, Path]], tmp_path: Path) -> Path:
    """An experiment to be broken."""
    _, path = experiments["contextual_block_conformer"]
    shutil.copytree(path.parent.parent, tmp_path / "recipe", symlinks=True)
    return tmp_path / "recipe" / "exp" / "st"


def configure(path: Path, **changes: Any) -> None:
    config = yaml.safe_load((path / "config.yaml").read_text())
    (path / "config.yaml").write_text(yaml.safe_dump(config | changes))


def encoded(session: ESPnetSession, audio: np.ndarray, cuts: list[int]) -> torch.Tensor:
    """The encoder's frames, if the audio comes in pieces and is encoded after each of them."""
    start, seen = 0, 0
    for cut in sorted(c for c in cuts if c <= audio.size):
        session.extend(audio[start:cut])
        frames = len(frames_of(session))
        assert frames >= seen or not session._model.blockwise
        start, seen = cut, frames
    session.extend(audio[start:], final=True)
    return frames_of(session)


def espnet_frames(model: Any, audio: np.ndarray, infer: bool) -> torch.Tensor:
    """ESPnet's frames of the whole utterance at once."""
    with torch.no_grad():
        features, lengths = model._extract_feats(torch.from_numpy(audio)[None], torch.tensor([audio.size]))
        features, lengths = model.normalize(features, lengths)
        options = {"prev_states": None, "is_final": True, "infer_mode": True} if infer else {}
        return model.encoder(features, lengths, **options)[0][0]


@pytest.mark.parametrize("encoder", BLOCKWISE)
@settings(max_examples=40)
@given(samples=st.integers(1200, 100000), seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 100000), max_size=8))
def test_blocks_are_espnets(
    experiments: Any, models: dict[str, ESPnet], encoder: str, samples: int, seed: int, cuts: list[int]
) -> None:
    """Utterances of less than a block to nine blocks, in any pieces."""
    audio = noise(samples, seed)
    ours = encoded(models[encoder].session(Opening("en", "de")), audio, cuts)
    torch.testing.assert_close(ours, espnet_frames(experiments[encoder][0], audio, True), atol=1e-4, rtol=0)


@settings(max_examples=40)
@given(
    samples=st.integers(1200, 100000),
    readers=st.lists(st.tuples(st.lists(st.integers(0, 100000), max_size=6), st.integers(0, 20000)), max_size=4),
)
def test_readers_share_blocks(models: dict[str, ESPnet], samples: int, readers: list[tuple[list[int], int]]) -> None:
    """Readers encode at different positions and may end earlier than others, but each block is encoded only once."""
    model = models["contextual_block_conformer"]
    audio = noise(100000)
    memo = Memo()
    known: set[int] = set()
    for cuts, less in readers:
        length = max(0, samples - less)
        with pytest.MonkeyPatch.context() as patch:
            read = noted(patch, model, "encode_blocks", lambda pieces: sum(new.shape[1] for new, *_ in pieces))
            patch.setattr(encoding, "seconds_of_blocks", lambda model, blocks: 0.0)
            ours = encoded(model.session(Opening("en", "de", Meter(memo))), audio[:length], cuts)
        torch.testing.assert_close(
            ours, encoded(model.session(Opening("en", "de")), audio[:length], []), atol=1e-4, rtol=0
        )
        assert not read or length not in known
        known.add(length)
        if len(known) == 1 and read:
            assert sum(read) == model.features.count(length, final=True)


@pytest.fixture
def slow_blocks(models: dict[str, ESPnet], clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> ESPnet:
    """A model that takes a second for each encoding of blocks, and for nothing else."""
    model = models["contextual_block_conformer"]
    encode = model.encode_blocks

    def takes_a_second(*args: Any) -> Any:
        clock.now += 1.0
        return encode(*args)

    monkeypatch.setattr(model, "encode_blocks", takes_a_second)
    monkeypatch.setattr(model, "seconds_of_blocks", {})
    monkeypatch.setattr(encoding, "time", clock)
    return model


def test_shared_blocks_are_charged_as_if_encoded_alone(slow_blocks: ESPnet) -> None:
    """A stream that reads block by block is charged for each call, even if another encoded all blocks in one call."""
    model = slow_blocks
    audio = noise(400000)
    memo = Memo()
    encoded(model.session(Opening("en", "de", Meter(memo))), audio, [])

    def price(shared: Memo | None, cuts: list[int]) -> float:
        session = model.session(Opening("en", "de", Meter(shared)))
        with session.meter.running():
            encoded(session, audio, cuts)
        return session.meter.seconds

    blocks = list(range(0, audio.size, 10240))
    assert price(None, []) == 1.0 and price(None, blocks) > 30
    for _ in range(2):
        # The rest may have to be encoded again, because no state is known after the block before it.
        assert price(memo, blocks) == pytest.approx(price(None, blocks), abs=1.0)
    assert price(memo, []) < price(None, blocks) / 5


def test_no_audio_and_hardly_any(models: dict[str, ESPnet]) -> None:
    for model in models.values():
        for samples in (0, 1, 256, 257, 900):
            session = model.session(Opening("en", "de"))
            session.extend(noise(samples), final=True)
            assert frames_of(session).shape == (0, tiny_espnet.WIDTH)
            assert [h.tokens for h in run_alone(session.search((3, 4), JointBeamSearch(), None)).beam] == [(3, 4)]


def espnet_texts(model: Any, audio: np.ndarray, ctc_weight: float, infer: bool) -> list[tuple[int, ...]]:
    from espnet.nets.batch_beam_search import BatchBeamSearch
    from espnet.nets.scorers.ctc import CTCPrefixScorer

    search = BatchBeamSearch(
        scorers={"decoder": model.decoder, "ctc": CTCPrefixScorer(model.st_ctc, model.eos)},
        weights={"decoder": 1 - ctc_weight, "ctc": ctc_weight},
        beam_size=6,
        vocab_size=len(model.token_list),
        sos=model.sos,
        eos=model.eos,
        pre_beam_score_key="full",
    )
    with torch.no_grad():
        found = search(espnet_frames(model, audio, infer))
    texts = [h.yseq.tolist() for h in found]
    return [tuple(token for token in text if token != model.eos) for text in texts]


@pytest.mark.parametrize("ctc_weight", [0.0, 0.3])
@pytest.mark.parametrize("encoder", tiny_espnet.ENCODERS)
def test_offline_translation_is_espnets(
    experiments: Any, models: dict[str, ESPnet], encoder: str, ctc_weight: float
) -> None:
    """From audio to text through the loop, whole beam and text."""
    espnet, model = experiments[encoder][0], models[encoder]
    for seed in range(2):
        audio = noise(30000, seed)
        theirs = espnet_texts(espnet, audio, ctc_weight, encoder in BLOCKWISE)
        session = model.session(Opening("en", "de"))
        session.extend(audio, final=True)
        beam = run_alone(session.search((), JointBeamSearch(6, ctc_weight), None)).beam
        assert [h.tokens for h in beam] == theirs[:6]
        stream = Stream(
            model.session(Opening("en", "de")), Decoding(Offline(), All(), search=JointBeamSearch(6, ctc_weight))
        )
        stream.push(audio, finished=True)
        assert stream.committed == theirs[0]
        assert "".join(e.text for e in stream.emissions) == model.text(theirs[0]).strip()


def test_text_of_pieces(models: dict[str, ESPnet]) -> None:
    model = models["conformer"]
    ids = {token: i for i, token in enumerate(model.vocabulary.tokens)}
    pieces = model.vocabulary.pieces.encode("der hund sieht", out_type=str)
    tokens = tuple(ids[piece] for piece in pieces)
    assert model.text(tokens) == "der hund sieht"
    assert model.text((0, *tokens, ids["<sos/eos>"])) == "der hund sieht"
    for length in range(len(tokens)):
        assert "der hund sieht".startswith(model.text(tokens[:length]))


@pytest.mark.parametrize(
    ("token_type", "tokens", "text"), [("char", "d e r <space> h", "der h"), ("word", "der hund", "der hund ")]
)
def test_text_of_other_tokens(tmp_path: Path, token_type: str, tokens: str, text: str) -> None:
    tiny_espnet.write(tmp_path, "transformer", token_type=token_type)
    model = load_model(tmp_path / "exp" / "st")
    assert isinstance(model, ESPnet)
    assert model.text(tuple(model.vocabulary.tokens.index(token) for token in tokens.split())) == text


def pieces_of(folder: Path) -> Vocabulary:
    pieces = tiny_pieces.train(folder)
    middle = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    return Vocabulary(["<blank>", "<unk>", *middle, "<sos/eos>"], "bpe", pieces, "<sos/eos>", "<sos/eos>")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("der hund", "der hund"),
        ("  der\n hund ", "der hund"),
        ("Der HUND", "der hund"),  # there are small letters only
        ("der, Hund.", "der hund"),
        ("der \u2013 hund", "der hund"),
        ("der h\u4e16und", "der hund"),
        ("\u4e16\u754c der 99 hund", "der hund"),
        ("<sos/eos> der <unk>", "sses der unk"),
        ("\u4e16 \u2026", ""),
        ("", ""),
    ],
)
def test_spelling(tmp_path: Path, text: str, spelled: str) -> None:
    """In pieces and in characters; what can't be spelled is left out."""
    letters = ("<blank>", "<unk>", "<space>", *"abcdefghiklmnrstuw", "<sos/eos>")
    for vocabulary in (pieces_of(tmp_path), Vocabulary(letters, "char", None, "<sos/eos>", "<sos/eos>")):
        tokens = vocabulary.spell(text)
        assert vocabulary.text(tokens) == spelled
        assert not {0, 1, vocabulary.eos} & set(tokens)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(tiny_pieces.TEXT.split()), max_size=6))
def test_spelling_is_trainings(vocabularies: tuple[Vocabulary, Any], words: list[str]) -> None:
    """As SentencePiece cuts the whole text; and word by word it is the same."""
    vocabulary, pieces = vocabularies
    tokens = vocabulary.spell(" ".join(words))
    assert [vocabulary.tokens[token] for token in tokens] == pieces.encode(" ".join(words), out_type=str)
    assert tokens == tuple(token for word in words for token in vocabulary.spell(word))


def test_spelling_in_other_cases_and_words() -> None:
    capitals = Vocabulary(("<blank>", "A", "B", "<space>", "<eos>"), "char", None, "<eos>", "<eos>")
    assert capitals.spell("ab Ba c") == (1, 2, 3, 2, 1)
    whole = Vocabulary(("<blank>", "<unk>", "the", "Cat", "dog", "<eos>"), "word", None, "<eos>", "<eos>")
    assert whole.spell("The Cat DOG cat") == (2, 3, 4)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vocabulary, Any]:
    vocabulary = pieces_of(tmp_path_factory.mktemp("pieces"))
    return vocabulary, vocabulary.pieces


def test_utterance_normalisation(tmp_path: Path) -> None:
    espnet = tiny_espnet.write(tmp_path, "transformer", normalize="utterance_mvn", normalize_conf={})
    path = tmp_path / "exp" / "st"
    ours = encoded(load_model(path).session(Opening("en", "de")), noise(20000), [])
    torch.testing.assert_close(ours, espnet_frames(espnet, noise(20000), False), atol=1e-4, rtol=0)
    configure(path, encoder="contextual_block_transformer", encoder_conf=tiny_espnet.CONTEXTUAL)
    with pytest.raises(SimulstError, match=r"utterance_mvn cannot be streamed|do not fit"):
        load_model(path)


def test_a_model_that_moved(copy: Path) -> None:
    """A model in its own folder, with its SentencePiece model beside it. The statistics are among the weights."""
    folder = copy.parent.parent.parent / "moved"
    folder.mkdir()
    shutil.copy(copy / "config.yaml", folder)
    shutil.copy(copy / "3epoch.pth", folder / "10epoch.pth")
    with pytest.raises(SimulstError, match=r"bpe.model is missing"):
        load_model(folder)
    shutil.copy(copy.parent.parent / "data" / "bpe.model", folder)
    assert load_model(folder).has_ctc


def test_which_weights_are_taken(copy: Path) -> None:
    from simulst.models.espnet.experiment import Experiment

    assert Experiment(copy).checkpoint == "valid.acc.ave.pth"
    (copy / "valid.acc.ave.pth").unlink()
    assert Experiment(copy).checkpoint == "valid.acc.ave_3best.pth"
    (copy / "valid.acc.ave_3best.pth").unlink()
    shutil.copy(copy / "3epoch.pth", copy / "10epoch.pth")
    (copy / "checkpoint.pth").write_text("the trainer's state")
    assert Experiment(copy).checkpoint == "10epoch.pth"
    assert Experiment(copy, "3epoch.pth").checkpoint == "3epoch.pth"


def test_a_broken_checkpoint(copy: Path) -> None:
    weights = torch.load(copy / "3epoch.pth")
    for name, words in (
        ("decoder.output_layer.bias", "decoder.*do not fit"),
        ("encoder.after_norm.bias", "encoder.*do not fit"),
        ("normalize.mean", "lack 'normalize.mean'"),
        ("frontend.logmel.melmat", "lack 'frontend.logmel.melmat'"),
        ("st_ctc.ctc_lo.weight", "lack 'st_ctc.ctc_lo.weight', but the model was trained with CTC"),
    ):
        torch.save({key: value for key, value in weights.items() if key != name}, copy / "4epoch.pth")
        with pytest.raises(SimulstError, match=words):
            load_model(copy, checkpoint="4epoch.pth")


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_another_precision(copy: Path, kind: torch.dtype) -> None:
    """They are decoded in float32."""
    weights = torch.load(copy / "3epoch.pth")
    narrowed = {name: value.to(kind) if value.is_floating_point() else value for name, value in weights.items()}
    torch.save(narrowed, copy / "4epoch.pth")
    rounded = {name: value.to(weights[name].dtype) for name, value in narrowed.items()}
    torch.save(rounded, copy / "5epoch.pth")
    texts = []
    for checkpoint in ("4epoch.pth", "5epoch.pth"):
        stream = Stream(
            load_model(copy, checkpoint=checkpoint).session(Opening("en", "de")), Decoding(Offline(), All())
        )
        texts.append([emission.text for emission in stream.push(noise(30000), finished=True)])
    assert texts[0] == texts[1] and texts[0]


@pytest.mark.parametrize(
    ("precision", "value"), [("float32", math.nan), ("float32", -math.inf), ("int8", math.nan), ("int8", math.inf)]
)
@pytest.mark.parametrize(
    "name",
    [
        "encoder.encoders.0.feed_forward.w_1.bias",  # before a ReLU, which makes 0 of NaN
        "encoder.encoders.1.conv_module.norm.running_var",
        "decoder.decoders.0.src_attn.linear_k.weight",
        "decoder.output_layer.weight",
        "st_ctc.ctc_lo.bias",
        "normalize.std",
    ],
)
def test_weights_that_are_not_finite(copy: Path, name: str, value: float, precision: str) -> None:
    """A single such weight, in any part, is an error when the model is loaded."""
    weights = torch.load(copy / "3epoch.pth")
    weights[name].view(-1)[-1] = value
    torch.save(weights, copy / "4epoch.pth")
    with pytest.raises(SimulstError, match=rf"st: 4epoch.pth holds weights that are not finite.*, such as {name}; "):
        load_model(copy, checkpoint="4epoch.pth", precision=precision)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"decoder": "transducer"}, "decoder: 'transducer'"),
        ({"preencoder": "linear"}, "preencoder"),
        ({"speech_volume_normalize": 1.0}, r"speech_volume_normalize: '1\.0' is not implemented; train without it"),
        ({"preprocessor": "multi"}, "preprocessor: 'multi' is not implemented; train with 'default'"),
        ({"model": "discrete_asr"}, "model: 'discrete_asr' is not implemented"),
        ({"use_adapter": True}, "use_adapter: 'True' is not implemented; train without it"),
        ({"preprocessor_conf": {"force_single_channel": True}}, "preprocessor_conf: force_single_channel is not"),
        ({"model_conf": {"lang_token_id": 7}}, "model_conf: lang_token_id 7 is not implemented"),
        ({"frontend_conf": {"n_fft": 512, "log_base": 10}}, "frontend_conf: log_base is not implemented"),
        ({"encoder_conf": tiny_espnet.CONTEXTUAL | {"num_blocks": 4}}, "weights 'encoder.*do not fit"),
        (
            {"encoder_conf": tiny_espnet.CONTEXTUAL | {"cnn_module_kernel": 7, "input_layer": "linear"}},
            "weights|conv2d",
        ),
    ],
)
def test_what_is_not_implemented(copy: Path, changes: dict[str, Any], words: str) -> None:
    configure(copy, **changes)
    with pytest.raises(SimulstError, match=words) as raised:
        load_model(copy)
    assert str(copy) in str(raised.value)


TRAINING = (
    *("init", "ctc_conf", "st_joint_net_conf", "joint_net_conf", "aux_ctc_tasks", "ctc_sample_rate", "specaug"),
    *("specaug_conf", "use_preprocessor", "src_token_type", "src_bpemodel", "non_linguistic_symbols", "cleaner", "g2p"),
    *("src_g2p", "rir_scp", "rir_apply_prob", "noise_scp", "noise_apply_prob", "noise_db_range", "short_noise_thres"),
    *("extra_asr_decoder", "extra_asr_decoder_conf", "extra_mt_decoder", "extra_mt_decoder_conf"),
    *("extra_mt_encoder", "extra_mt_encoder_conf"),
    *("preencoder_conf", "postencoder_conf", "md_encoder_conf", "hier_encoder_conf"),  # of parts that are refused
)


def test_each_key_of_espnets_configuration_is_followed_refused_or_for_training() -> None:
    """Those that ESPnet's tasks of translation and recognition have beside the trainer's, read from their source."""
    [root] = find_spec("espnet2").submodule_search_locations  # type: ignore[union-attr]
    keys = set()
    for task in ("st", "asr"):
        source = (Path(root) / f"tasks/{task}.py").read_text()
        keys |= set(re.findall(r'"--(\w+)"', source))
        for name in re.findall(r'ClassChoices\(\s*(?:name=)?"(\w+)"', source):
            keys |= {name, f"{name}_conf"}
    assert len(keys) > 30
    decoding = {*HONOURED, *REFUSED}
    assert not set(HONOURED) & set(REFUSED) and not decoding & set(TRAINING)
    assert keys - decoding - set(TRAINING) == set()
    assert decoding - keys == {"use_adapter"}, "which is the trainer's"


def test_the_page_lists_each_key_that_changes_decoding() -> None:
    page = (Path(simulst.__file__).parents[1] / "docs/models.md").read_text()
    followed, _, refused = page.partition("**Keys of `config.yaml`**")[2].partition("\n\n")[0].partition("Refused")
    assert sorted(re.findall(r"`(\w+)`", followed)) == sorted(HONOURED)
    assert sorted(re.findall(r"`(\w+)`", refused)) == sorted(REFUSED)


@pytest.mark.parametrize(
    ("paths", "good", "bad"),
    [
        (
            ["dump/train/text.tc.de text", "dump/train/text.lc.rm.en src_text"],
            ("en", "de"),
            [("en", "fr"), ("de", "de")],
        ),
        (["a/text.tc.ja text"], ("xx", "ja"), [("en", "de")]),
        (["dump/train/text.lc.rm.en text"], ("en", "en"), [("en", "de"), ("de", "en")]),
        (["dump/train/text.tc.multi text", "b/text.lc.rm.en src_text"], ("en", "fr"), [("de", "fr")]),
        (["somebody/elses text", "file src_text"], ("xx", "yy"), []),
    ],
)
def test_the_languages_that_a_model_was_trained_for(
    copy: Path, paths: list[str], good: tuple[str, str], bad: list[tuple[str, str]]
) -> None:
    """As far as the names of its training texts tell."""
    configure(copy, train_data_path_and_name_and_type=[[*path.split(), "text"] for path in paths])
    model = load_model(copy)
    assert model.session(Opening(*good))
    for pair in bad:
        with pytest.raises(SimulstError, match=r"st: the model was trained to (hear|write) '\w+', not '"):
            model.session(Opening(*pair))


@pytest.mark.long
def test_loading_needs_no_espnet_task(experiments: Any) -> None:
    """It takes seconds, in a new process."""
    _, path = experiments["contextual_block_conformer"]
    code = (
        "import sys; from simulst.models import load_model; "
        f"load_model({str(path)!r}); "
        "print([m for m in sys.modules if m.startswith(('espnet2.tasks', 'espnet2.train', 'librosa', 'nltk'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_weights_of_the_search_that_were_chosen_on_dev(copy: Path) -> None:
    model = load_model(copy)
    usual = JointBeamSearch(max_length_ratio=LENGTH_RATIO)
    assert model.session(Opening("en", "de")).traits.default_search == usual
    before = digest_of_weights(copy, {})
    (copy / "search.yaml").write_text("ctc_weight: 0.1\nlength_bonus: 1.0\n")
    chosen = replace(usual, ctc_weight=0.1, length_bonus=1.0)
    assert load_model(copy).session(Opening("en", "de")).traits.default_search == chosen
    assert digest_of_weights(copy, {}) != before
    for text, message in (
        ("ctc_weight: 2\n", r"search\.yaml: the search, option 'ctc_weight': Input should be less than or equal to 1"),
        ("ctc_weight: [\n", r"search\.yaml is not valid YAML .*; choose the weights again\."),
        ("beam: 3\n", r"search\.yaml may hold only ctc_weight and length_bonus"),
        ("", r"search\.yaml may hold only"),
    ):
        (copy / "search.yaml").write_text(text)
        with pytest.raises(SimulstError, match=message):
            load_model(copy)
