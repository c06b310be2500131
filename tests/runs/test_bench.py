"""`simulst bench`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from run_commands import LA2, MODEL, options, sentence, simulst

from simulst.config import parse_decoding
from simulst.data.datadir import drawn, read_data_dir
from simulst.files.yaml import load_yaml
from simulst.models import load_model
from simulst.runs.bench import measure, sample_of
from simulst.runs.folder import Task


def bench(data: Path, decoding: str, *more: object) -> tuple[int, str, str]:
    languages = ["--source-lang", "es", "--target-lang", "en"]
    files = ["--data", data, "--decoding", data.parent / decoding]
    return simulst("bench", "--model", MODEL, *files, *languages, *more)


def test_the_sample_is_that_of_draw(data: Path) -> None:
    utterances = read_data_dir(data, "en")
    for seconds in (0.1, 3, 6, 100):
        sample = sample_of(utterances, seconds)
        count = len(sample)
        assert sample == drawn(utterances, count)
        assert sum(one.seconds for one in sample) >= seconds or count == len(utterances)
        assert count == 1 or sum(one.seconds for one in drawn(utterances, count - 1)) < seconds


def test_parts_and_the_rest_are_all_of_the_time(data: Path) -> None:
    model, task = load_model(MODEL, sleep=0.01), Task(MODEL, "es", "en")
    utterances = read_data_dir(data, "en")
    cost = measure(model, task, utterances, [parse_decoding(load_yaml(LA2), "LA2")])
    assert cost.audio == pytest.approx(sum(utterance.seconds for utterance in utterances))
    (search, taken), (rest, left) = cost.rows()
    assert (search, rest) == ("search", "everything else") and taken + left == cost.seconds
    assert taken >= 0.01 * len(utterances) and left > 0


@pytest.mark.parametrize(("decoding", "said"), [("la2.yaml", "one configuration"), ("sweep.yaml", "5 configurations")])
def test_command(data: Path, decoding: str, said: str) -> None:
    status, out, error = bench(data, decoding, "--seconds", 5, "--jobs", 2)
    assert status == 0, error
    assert said in out and re.search(r"^all +\d\.\d{4}  100%$", out, re.MULTILINE)
    assert re.search(r"All 0:00:\d\d of audio take about 0:00:\d\d with --jobs 2\.", out)


def test_days_are_told_in_hours(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulst.data.datadir.Utterance.seconds", 50_000.0)  # of six
    assert "All 83:20:00 of audio take about " in bench(data, "la2.yaml", "--seconds", 1)[1]


def test_an_option_that_the_model_lacks(data: Path) -> None:
    assert "no_such" in sentence(bench(data, "la2.yaml", *options(no_such=1))[2])
