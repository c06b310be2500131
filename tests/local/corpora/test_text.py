"""Normalisation of text: what is removed, what stays, and that other scripts are not changed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer

from corpora.text import has_words, length, normalise, one_line, without_events
from simulst.measure.spoken import lower_without_punctuation

TEXT = st.text(st.sampled_from("ab Ä é。，！(（)）[]【】♪.,!?:'\"“”«»-—…\u00a0\u3000\u0301拍手笑"), max_size=30)


@given(st.text())
def test_one_line_is_one_line_for_every_reader_and_nfc(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1 and "\t" not in line and line == line.strip()
    assert unicodedata.is_normalized("NFC", line) and one_line(line) == line


def test_one_line_changes_nothing_else() -> None:
    assert one_line(" « Cafe\u0301 »  – 1\u00a0000\u2028Mal…\r") == "« Café »  – 1\u00a0000 Mal…"


@pytest.mark.parametrize(
    "language, text, left",
    [
        ("en", "(Applause)", ""),
        ("en", "(Laughter) (Applause) Thank you.", "Thank you."),
        ("en", "Thank you. (Laughter)", "Thank you."),
        ("en", "And then (Laughter), of course, he fell.", "And then, of course, he fell."),
        ("en", "So (laughs) we went.", "So we went."),
        ("en", "That was it. (In French) Merci.", "That was it. Merci."),
        ("en", "♪ La la la ♪ Hello. ♫♫ la ♫♫", "Hello."),
        ("en", "And he sang ♪", "And he sang"),
        ("de", "Ja. [Musik] Nein. (Gelächter und Applaus)", "Ja. Nein."),
        ("fr", "Oui. (Rires) (Applaudissements)", "Oui."),
        ("es", "(Risas) Gracias. (Aplausos)", "Gracias."),
        ("ru", "Да (Смех) и нет.", "Да и нет."),
        ("ja", "（拍手）ありがとう（笑）ございます。（会場拍手）", "ありがとうございます。"),
        ("zh", "谢谢。（掌声）【音乐】好", "谢谢。好"),
        # Ordinary text in brackets and names of speakers stay.
        ("en", "Chris Anderson: Hello.", "Chris Anderson: Hello."),
        ("de", "Das HI-Virus (HIV) ist (wie er sagte) da.", "Das HI-Virus (HIV) ist (wie er sagte) da."),
        ("en", "(1) First. (He left.) He left (Berlin).", "(1) First. (He left.) He left (Berlin)."),
        ("en", "So (musical theatre) is fun.", "So (musical theatre) is fun."),
        ("ja", "携帯（アイフォーン）です", "携帯（アイフォーン）です"),
        ("en", "It is (not closed", "It is (not closed"),
    ],
)
def test_events(language: str, text: str, left: str) -> None:
    assert without_events(text, language) == left


def test_punctuation_for_training() -> None:
    german = "„Ja“ – sagte er…  ‚so‘."
    assert normalise(german, "de") == "\"Ja\" - sagte er... 'so'."
    assert normalise(german, "de", "keep") == "„Ja“ – sagte er… ‚so‘."
    assert normalise("«\u00a0Oui\u00a0»\u00a0!", "fr") == '"Oui"!'


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("aé ,.?!-'1`\"´º")), st.sampled_from(["en", "de", "ro"]))
def test_what_is_skipped_moses_would_not_have_changed(text: str, language: str) -> None:
    text = one_line(text)
    if not any(mark in text for mark in "(（[［【♪♫♬"):
        assert normalise(text, language) == " ".join(MosesPunctNormalizer(language).normalize(text).split())


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_full_width_punctuation_stays(language: str) -> None:
    text = "「いい」、“好”，对！？（一）：１２；……"
    assert normalise(text, language) == text


@given(TEXT, st.sampled_from(["en", "de", "fr", "ru"]))
def test_no_event_and_no_run_of_spaces_is_left(text: str, language: str) -> None:
    line = normalise(one_line(f"{text} (Applause) [x]"), language)
    assert "Applause" not in line and "[x]" not in line and "  " not in line and line == line.strip()


@given(TEXT)
def test_no_space_gets_into_a_text_without_spaces(text: str) -> None:
    text = one_line(text.replace(" ", "").replace("\u00a0", "").replace("\u3000", ""))
    assert not any(c.isspace() for c in normalise(text, "ja"))


@given(st.text())
def test_words_are_what_recognition_keeps(text: str) -> None:
    if has_words(text):
        assert lower_without_punctuation(text)


def test_lengths() -> None:
    assert length("Das ist  gut .", "de") == 4
    assert length("これは 本です。", "ja") == 7
