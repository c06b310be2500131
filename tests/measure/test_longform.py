"""Whole recordings: our figures are OmniSTEval's and simulstream's own, from our logs and from theirs."""

from __future__ import annotations

import json
import logging
import random
import shutil
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from omnisteval import alignment

from simulst.commands.main import main
from simulst.errors import SimulstError
from simulst.log import read_log
from simulst.log.instance import Instance
from simulst.measure import Asked, Sentences, score
from simulst.measure.longform import Gap, _align, _stream_laal, _words, read_gaps, words_in_gaps
from simulst.measure.score import texts_of
from simulst.measure.segmentation import Sentence
from simulst.runs.score import score_run

pytest.importorskip("omnisteval")
pytest.importorskip("simulstream")
pytest.importorskip("mweralign")
from original_scores import close, omnisteval_scores, simulstream_scores

WORDS = ["the", "cat", "sat", "on", "mat", "and", "dog,", "who", "was", "old.", "slept", "by", "it", "all", "day"]
CHINESE = ["你好", "，", "我用 iPhone", " 打", "电话", "。", "世界 is", " big", "吗", "？"]
TALKS = ("first", "second")


def score_recordings(
    log: list[Instance], segmentation: Path, references: Path, language: str = "en", **more: Any
) -> dict[str, Any]:
    return score(log, language, asked=Asked(Sentences(segmentation, references)), **more)


class Talks:
    """Two talks of a few sentences: segmentation, references, and the same output as two logs, simulstream's and ours.

    Each chunk of a second takes half a second to decode and may write something.
    """

    def __init__(self, folder: Path, pieces: list[str], glue: str, unit: str) -> None:
        self.folder, self.unit = folder, unit
        chance = random.Random(3)
        segments, lines = [], []
        simulstream: list[dict[str, Any]] = [{"model_loading_time": 1.0}]
        ours = []
        for number, talk in enumerate(TALKS):
            said: list[str] = []
            for sentence in range(4):
                text = [chance.choice(pieces) for _ in range(chance.randrange(4, 9))]
                said += text
                lines.append(glue.join(text).strip())
                segments.append({"wav": f"{talk}.wav", "offset": 6.5 * sentence, "duration": 5.0, "speaker_id": "x"})
            written = [piece for piece in said if chance.random() > 0.2]
            simulstream.append({"id": number, "metadata": {"wav_name": f"/audio/{talk}.wav"}})
            tokens: list[tuple[str, int]] = []
            for second in range(1, 28):
                count = len(written) * second // 27 - len(tokens)
                new = [glue + piece for piece in written[len(tokens) : len(tokens) + count]]
                if not tokens and new:
                    new[0] = new[0].lstrip()
                tokens += [(token, second) for token in new]
                chunk = {"total_audio_processed": second * 1.0, "computation_time": 0.5}
                simulstream.append({"id": number, **chunk, "generated_tokens": new, "deleted_tokens": []})
            text = "".join(token for token, _ in tokens).strip()
            counted = [t for token, t in tokens for _ in (token.replace(" ", "") if unit == "char" else token.split())]
            ours.append(
                Instance(
                    index=number,
                    prediction=text,
                    delays=[t * 1000.0 for t in counted],
                    elapsed=[t * 1500.0 for t in counted],
                    prediction_length=len(counted),
                    reference=None,
                    source=[f"/audio/{talk}.wav"],
                    source_length=27000.0,
                    compute_ms=13500.0,
                )
            )
        self.segmentation = folder / "talks.yaml"
        self.segmentation.write_text(yaml.safe_dump(segments))
        self.references = folder / "talks.txt"
        self.references.write_text("".join(f"{line}\n" for line in lines))
        self.theirs = folder / "metrics.jsonl"
        self.theirs.write_text("".join(json.dumps(row) + "\n" for row in simulstream))
        self.ours = folder / "instances.log"
        self.ours.write_text("".join(instance.to_json() + "\n" for instance in reversed(ours)))
        self.config = folder / "config.yaml"
        self.config.write_text("detokenizer_type: simuleval\nlatency_unit: char\n")

    def score(self, log: Path, language: str) -> dict[str, Any]:
        return score_recordings(read_log(log, self.unit), self.segmentation, self.references, language, path=log)

    def omnisteval(self, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, float]:
        """The scores of its command `omnisteval longform`."""
        return omnisteval_scores(monkeypatch, self.segmentation, self.references, *options)


