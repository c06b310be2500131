from simulst.measure.spoken import lower_without_punctuation


def test_text_for_recognition() -> None:
    assert (
        lower_without_punctuation("“It’s 21% — isn't it?” (Laughter) 'yes' a_b") == "it's 21 isn't it laughter yes a b"
    )
    assert lower_without_punctuation("Cafe\u0301, naïve.") == "café naïve"
    assert lower_without_punctuation("— ' …") == ""
    assert lower_without_punctuation("हिन्दी, ठीक है।") == "हिन्दी ठीक है"  # vowel signs are marks
