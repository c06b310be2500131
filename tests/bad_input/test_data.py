"""Bad data directories and bad audio."""

import numpy as np
import pytest
from cases import Case, Change, Check, all_of, audio, cut, emptied, removed, replaced, table, written

EVALUATE = "simulst evaluate --model fake:FakeModel --source-lang es --target-lang en --decoding la2.yaml --out out"
DIRECTORIES = table(
    f"{EVALUATE} --data data",
    ("", "data: no such data directory", removed("data")),
    ("", "data/wav.scp: no such file", removed("data/wav.scp")),
    ("", "data/wav.scp, line 1: not UTF-8", written("data/wav.scp", b"\xff\xfe")),
    ("", "data/wav.scp, line 2: 'u0' stands there twice", replaced("data/wav.scp", "u1 ", "u0 ")),
    ("", "data/wav.scp, line 1: 'u0' has no value", replaced("data/wav.scp", "u0 u0.wav", "u0")),
    ("", "data/wav.scp: pipes ('sox u0.wav |') are not run", replaced("data/wav.scp", "u0.wav", "sox u0.wav |")),
    ("", "names recording 'u0', which wav.scp lacks", replaced("data/wav.scp", "u0 ", "v0 ")),
    ("", "data/segments: there is no utterance in it", emptied("data/wav.scp", "data/segments", "data/text.en")),
    ("", "data: no text in language 'en'; it has ", removed("data/text.en", "data/text.lc.rm.en")),
    ("--text fr", "data: no text in language 'fr'; it has "),
    ("", "data/text.en: 2 lines against 3 in segments, first odd", replaced("data/text.en", "u0 the cat sat on\n", "")),
    ("", "'u0 u0 0.0' is not '<recording> <start> <end>'", replaced("data/segments", "u0 u0 0.0 1.0", "u0 u0 0.0")),
    ("", "'u0' runs from 1 to 0 s", replaced("data/segments", "0.0 1.0", "1.0 0.0")),
    ("", "'u0' runs from nan to 1 s", replaced("data/segments", "0.0", "nan")),
    ("", "u0.wav: the segment 0-77 s ends after the audio", replaced("data/segments", "1.0", "77.0")),
    ("", "1 of 3 utterances failed ... u1: ... u1.wav: no such audio file", removed("data/u1.wav")),
    ("--max-seconds 0.5", "there is no utterance to decode"),
    ("--max-seconds 5", "u1.wav: no such audio file", all_of(removed("data/segments"), removed("data/u1.wav"))),
)
EXPORT = table(
    "simulst export --data data --target-lang en --out files",
    ("", "u2.wav: truncated", cut("data/u2.wav", 1000)),
    ("", "the utterance 'a/b'", all_of(replaced("data/segments", "u0", "a/b"), replaced("data/text.en", "u0", "a/b"))),
    ("", "files: a file, but a folder is needed there", written("files", "")),
)


SINE = np.sin(np.arange(16000) / 20) / 3
FILES: list[tuple[str, Change]] = [
    ("no such audio file", removed("data/u0.wav")),
    ("the file is empty (0 bytes)", written("data/u0.wav", "")),
    ("not readable as audio", written("data/u0.wav", "no audio at all")),
    ("not readable as audio", written("data/u0.wav", bytes(5000))),
    ("not readable as audio", written("data/u0.wav", b"ID3\x04" + bytes(100))),
    ("truncated", cut("data/u0.wav", 5000)),
    ("no audio between 0 s and", all_of(removed("data/segments"), audio("data/u0.wav", []))),
    ("has samples that are NaN or infinite", audio("data/u0.wav", [0.1, np.nan, *SINE])),
    ("its samples reach 10922", audio("data/u0.wav", SINE * 32768)),
    ("its 2 channels cancel each other", audio("data/u0.wav", np.stack([SINE, -SINE], 1))),
    ("a sample rate of 4000000 Hz cannot be", audio("data/u0.wav", SINE, 4_000_000)),
    ("a sample rate of 10 Hz cannot be", audio("data/u0.wav", SINE[:20], 10)),
]
TRANSLATE = "simulst translate data/u0.wav --model fake:FakeModel --source-lang es --target-lang en --decoding la2.yaml"
AUDIO = [
    *(Case(TRANSLATE, f"data/u0.wav: {words}", broken) for words, broken in FILES),
    *(Case("simulst export --data data --target-lang en --out files", words, broken) for words, broken in FILES[1::4]),
]


@pytest.mark.parametrize("case", [*DIRECTORIES, *EXPORT, *AUDIO], ids=str)
def test_data(case: Case, check: Check) -> None:
    check(case)
