"""Bad corpora, and bad options of the commands that prepare them."""

import shutil
from pathlib import Path

import pytest
from cases import ROOT, Case, Change, Check, all_of, cut, removed, replaced, table, written

YAML, DE = "corpus/en-de/data/dev/txt/dev.yaml", "corpus/en-de/data/dev/txt/dev.de"
MUST_C = table(
    "local/prepare_data.py must-c --root corpus --out prepared --splits 'train dev'",
    ("--root nowhere", "nowhere: no such folder; --root is the folder that holds en-de/data"),
    ("--root corpus/en-de", "corpus/en-de: no language pair 'en-de'; it has none. Give the --root"),
    ("--pairs en-fr", "corpus: no language pair 'en-fr'; it has en-de"),
    ("--splits test", "corpus/en-de/data: no split 'test'; it has dev, train"),
    ("--splits 'dev ../dev'", "split"),
    ("--version 2", "train.yaml: MuST-C version 1 (its segments have no rW), not 2"),
    ("--max-ratio nan", "--max-ratio: nan would drop everything"),
    ("--min-seconds 9 --max-seconds 3", "--min-seconds 9, --max-seconds 3: nothing lies between"),
    ("--max-seconds 0.5", "train.yaml: no segment can be used (too long: 3; the first: "),
    ("", "no folder wav", removed("corpus/en-de/data/dev/wav")),
    ("", "dev.yaml: no such file", removed(YAML)),
    ("", "dev.de, line 1: not UTF-8", written(DE, b"\xff\xfe")),
    ("", "3 segments, but 2 lines in dev.de, so line 3 has no partner", replaced(DE, "der Hund\n", "")),
    ("", "dev.yaml, line 3: not YAML", written(YAML, "- {}\n- {}\n- {a: [\n")),
    ("", "dev.yaml, line 1: no list of segments", written(YAML, "a: 1\n")),
    ("--on-error stop", "dev.yaml, line 1: 'offset' is missing", replaced(YAML, "offset: 0.0", "begin: 0.0")),
    ("--on-error stop", "dev.yaml, line 1: '../dev.wav' is no plain file", replaced(YAML, "dev.wav", "../dev.wav")),
    (
        "--on-error stop",
        "dev.yaml, line 1: this is no segment",
        replaced(YAML, "{duration: 0.9, offset: 0.0, speaker_id: spk.1, wav: dev.wav}", "3"),
    ),
    ("--on-error stop", "dev.wav: truncated", cut("corpus/en-de/data/dev/wav/dev.wav", 9000)),
    ("--on-error stop", "dev.de, line 1: there are no words", replaced(DE, "der Hund", "...")),
    ("", "no segment can be used (no audio: 3; the first: ", removed("corpus/en-de/data/dev/wav/dev.wav")),
    ("--out la2.yaml", "la2.yaml", lambda: None),
)
TSV = table(
    "local/prepare_data.py tsv --pair en-de --out prepared",
    ("table.tsv", "'table.tsv': give SPLIT=TSV"),
    ("train=table.tsv train=table.tsv", "each split once"),
    ("a/b=table.tsv", "'a/b' cannot name a split"),
    ("train=none.tsv", "none.tsv: "),
    ("train=table.tsv --audio nowhere", "nowhere: no such folder; --audio is where"),
    ("train=table.tsv --pair ende", "'ende' is no language pair"),
)
TSV += table(
    "local/prepare_data.py tsv --pair en-de --out prepared train=table.tsv --audio data",
    ("--audio-column file", "table.tsv: no column 'file'; the first line names path, sentence"),
    ("--start-column begin", "--start-column: goes with one of --end-column"),
    ("", "table.tsv: more than one column 'path'", replaced("table.tsv", "sentence", "path\tsentence")),
    ("", "separate the columns by tabs", replaced("table.tsv", "path\tsentence\ttrans", "path,sentence,trans")),
    ("", "table.tsv, line 2: not UTF-8", written("table.tsv", b"path\tsentence\ttranslation\n\xff\n")),
    ("--on-error stop", "line 2: 2 fields, but the header has 3", replaced("table.tsv", "on\tder", "on der")),
    ("--on-error stop", "table.tsv, line 2: no audio file is named", replaced("table.tsv", "u0.wav", "")),
    ("--on-error stop", "line 2: there are no words in 'translation'", replaced("table.tsv", "der Hund", "-")),
    ("--on-error stop", "u0.wav: truncated", cut("data/u0.wav", 5000)),
)


