"""What is known of a recording: its table, whom it is told, and the recall of its terms."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sounds
from click.testing import CliRunner
from fake import FakeModel

from simulst.background import NOTHING, Background, known_of_all, read_backgrounds
from simulst.commands.main import main
from simulst.config import parse_decoding
from simulst.data.datadir import Utterance, with_backgrounds
from simulst.errors import SimulstError
from simulst.measure import Texts
from simulst.measure.score import term_scores as scores_of_terms
from simulst.streams import open_stream

TABLE = "recording\ttext\tterms\nu0\tUna charla.\thaz=beam search; CTC\nu1\t\t\n"


def term_scores(terms: list[list[str]], predictions: list[str], references: list[str], unit: str) -> dict[str, Any]:
    return scores_of_terms(Texts(tuple(predictions), tuple(references), "en", unit, terms=tuple(terms)))


def table(folder: Path, content: str) -> Path:
    (folder / "context.tsv").write_text(content)
    return folder / "context.tsv"


def test_tables(tmp_path: Path) -> None:
    assert read_backgrounds(table(tmp_path, TABLE)) == {
        "u0": Background("Una charla.", "", (("haz", "beam search"), ("CTC", "CTC"))),
        "u1": NOTHING,
    }
    other = table(tmp_path, "target_text\tterms\trecording\nA talk.\t;a;b = ; =c\tx\n")
    assert read_backgrounds(other) == {"x": Background("", "A talk.", (("a", "a"), ("b", ""), ("", "c")))}
    utterances = [Utterance(name, Path(f"{wav}.wav"), "") for name, wav in (("a", "u0"), ("u0", "b"), ("c", "d"))]
    told = with_backgrounds(utterances, table(tmp_path, TABLE))
    assert [bool(utterance.background.terms) for utterance in told] == [True, True, False]
    of_all = table(tmp_path, TABLE + "*\tTexto.\t\n")
    told = with_backgrounds(utterances, of_all)
    assert [utterance.background.text for utterance in told] == ["Una charla.", "Una charla.", "Texto."]
    assert known_of_all(of_all) == Background("Texto.")
    with pytest.raises(SimulstError, match=r"has no line for the recording '\*'"):
        known_of_all(table(tmp_path, TABLE))


def test_languages() -> None:
    """What is told is in the language that is written."""
    known = Background("Una charla.", "A talk.", (("haz", "beam"), ("CTC", "CTC"), ("", "noise"), ("ruido", "")))
    assert known.between("es", "en") == known
    assert known.target_terms == ("beam", "CTC", "noise")
    heard = known.between("es", "es")
    assert heard.target_text == "Una charla." and heard.target_terms == ("haz", "CTC", "ruido")
    assert heard.between("es", "es") == heard


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the first line must name the column recording and at least one of text, target_text and terms"),
        ("recording\n", "with tabs between, but is 'recording'"),
        ("recording\ttitle\n", "but is .*title"),
        ("recording\tterms\nu0\n", "line 2: 1 columns, not 2"),
        ("recording\tterms\nu0\ta\nu0\tb\n", "line 3: 'u0' stands there twice"),
        ("recording\tterms\nu0\ta;=\n", "line 2: '=' stands there without a term"),
        ("recording\tterms\nother\ta\n", "names none of the utterances, such as 'u0'"),
    ],
)
def test_bad_tables(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=words):
        with_backgrounds([Utterance("u0", Path("u0.wav"), "")], table(tmp_path, content))
    with pytest.raises(SimulstError, match="gone: no such file; write it, or give no context"):
        read_backgrounds("gone")


def test_term_recall() -> None:
    terms = [["beam search", "cat"], ["CTC", "CTC"], ["C++"], []]
    predictions = ["Beam search and a cat", "CTC", "C++ twice C++", "a term"]
    references = ["The beam search, the cats", "CTC and CTC", "C++", "another one"]  # cats has no cat
    assert term_scores(terms, predictions, references, "word") == {"terms": 4, "term_recall": 0.75}
    assert term_scores([["束搜索"]], ["我们用束搜索"], ["用束搜索"], "char") == {"terms": 1, "term_recall": 1.0}
    assert term_scores([["c"]], ["a"], ["b"], "word") == {"terms": 0, "term_recall": None}


def test_a_vowel_sign_beside_a_term_makes_another_word() -> None:
    """So does the bonus for terms: cat is no part of cats."""
    assert term_scores([["राम"]], ["रामू आया"], ["राम आया"], "word") == {"terms": 1, "term_recall": 0.0}
    for term, other in (("नगर", "नगरी"), ("cat", "cats"), ("cat", "cat_")):
        assert term_scores([[term]], [other], [other], "word") == {"terms": 0, "term_recall": None}
    assert term_scores([["C++", "a.b"]], ["c++ a.b."], ["C++, axb a.b"], "word") == {"terms": 2, "term_recall": 1.0}
    assert term_scores([[]], ["a"], ["b"], "word") == {}


def test_a_stream_is_told() -> None:
    known = Background("Un gato.", "A cat.", (("gato", "cat"),))
    for segment in ({"type": "none"}, {"type": "pause", "seconds": 1.0}):
        raw = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "all"}, "segment": segment}
        stream = open_stream(FakeModel(), parse_decoding(raw, "test"), "es", "en", background=known)
        session = stream.session if hasattr(stream, "session") else stream._open(stream.meter, "").session
        assert session.opening.background == known
    stream = open_stream(FakeModel(), parse_decoding(raw, "test"), "es", "es", background=known)
    assert stream._open(stream.meter, "").session.opening.background == known.spoken


def test_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recall is in scores.json; a run of another context is not gone on with."""
    monkeypatch.chdir(tmp_path)
    noise = np.random.default_rng(0).normal(0, 0.1, 16000)
    sounds.write(Path("data"), {"u0": noise}, {"en": {"u0": "beam search by CTC"}})
    Path("la2.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: local_agreement}\n")
    options = ["--model", "fake:FakeModel", "--source-lang", "es", "--target-lang", "en", "--context"]
    command = ["evaluate", "--data", "data", "--decoding", "la2.yaml", "--out", "out", *options]
    table(tmp_path, TABLE)
    CliRunner().invoke(main, [*command, "context.tsv"], catch_exceptions=False)
    scores = json.loads(Path("out/scores.json").read_text())
    assert scores["terms"] == 2 and scores["term_recall"] == 0.0
    table(tmp_path, TABLE.replace("CTC", "LSTM"))
    with pytest.raises(SimulstError, match="holds a run of another context under the same name"):
        CliRunner().invoke(main, [*command, "context.tsv"], catch_exceptions=False)
    spoken = ["translate", "data/u0.wav", "--decoding", "la2.yaml", *options]
    assert CliRunner().invoke(main, [*spoken, "context.tsv"], catch_exceptions=False).exit_code == 0
    Path("data/x.wav").write_bytes(Path("data/u0.wav").read_bytes())
    with pytest.raises(SimulstError, match="has no line for the recording 'x'"):
        CliRunner().invoke(main, ["translate", "data/x.wav", *spoken[2:], "context.tsv"], catch_exceptions=False)