@pytest.fixture
def talks(tmp_path: Path) -> Talks:
    return Talks(tmp_path, WORDS, " ", "word")


@pytest.fixture
def chinese(tmp_path: Path) -> Talks:
    return Talks(tmp_path, CHINESE, "", "char")


def test_words(talks: Talks, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = talks.score(talks.theirs, "de")
    options = ("--word_level", "--lang", "de")
    simulstream = ("--hypothesis_format", "simulstream", "--simulstream_config_file", str(talks.config))
    close(mine, talks.omnisteval(monkeypatch, "--hypothesis_file", str(talks.theirs), *options, *simulstream))
    assert 0 < mine["LongYAAL_CA"] - mine["LongYAAL"] <= 500  # words after the recording's end count in neither
    assert mine["RTF"] == 0.5
    assert (mine["recordings"], mine["sentences"]) == (2, 8)
    # Our log adds up computation, as SimulEval's: a word is charged all steps since the one before it.
    cumulative = talks.score(talks.ours, "de")
    fixed = ("--hypothesis_file", str(talks.ours), "--fix_simuleval_emission_ca")
    close(cumulative, talks.omnisteval(monkeypatch, *fixed, *options))
    same = [name for name in mine if not name.endswith("_CA")]
    assert {name: cumulative[name] for name in same} == {name: mine[name] for name in same}
    assert cumulative["LongYAAL_CA"] > mine["LongYAAL_CA"]


LETTERS = st.sampled_from(["a", "ab", "ba", "c", ".", "，", "the", "then"])


@given(st.lists(LETTERS, min_size=1, max_size=12), st.lists(LETTERS, max_size=12), st.booleans())
def test_words_of_sentences_are_found_as_by_omnisteval(one: list[str], other: list[str], by_character: bool) -> None:
    """Of many ways with the same sum of similarities, too."""
    reference, written = ([alignment.Word(text) for text in each] for each in (one, other))
    theirs = alignment.align_sequences(reference, written, by_character)
    for mine, their in zip(_align(reference, written, by_character), theirs, strict=True):
        assert list(map(id, mine)) == list(map(id, their))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_text_in_two_normal_forms_is_one(tmp_path: Path, form: str) -> None:
    talks = Talks(tmp_path, ["Müde", "Bäume", "wächst", "Å.", "für"], " ", "word")
    whole = talks.score(talks.ours, "de")
    for file in (talks.references, talks.ours):
        file.write_text(unicodedata.normalize(form, file.read_text()))
        assert talks.score(talks.ours, "de") == whole


MARKS = ["###", "</s>", "a###", "</s>y"]


@pytest.mark.parametrize(
    ("unit", "mark"), [*(("word", mark) for mark in MARKS), *(("char", mark) for mark in [*MARKS, "\t", "\x0b", "\r"])]
)
def test_marks_of_mwersegmenter_are_text(unit: str, mark: str) -> None:
    """`###` divides several references for it, `</s>` ends its process, and some spaces end its characters."""
    lines = [f"你们{mark}好", f"我{mark}去", f"走吧{mark}了"]
    if unit == "word":
        lines = [f"the quick {mark} fox", f"over {mark} lazy dog", f"and {mark} sleeps"]
    found = []
    for shown in (mark, "猫" * len(mark)):
        texts = [line.replace(mark, shown) for line in lines]
        sentences = [Sentence("a.wav", 5.0 * n, 4.5, text) for n, text in enumerate(texts)]
        timed = [(one, 5.0 * n) for n, text in enumerate(texts) for one in (text if unit == "char" else text.split())]
        words = [alignment.Word(one, emission_cu=1000 * time + 1500) for one, time in timed]
        found.append(_stream_laal([words], sentences, unit)[0])
    assert found[0] == pytest.approx(found[1], abs=1e-6 if unit == "word" else 500)


@pytest.mark.parametrize("space", ["\u3000", "\t", "\u2028"])
@pytest.mark.parametrize("text", ["_今天好", "今_天好", "今天好_", "_ 今天_ _"])
def test_each_character_keeps_its_own_delay(chinese: Talks, space: str, text: str) -> None:
    """A space that is no plain one has its own delay, at the beginning, too."""
    text = text.replace("_", space)
    units = text.replace(" ", "")
    [one, _] = read_log(chinese.ours, "char")
    one = replace(one, prediction=text, delays=[float(ord(unit)) for unit in units], elapsed=[])
    words = _words(one, "char")
    assert "".join(word.text for word in words) == text
    assert all(word.emission_cu == ord(word.text) for word in words if word.text != " ")


def test_other_programs_write_nothing_into_ours(talks: Talks) -> None:
    """mwerSegmenter writes to stderr. mweralign lets all be logged by a program that has not set up its log."""
    code = """
import logging, pathlib, sys
from simulst.log import read_log
from simulst.measure import Asked, Sentences, score
log, *files = map(pathlib.Path, sys.argv[1:])
score(read_log(log), "de", asked=Asked(Sentences(*files)))
assert not logging.getLogger().handlers, logging.getLogger().handlers
"""
    arguments = [sys.executable, "-c", code, str(talks.ours), str(talks.segmentation), str(talks.references)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_characters_of_mixed_scripts(chinese: Talks, monkeypatch: pytest.MonkeyPatch) -> None:
    """OmniSTEval counts the spaces between characters, our log does not; scores are the same."""
    mine = chinese.score(chinese.theirs, "zh")
    options = ("--char_level", "--bleu_tokenizer", "zh")
    simulstream = ("--hypothesis_format", "simulstream", "--simulstream_config_file", str(chinese.config))
    theirs = chinese.omnisteval(monkeypatch, "--hypothesis_file", str(chinese.theirs), *options, *simulstream)
    assert any(" " in i.prediction for i in read_log(chinese.theirs, "char"))
    close(mine, theirs)
    cumulative = chinese.score(chinese.ours, "zh")
    same = [name for name in mine if not name.endswith("_CA")]
    assert {name: cumulative[name] for name in same} == {name: mine[name] for name in same}


@pytest.mark.parametrize("unit", ["word", "char"])
def test_simulstreams_own_scorers(
    tmp_path: Path, unit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    talks = Talks(tmp_path, WORDS if unit == "word" else CHINESE, " " if unit == "word" else "", unit)
    mine = talks.score(talks.theirs, "de" if unit == "word" else "zh")
    files = (talks.config, talks.theirs, talks.segmentation, talks.references)
    for name, value in simulstream_scores(monkeypatch, capsys, *files, unit).items():
        assert mine[name] == pytest.approx(value, abs=1e-3)
    # Its quality scorers all load together, and COMET's needs a package whose versions do not fit ours.
    comet = SimpleNamespace(download_model=None, load_from_checkpoint=None)
    monkeypatch.setitem(sys.modules, "comet", comet)
    from simulstream.metrics import score_quality

    arguments = ["--eval-config", talks.config, "--log-file", talks.theirs, "--latency-unit", unit]
    arguments += ["--audio-definition", talks.segmentation, "--scorer", "sacrebleu", "--references", talks.references]
    arguments += ["--tokenizer", "13a" if unit == "word" else "zh"]
    monkeypatch.setattr(sys, "argv", ["score", *map(str, arguments)])
    score_quality.cli_main()
    assert 20 < float(capsys.readouterr().out.split(":")[-1]) < 100


def test_command_writes_scores_for_tables_and_curves(talks: Talks) -> None:
    run = talks.folder / "run"
    run.mkdir()
    talks.ours.rename(run / "instances.log")
    decoding = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "local_agreement", "n": 2}}
    config = {"label": "LA-2_1000ms", "strategy": "LA-2", "curve": ["LA-2", 1000], "decoding": decoding}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    options = ["--segmentation", str(talks.segmentation), "--references", str(talks.references), "--target-lang", "de"]
    result = CliRunner().invoke(main, ["score", str(run), *options, "--bootstrap", "50"])
    assert result.exit_code == 0, result.output
    assert "LongYAAL" in result.output and "2 recordings, 8 sentences" in result.output
    scores = json.loads((run / "scores.json").read_text())
    asked = Asked(Sentences(talks.segmentation, talks.references))
    assert score_run(run, "de", None, 50, asked) == scores
    assert scores["BLEU_low"] < scores["BLEU"] < scores["BLEU_high"]
    table = CliRunner().invoke(main, ["table", str(run)]).output
    assert "LongYAAL" in table and " AL " not in table
    picture = run / "curve.svg"
    drawn = CliRunner().invoke(main, ["plot", str(run), "--out", str(picture), "--x", "LongYAAL"])
    assert drawn.exit_code == 0, drawn.output
    assert "LongYAAL (ms)" in picture.read_text()
    assert isinstance(CliRunner().invoke(main, ["score", str(run), *options[:2]]).exception, SimulstError)


def test_terms_and_errors_of_recognition(talks: Talks) -> None:
    """Terms are those of a recording, counted in each of its sentences."""
    logged = read_log(talks.ours, "word")
    terms = ["sat", "mat", "slept", "day"]
    told = [replace(instance, terms=terms if "first" in str(instance.source) else []) for instance in logged]
    whole = (talks.segmentation, talks.references, "en")
    found = score_recordings(told, *whole, source_language="en")
    said = " ".join(talks.references.read_text().splitlines()[:4]).split()
    assert found["terms"] == sum(word in terms for word in said) > 0 and 0 < found["term_recall"] <= 1
    assert found["WER"] > 0 and found["CER"] > 0
    assert not {"WER", "terms"} & {*score_recordings(logged, *whole, source_language="de")}


def shortened(instances: list[Instance]) -> list[Instance]:
    """Without the last 8 words of each."""
    cut = []
    for instance in instances:
        words = instance.prediction.split()[:-8]
        times = {"delays": instance.delays[: len(words)], "elapsed": instance.elapsed[: len(words)]}
        cut.append(replace(instance, prediction=" ".join(words), prediction_length=len(words), **times))
    return cut


def test_missing_and_extra_words(talks: Talks) -> None:
    """What one sentence lacks is not made up for by what another one has too many."""
    lines = talks.references.read_text().splitlines()
    words = sum(len(line.split()) for line in lines)

    def score(change: dict[int, str]) -> tuple[float, float]:
        """With what each talk says instead of some of its sentences."""
        log = []
        for talk in range(2):
            texts = [(4 * talk + n, change.get(4 * talk + n, lines[4 * talk + n])) for n in range(4)]
            delays = [6500.0 * (n % 4) + 3000 for n, text in texts for _ in text.split()]
            whole = " ".join(text for _, text in texts if text)
            log.append(Instance(talk, whole, delays, [], len(delays), None, [f"{TALKS[talk]}.wav"], 27000.0))
        found = score_recordings(log, talks.segmentation, talks.references, "de")
        return found["missing"], found["extra"]

    assert score({}) == (0, 0)
    lost, longer = len(lines[2].split()), 3
    missing, extra = score({2: "", 7: lines[7] + " xyz" * longer})
    assert missing == pytest.approx(100 * lost / words, abs=1e-3)
    assert extra == pytest.approx(100 * longer / words, abs=1e-3)


def test_words_in_gaps(tmp_path: Path) -> None:
    delays = [1000.0, 14000.0, 15000.0, 15001.0, 40000.0, 40001.0, 70000.0]
    log = [
        Instance(n, " ".join("w" * len(times)), times, [], len(times), None, [f"/audio/{name}.wav"], 90000.0)
        for n, (name, times) in enumerate({"one": delays, "two": [20000.0]}.items())
    ]
    path = tmp_path / "gaps.tsv"
    path.write_text("one.wav\t10.0\t30.0\tnoise\ntwo.wav\t10\t30\tnoise\none.wav\t60\t20\tsilence\n")
    gaps = read_gaps(path)
    assert gaps[0] == Gap("one", 10.0, 30.0, "noise")
    # The first five seconds of a gap don't count; its last moment does.
    assert words_in_gaps(log, gaps) == {"noise": (3, pytest.approx(50 / 60)), "silence": (1, 0.25)}
    assert words_in_gaps(log, gaps, settle=0)["noise"] == (5, 1.0)
    path.write_text("one.wav\t10.0\tnoise\n")
    with pytest.raises(SimulstError, match=r"gaps\.tsv, line 1: not recording, offset, duration and kind"):
        read_gaps(path)


def test_what_is_written_in_gaps_is_scored(talks: Talks, tmp_path: Path) -> None:
    """If the talks have gaps, which gaps.tsv beside the segmentation lists."""
    folder = Path(shutil.copytree(talks.segmentation.parent, tmp_path / "gaps"))
    segmentation, references = folder / talks.segmentation.name, folder / talks.references.name
    lines = references.read_text().splitlines()
    log = []
    for talk, name in enumerate(TALKS[:2]):
        words = " ".join(lines[4 * talk : 4 * talk + 4]).split()
        delays = [20000.0] * (len(words) - talk) + [26000.0] * talk
        log.append(Instance(talk, " ".join(words), delays, [], len(delays), None, [f"{name}.wav"], 27000.0))
    assert "invented" not in score_recordings(log, segmentation, references, "de")
    (folder / "gaps.tsv").write_text("".join(f"{name}.wav\t15\t12\tsilence\n" for name in TALKS[:2]))
    assert score_recordings(log, segmentation, references, "de")["invented"] == pytest.approx(60 / 14, abs=1e-3)


def test_the_paired_test_is_over_the_sentences(talks: Talks) -> None:
    """A system that loses the last words of each talk is worse; the test counts the segments, not the recordings."""
    options = ["--segmentation", str(talks.segmentation), "--references", str(talks.references), "--target-lang", "de"]
    worse = talks.folder / "worse.log"
    worse.write_text("".join(instance.to_json() + "\n" for instance in shortened(read_log(talks.ours))))
    command = ["score", str(talks.ours), *options, "--bootstrap", "0", "--json", "--against"]
    result = json.loads(CliRunner().invoke(main, [*command, str(worse)]).stdout)
    against = result["against"]
    assert against["sentences"] == 8
    assert against["BLEU_system"] == result["BLEU"] > against["BLEU_baseline"]
    assert against["BLEU_p"] == 0.125  # 2 of the 2^4 exchanges of the 4 sentences that differ are as extreme
    assert json.loads(CliRunner().invoke(main, [*command, str(talks.ours)]).stdout)["against"]["BLEU_p"] == 1.0


def test_segments_for_comet(talks: Talks) -> None:
    """Those of OmniSTEval, with their references."""
    asked = Asked(Sentences(talks.segmentation, talks.references))
    found = texts_of(read_log(talks.ours), "de", asked=asked)
    assert list(found.references) == talks.references.read_text().splitlines()
    written = " ".join(found.predictions).split()
    assert written == [word for instance in read_log(talks.ours) for word in instance.prediction.split()]


def test_silence(talks: Talks) -> None:
    silent = [replace(i, prediction="", delays=[], elapsed=[]) for i in read_log(talks.ours)]
    scores = score_recordings(silent, talks.segmentation, talks.references, "de")
    assert scores["BLEU"] == 0 and scores["empty"] == 8
    assert scores["LongYAAL"] is scores["StreamLAAL"] is None
    one = score_recordings([silent[0], read_log(talks.ours)[1]], talks.segmentation, talks.references, "de")
    assert one["empty"] >= 4 and one["LongYAAL"] > 0


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((4, 70, 9, 5), False),  # sentences, and a long one
        ((27, 29, 3), False),
        ((4, 4, 4, 4, 125), True),
        ((60, 180, 95), True),  # mini's talks
        ((61,), True),
    ],
)
def test_whole_recordings_without_segmentation_are_told(
    talks: Talks, caplog: pytest.LogCaptureFixture, seconds: tuple[int, ...], told: bool
) -> None:
    one = read_log(talks.ours)[0]
    score([replace(one, index=i, source_length=1000.0 * s) for i, s in enumerate(seconds)], path="x.log")
    assert ("x.log: the entries seem to be whole recordings: the longest takes" in caplog.text) is told