def silent_film() -> None:
    """An MP4 without sound in place of a recording."""
    import av

    removed("iwslt/audio/a.wav")()
    with av.open("iwslt/audio/a.mp4", "w") as film:
        image = film.add_stream("mpeg4", rate=1, width=16, height=16, pix_fmt="yuv420p")
        film.mux(image.encode(av.VideoFrame(16, 16, "yuv420p")))
        film.mux(image.encode())


SEGMENTS = "iwslt/audio-segments.yaml"
IWSLT = table(
    "egs/iwslt/local/prepare_iwslt.py iwslt prepared",
    ("", "a.mp4: has no sound; give a file with an audio track", silent_film),
    ("", "a.mp4: not readable as audio", all_of(removed("iwslt/audio/a.wav"), written("iwslt/audio/a.mp4", b"film"))),
    ("", "audio/c.wav: audio-segments.yaml does not name this recording", written("iwslt/audio/c.wav", b"")),
    ("", "names the recording a, which iwslt/audio has not", removed("iwslt/audio/a.wav")),
    ("", "audio: has a.mp4 and a.wav;", all_of(written("iwslt/audio/a.mp4", b""), replaced(SEGMENTS, "a.wav", "a"))),
    ("", "a.wav: the sentence at 0.5 s ends at 9.50 s, but the recording at 3.00 s", replaced(SEGMENTS, "2.0", "9.0")),
    ("", "the recording 'a b' may have letters", replaced(SEGMENTS, "wav: a.wav", "wav: a b.wav")),
    ("", "iwslt: has no audio-segments.yaml and no other YAML; name", removed(SEGMENTS)),
    ("", "iwslt: has no texts such as en.txt", removed("iwslt/en.txt", "iwslt/de.txt")),
    ("--text en", "--text en: give LANG=FILE"),
    ("--text en=nowhere.txt", "nowhere.txt: no such file"),
    ("--audio nowhere", "nowhere: no such folder; name the one that holds the recordings"),
    ("--context iwslt/context.tsv", "is of other recordings, such as 'c'", replaced("iwslt/context.tsv", "a\t", "c\t")),
    ("--context iwslt/context.tsv", "says nothing of 'a'", replaced("iwslt/context.tsv", "a\tA.\n", "")),
    ("--context papers", "papers: lists 1 files for 2 recordings", written("papers", "one.txt\n")),
    ("--context papers", "one.pdf: a PDF; write its text", written("papers", "one.pdf\ntwo.pdf\n")),
    ("", "prepared: is there already, without made_of.json", written("prepared/mine.txt", "mine")),
)
PAIRS = table(
    "local/prepare_data.py combine --data corpora --split train --out both",
    ("en-de", "pairs en-de: one pair of one corpus; give more pairs, or another corpus by --also"),
    ("en-de en-fr", "corpora/en-de/train: no such data directory"),
)


def debs(*names: str) -> Change:
    """Files that are called like packages; apt-get is not there to fetch what lacks."""
    return all_of(*(written(f"downloads/{name}_1_all.deb", b"!<arch>\n") for name in names))


