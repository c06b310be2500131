"""The whole of stage 1 on packages made here: no network, no game, no model."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml
from contents import contents
from debs import deb
from games import drascula_texts, speech, write_sky

import debian
import prepare_voices as corpus
import sources
import splits
from corpora.must_c import prepare_must_c
from lines import samples
from prepare_voices import all_pairs, counts_tables, prepare_voices
from simulst.data.datadir import read_data_dir
from simulst.errors import SimulstError

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
RUSSIAN = str.maketrans("abdefgiklmnoprstu", "абдефгиклмнопрсту")
OTHERS = ("es", "de", "fr", "it", "ru")
TARGETS = ("de", "fr", "it", "es", "pt", "sv")


def sentence(seed: int) -> str:
    chance = random.Random(seed)
    return " ".join("".join(chance.choices(SYLLABLES, k=3)) for _ in range(4))


def entries(n: int, first: int, languages: tuple[str, ...]) -> list[dict[str, str]]:
    made = []
    for i in range(first, first + n):
        texts = {la: sentence(100 * i + j).capitalize() + "." for j, la in enumerate(("en", *languages))}
        if "ru" in texts:
            texts["ru"] = texts["ru"].translate(RUSSIAN)
        made.append(texts)
    made[3]["de"] = made[3]["en"]  # not translated
    made[5]["en"] = made[5]["en"].upper()
    return made


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of the three packages and the lists of words, not yet packed."""
    root = tmp_path_factory.mktemp("games")
    write_sky(root / sources.SKY / sources.FOLDER / sources.SKY, entries(60, 0, TARGETS))
    english = root / sources.DRASCULA / sources.FOLDER / "drascula/en"
    spanish = root / sources.DRASCULA_ES / sources.FOLDER / "drascula/es"
    tables = {"": entries(40, 1000, OTHERS), "VB": entries(8, 2000, OTHERS)}
    for folder, seed in ((english, 0), (spanish, 5000)):
        folder.mkdir(parents=True)
        for prefix, table in tables.items():
            for n in range(len(table)):
                (folder / f"{prefix}{n}.ALS").write_bytes(speech(1 + n % 3, seed + n + len(prefix)))
    (english / "drascula.dat").write_bytes(drascula_texts(tables))
    for name in itertools.chain(*sources.WORDS.values()):
        folder = root / name / "usr/share/dict"
        folder.mkdir(parents=True)
        (folder / "list").write_text("bada\nkolo\n")
    return root


