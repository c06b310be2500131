"""Figures of others: the files in conf/published, what is refused, and what a page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from published.others import read_published
from published.pages import published_parts
from simulst.errors import SimulstError

FILES = sorted((Path(__file__).parents[3] / "conf/published").glob("*.yaml"))
POINT = {"value": 640, "BLEU": 22.4, "LongYAAL": 1810}
SYSTEM = {
    "system": "baseline",
    "about": "a cascade",
    "source": "somewhere",
    "points": [POINT, {"BLEU": 1, "COMET": 0.5}],
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_files_have_sources_and_figures_in_their_ranges(file: Path) -> None:
    points = read_published(file)
    assert points and re.fullmatch(r"iwslt2026_[a-z]{2}-[a-z]{2}", file.stem)
    for point in points:
        assert point.source and point.about and point.data
        assert 0 < point.scores["BLEU"] < 100 and 0 < point.scores["COMET"] < 1
        assert 1000 < point.scores["LongYAAL"] < 5000, "it is in ms"
        assert point.scores.get("LongYAAL_CA", 1e9) > point.scores["LongYAAL"]


def test_points_of_a_curve(tmp_path: Path) -> None:
    path = tmp_path / "others.yaml"
    path.write_text(yaml.safe_dump({"data": "talks", "systems": [SYSTEM]}))
    first, second = read_published(path)
    assert (first.name, first.curve, first.value) == ("baseline, 640", "baseline (published)", 640)
    assert (second.name, second.value, second.scores) == ("baseline", None, {"BLEU": 1.0, "COMET": 0.5})
    intro, table, sources = published_parts([first, second])
    assert intro == "Published figures of others, on talks:" and sources == "* baseline: a cascade (somewhere)"
    assert re.search(r"^\| baseline, 640 .* 22\.4 .* 1810 \|$", table, flags=re.MULTILINE)
    assert published_parts([]) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"systems": [SYSTEM]}, "data: Field required; give a file as those in conf/published"),
        ({"data": "talks", "systems": [{**SYSTEM, "points": [{"BLEUS": 3}]}]}, "'BLEUS' is no score; choose from BLEU"),
        ({"data": "talks", "systems": [{**SYSTEM, "points": [{"BLEU": "high"}]}]}, r"points\.0\.BLEU: "),
        ([], "another kind of file"),
    ],
)
def test_what_is_no_such_file(content: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "others.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SimulstError, match=message):
        read_published(tmp_path / "others.yaml")