SOUNDS = [f"asterisk-core-sounds-{name}" for name in ("en", "es", "es-wav")]
PROMPTS = table(
    "egs/prompts/local/prepare_prompts.py --downloads downloads --out prompts --languages es",
    ("--languages xx", "--languages: 'xx' is not offered; choose from es, fr, it, ru"),
    ("", "downloads: apt-get could not get asterisk-core-sounds-en, ... (there is no apt-get); download the .deb"),
    ("", "asterisk-core-sounds-en_1_all.deb: cannot be unpacked ... delete it and run again", debs(*SOUNDS)),
    ("--downloads la2.yaml", "la2.yaml: a file, but a folder is needed there"),
)
GAMES = ["beneath-a-steel-sky", "drascula", "drascula-spanish"]
VOICES = [
    *table(
        "egs/voices/local/prepare_voices.py --downloads downloads --out voices",
        ("", "downloads: apt-get could not get beneath-a-steel-sky, drascula, drascula-spanish (there is no apt-get)"),
        ("", "beneath-a-steel-sky_1_all.deb: cannot be unpacked", debs(*GAMES)),
        (
            *("", "has no beneath-a-steel-sky/sky.dnr, so it is another version of the game; delete"),
            all_of(debs(*GAMES), *(written(f"downloads/unpacked/{name}/.done", f"{name}_1_all.deb") for name in GAMES)),
        ),
    ),
    *table(
        "local/fetch_whisper.py --downloads downloads --out model",
        ("--model nowhere", "--model nowhere: no such folder, and no hub name"),
        ("--model ../a", "--model ../a: no such folder, and no hub name"),
        ("--model data", "data: has no config.json; give a Whisper model in CTranslate2 form"),
        ("--model whisper", "whisper/config.json: not JSON", written("whisper/config.json", "{")),
        ("--model whisper", "whisper/config.json: has no 'lang_ids'", written("whisper/config.json", "[]")),
        ("--model whisper", "whisper: has no tokenizer.json", removed("whisper/tokenizer.json")),
        ("--model whisper --out data", "data: holds 'segments', which is no part of a model"),
        ("--model whisper --out la2.yaml", "la2.yaml: holds 'la2.yaml'"),
    ),
]


MINI = table(
    "egs/mini/local/make_mini.py --out mini --train 3 --dev 2 --tst-common 2 --tst-he 2",
    ("--pairs en-fr", "--pairs: 'en-fr' is not offered; choose from en-de, en-ja"),
    ("--out la2.yaml", "la2.yaml"),
)
NEW = table(
    f"local/new_recipe.py --recipes {ROOT / 'egs'}",
    ("mine", "Missing option '--pair'", lambda: None, 2),
    ("mini --pair de-en", "egs/mini: is there already"),
    ("mine --pair de-en --recipes nowhere", "nowhere/TEMPLATE: no such folder"),
)


CONTEXT = [
    *table(
        "local/rare_words.py --data data --target-lang en --out context.tsv",
        ("--counted nowhere", "nowhere: cannot be read"),
        ("--counted words", "words: cannot be read", written("words", b"u0 \xff")),
        ("--counted data/text.en --target-lang ja", "'ja' has no spaces between words"),
    ),
    *table(
        "egs/voices/local/write_cascades.py --model whisper --decodings sweep.yaml --out cascades",
        ("--translator 'cat'", "--translator 'cat': not such as {type: apertium:Apertium}"),
        ("--translator '{type: apertium:Apertium}' --decodings nowhere.yaml", "nowhere.yaml"),
    ),
]


@pytest.mark.parametrize("case", [*CONTEXT, *MUST_C, *IWSLT, *TSV, *PAIRS, *PROMPTS, *VOICES, *MINI, *NEW], ids=str)
def test_preparation(case: Case, check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No command can be found but dpkg, so that nothing is fetched."""
    (tmp_path / "bin").mkdir()
    if dpkg := shutil.which("dpkg"):
        (tmp_path / "bin/dpkg").symlink_to(dpkg)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    check(case)
    left = {path.name for path in Path("prepared").glob("*")} if "prepare_iwslt" in case.command else set()
    assert left <= {"mine.txt"}, "something half written is left"