def edited(talks: Talks, change: Any) -> None:
    segments = yaml.safe_load(talks.segmentation.read_text())
    change(segments)
    talks.segmentation.write_text(yaml.safe_dump(segments))


def test_overlaps_are_told(talks: Talks, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    edited(talks, lambda segments: segments[1].update(offset=4.0))
    talks.score(talks.ours, "de")
    assert "1 segments begin before the one in front of them has ended, first in first at 4 s" in caplog.text


def test_recordings_that_were_cut_off_are_told(talks: Talks, caplog: pytest.LogCaptureFixture) -> None:
    whole = read_log(talks.ours)
    score_recordings([whole[0], replace(whole[1], source_length=21_000.0)], talks.segmentation, talks.references)
    assert "ends after" not in caplog.text
    score_recordings([whole[0], replace(whole[1], source_length=19_000.0)], talks.segmentation, talks.references)
    assert "second ends after 19 s, before its last sentences" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop(), "7 segments, but 8 lines in .*talks.txt; give a line for each"),
        (lambda s: [e.update(wav="third.wav") for e in s[4:]], "names 1 recordings that .* has not, first third"),
        (lambda s: [e.update(wav="first.wav", offset=e["offset"] + 30) for e in s[4:]], "does not name, first second"),
        (lambda s: s.insert(0, s.pop()), "the segments of second are apart"),
        (lambda s: s.insert(0, s.pop(2)), "first goes back from 13 s to 0 s"),
        (lambda s: s[3].pop("offset"), "line .*: offset: Field required"),
        (lambda s: s[3].update(duration=0.0), "duration: Input should be greater than 0"),
    ],
)
def test_bad_segmentations(talks: Talks, change: Any, message: str) -> None:
    edited(talks, change)
    with pytest.raises(SimulstError, match=message):
        talks.score(talks.ours, "de")