@pytest.fixture(scope="module")
def packages(games: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of the packages, and what they are compared with: packing takes a while."""
    folder = tmp_path_factory.mktemp("packages")
    for game in games.iterdir():
        deb(folder / f"{game.name}_1-1_all.deb", contents(game))
    sums = {key: sources.checksum(games / key[0] / sources.FOLDER / key[1]) for key in sources.CHECKSUMS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHECKSUMS", sums)
        patch.setattr(corpus, "CHECKSUMS", sums)
        patch.setattr(debian, "_apt", lambda arguments, folder: "E: no network")
        (folder / "unlike.tsv").write_text("sky-0-0007\ten\n")
        patch.setattr(corpus, "UNLIKE", folder / "unlike.tsv")
        patch.setattr(corpus, "SIZES", {"sky": {"dev": 6, "tst": 12}, "drascula": {"dev": 4, "tst": 8}})
        patch.setattr(splits, "LONGEST_SCENE", 5)
        yield folder


def prepare(folder: Path, force: bool = False) -> Path:
    """Prepares the corpus of the packages in `folder/downloads`; returns that of the corpus."""
    out = folder / "data/corpus"
    prepare_voices(folder / "downloads", out, force)
    return out


@pytest.fixture(scope="module")
def prepared(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, which no test changes; what was printed is in `output` beside its folder."""
    folder = tmp_path_factory.mktemp("prepared")
    shutil.copytree(packages, folder / "downloads")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        out = prepare(folder)
    (out.parent / "output").write_text(printed.getvalue())
    return out


@pytest.fixture
def recipe(packages: Path, tmp_path: Path) -> Callable[..., Path]:
    """Prepares in a folder of its own; returns that of the corpus."""
    shutil.copytree(packages, tmp_path / "downloads")
    return functools.partial(prepare, tmp_path)


def test_whole_stage(prepared: Path) -> None:
    out = prepared
    assert all_pairs() == sorted(path.name for path in out.glob("??-??"))
    texts = {}
    for pair in all_pairs():
        source, target = pair.split("-")
        for split in splits.SPLITS:
            folder = out / pair / "data" / split
            segments = yaml.safe_load((folder / f"txt/{split}.yaml").read_text()) or []
            lines = [(folder / f"txt/{split}.{la}").read_text().splitlines() for la in (source, target)]
            assert len(segments) == len(lines[0]) == len(lines[1])
            assert all((folder / "wav" / segment["wav"]).is_file() for segment in segments)
            texts[pair, split] = list(zip(*lines, strict=True))
    sizes = {split: len(texts["en-fr", split]) for split in splits.SPLITS}
    assert (sizes["dev"], sizes["tst"], sizes["tst-other"]) == (10, 20, 8 - 1)
    assert len(texts["en-de", "dev"]) == 10 and len(texts["en-de", "train"]) < sizes["train"]
    assert len(texts["es-ru", "tst"]) == 8 and len(texts["en-sv", "tst"]) == 12
    everything = [source for split in splits.SPLITS for source, _ in texts["en-fr", split]]
    sky, drascula = entries(60, 0, TARGETS), entries(40, 1000, OTHERS)
    assert sky[5]["en"].capitalize() in everything and drascula[5]["en"].capitalize() in everything
    assert sky[7]["en"] not in everything
    log = (out / "dropped.log").read_text()
    assert "sky-0-0003\ten-de\tequal" in log and "sky-0-0007\ten\tunlike" in log and "sky-7-4270\tall\tno text" in log
    assert "en-fr\ttrain\t" in (out.parent / "output").read_text()
    assert "en-fr\ttrain\t" in (out / "counts.tsv").read_text() and (out / "accents.sv.tsv").is_file()
    rows = [row for table in counts_tables(out) for row in table["rows"] if row[0] == "es-ru"]
    words = [sum(len(line[side].split()) for line in texts["es-ru", "tst"]) for side in (0, 1)]
    assert [len(row) for row in rows] == [5, 5]
    assert (rows[0][3], rows[1][3]) == ("8 (0, 1)", f"{words[0]} / {words[1]}")
    assert not list(out.parent.glob("*.part"))


@pytest.mark.parametrize(
    "text", [None, "", "pair\tsplit\nen-de\tdev\n", "pair\tsplit\tlines\tminutes\nen-de\tdev\tx\tx\n"]
)
def test_counts_of_something_else(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "counts.tsv").write_text(text)
    with pytest.raises(SimulstError, match=r"counts\.tsv: not the counts of a corpus; \./run\.sh --recipe voices"):
        counts_tables(tmp_path)


def test_an_unknown_line_among_those_that_are_heard_otherwise(
    recipe: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "unlike.tsv").write_text("sky-9-9999\ten\n")
    monkeypatch.setattr(corpus, "UNLIKE", tmp_path / "unlike.tsv")
    with pytest.raises(SimulstError, match=r"unlike\.tsv: 'sky-9-9999' in 'en' is no line of the games"):
        recipe(force=True)


def test_segments_hold_their_line(prepared: Path) -> None:
    folder = prepared / "es-ru/data/tst"
    written = dict(zip(*((folder / f"txt/tst.{la}").read_text().splitlines() for la in ("es", "ru")), strict=True))
    table = entries(40, 1000, OTHERS)
    numbers = {entry["es"]: n for n, entry in enumerate(table)}
    for segment, text in zip(yaml.safe_load((folder / "txt/tst.yaml").read_text()), written, strict=True):
        n = numbers[text]
        assert written[text] == table[n]["ru"] and segment["speaker_id"] == "drascula-main"
        wanted = samples(speech(1 + n % 3, 5000 + n))
        audio, rate = soundfile.read(folder / "wav" / segment["wav"], dtype="float32")
        begin = round(segment["offset"] * rate)
        assert round(segment["duration"] * rate) == wanted.size
        np.testing.assert_allclose(audio[begin : begin + wanted.size], wanted, atol=1e-4)


def test_data_directories(prepared: Path, tmp_path: Path) -> None:
    counts = prepare_must_c(prepared, tmp_path / "data", "es-en", splits.SPLITS)
    assert counts["tst"]["kept"] == 8 and not counts["tst"]["clipped"]
    utterances = read_data_dir(tmp_path / "data/es-en/tst", "tc.en")
    assert len(utterances) == 8 and all(u.end is not None and u.end - u.start > 0.9 for u in utterances)


def test_a_second_run_does_nothing_and_force_does_it_again(
    recipe: Callable[..., Path], prepared: Path, tmp_path: Path
) -> None:
    shutil.copytree(prepared, tmp_path / "data/corpus", symlinks=True)
    (tmp_path / "data/corpus/counts.tsv").write_text("touched")
    out = recipe()
    assert (out / "counts.tsv").read_text() == "touched"
    recipe(force=True)
    assert contents(out) == contents(prepared)


def test_a_killed_run_leaves_nothing_half(
    recipe: Callable[..., Path], prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(corpus.recordings, "write", kill)
        recipe()
    assert not (tmp_path / "data/corpus").exists()
    assert contents(recipe()) == contents(prepared)


def test_other_word_lists_need_force(recipe: Callable[..., Path], prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path / "data/corpus", symlinks=True)
    (tmp_path / "downloads/wswedish_1-1_all.deb").unlink()
    deb(tmp_path / "downloads/wswedish_2-1_all.deb", {"usr/share/dict/list": b"other\n"})
    with pytest.raises(SimulstError, match=r"was begun with word lists .*use --force"):
        recipe()


@pytest.mark.parametrize(
    ("package", "changed", "named"),
    [
        (sources.SKY, "sky.dnr", "sky.dnr"),
        (sources.DRASCULA, "drascula.dat", "drascula.dat"),
        (sources.DRASCULA_ES, "3.ALS", "drascula/es"),
    ],
)
def test_a_changed_game(
    recipe: Callable[..., Path], tmp_path: Path, games: Path, package: str, changed: str, named: str
) -> None:
    files = {name: data + b"x" * name.endswith(changed) for name, data in contents(games / package).items()}
    deb(tmp_path / "downloads" / f"{package}_1-1_all.deb", files)
    with pytest.raises(SimulstError, match=rf"{named}: changed, or of another version of the game; delete .*_1-1_all"):
        recipe()


def test_a_package_without_words(recipe: Callable[..., Path], tmp_path: Path) -> None:
    deb(tmp_path / "downloads/wfrench_1-1_all.deb", {"usr/share/doc/x": b"x"})
    with pytest.raises(SimulstError, match=r"wfrench: the package has no list of words"):
        recipe()


def test_words_in_either_encoding(tmp_path: Path) -> None:
    (tmp_path / "usr/share/dict").mkdir(parents=True)
    (tmp_path / "usr/share/dict/a").write_bytes("åka\n".encode("latin-1"))
    (tmp_path / "usr/share/dict/b").write_bytes("öga\n".encode())
    (tmp_path / "usr/share/dict/words").symlink_to("none")
    assert sources.read_words(tmp_path) == {"åka", "öga"}
