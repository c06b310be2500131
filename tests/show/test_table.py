"""Tables of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runs import SCORES, chunk, offline, scored

from simulst.show.table import runs_table

TABLE = """
| Configuration       | BLEU |         95 % | chrF |         95 % |   AL | LAAL |   AP |  DAL | AL_CA |   RTF | Length |
| ------------------- | ---: | -----------: | ---: | -----------: | ---: | ---: | ---: | ---: | ----: | ----: | -----: |
| offline             | 25.0 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| LA-2_500ms          | 24.3 |            – | 48.3 | [45.7, 51.0] |   -7 | 1300 | 0.75 | 1500 |     – |     – |   1.02 |
| LA-2_1000ms         | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| LA-2_500ms-wait2000 | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| hold-6_1000ms       | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
| hold-10_1000ms      | 24.3 | [22.0, 26.1] | 48.3 | [45.7, 51.0] | 1235 | 1300 | 0.75 | 1500 |  2000 | 0.123 |   1.02 |
"""


def test_table(tmp_path: Path) -> None:
    folders = [
        chunk(tmp_path / "1", 1000, kind="hold", n=10),
        chunk(tmp_path / "2", 1000),
        chunk(tmp_path / "3", 500, AL=-7.4, AL_CA=None, RTF=None, BLEU_low=None, BLEU_high=None),
        chunk(tmp_path / "4", 500, wait=2000),
        chunk(tmp_path / "5", 1000, kind="hold", n=6),
        offline(tmp_path / "6", BLEU=25.0),
    ]
    assert runs_table(folders) == TABLE.strip()


def test_recognition_has_two_columns_more(tmp_path: Path) -> None:
    table = runs_table([offline(tmp_path / "1", WER=12.34, CER=5.67), chunk(tmp_path / "2", 500, WER=None, CER=None)])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [[row[3], *row[5:7]] for row in rows[:1] + rows[2:]] == [
        ["chrF", "WER", "CER"],
        ["48.3", "12.3", "5.7"],
        ["48.3", "–", "–"],
    ]


def test_the_lags_of_paper_b_stand_beside_its_schedule(tmp_path: Path) -> None:
    """Its table has them for offline runs, too; tables without its READ do not have them."""
    lags = {"AL_original": 111.1, "AL_steps": 222.2}
    plain = [offline(tmp_path / "1", **lags), chunk(tmp_path / "2", 500, **lags)]
    assert "111" not in runs_table(plain) and "AL_steps" not in runs_table(plain)
    read, stop = {"type": "wait_stride", "k": 100, "s": 10}, {"type": "max_tokens", "n": 2}
    decoding = {"read": read, "stop": stop, "commit": {"type": "all"}}
    schedule = scored(tmp_path / "3", decoding, {**SCORES, **lags, "AL_steps": 333.3})
    rows = [[cell.strip() for cell in line.split("|")] for line in runs_table([plain[0], schedule]).splitlines()]
    place = rows[0].index("AL")
    assert [row[place : place + 3] for row in rows[:1] + rows[2:]] == [
        ["AL", "AL_original", "AL_steps"],
        ["1235", "111", "222"],
        ["1235", "111", "333"],
    ]


def test_runs_that_are_too_slow_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [chunk(tmp_path / "a", 500), chunk(tmp_path / "b", 1000, RTF=1.25, LAAL_CA=1700)]
    assert "| LAAL_CA |" in runs_table(runs)
    assert "1 of 2 runs can't keep up with speech" in caplog.text and "first LA-2_1000ms, 1.25" in caplog.text