def test_bad_files(talks: Talks) -> None:
    instances = read_log(talks.ours)
    with pytest.raises(SimulstError, match="several entries are of first"):
        score_recordings([instances[0], instances[0]], talks.segmentation, talks.references)
    with pytest.raises(SimulstError, match=r"is a \.yaml or \.json file"):
        score_recordings(instances, talks.references, talks.references)
    with pytest.raises(SimulstError, match=r"nowhere\.txt: no such file"):
        score_recordings(instances, talks.segmentation, talks.folder / "nowhere.txt")
    talks.references.write_text("\n" * 4 + "a b\n" * 4)
    with pytest.raises(SimulstError, match="all lines of first are empty"):
        score_recordings(instances, talks.segmentation, talks.references)


def test_omnistevals_lines_and_names_with_points(talks: Talks) -> None:
    """Without index and source_length, and with names whose last part is no suffix, the scores are the same."""
    expected = talks.score(talks.ours, "de")
    rows = [json.loads(line) for line in talks.ours.read_text().splitlines()]
    lines = "".join(
        json.dumps({key: value for key, value in row.items() if key not in ("index", "source_length")}) + "\n"
        for row in rows
    )
    segments = talks.segmentation.read_text()
    points = dict(zip(TALKS, ("2022.acl-long.268", "2022.acl-long.367"), strict=True))
    for in_log, in_segments in (("{}.wav", "{}.wav"), ("{}", "{}.wav"), ("{}.mp3", "{}")):
        written, named = lines, segments
        for old, new in points.items():
            written = written.replace(f"{old}.wav", in_log.format(new))
            named = named.replace(f"{old}.wav", in_segments.format(new))
        talks.ours.write_text(written)
        talks.segmentation.write_text(named)
        found = talks.score(talks.ours, "de")
        # A recording without source_length ends with its last sentence.
        assert {key for key in found if found[key] != expected[key]} == {"RTF", "test_set"}
