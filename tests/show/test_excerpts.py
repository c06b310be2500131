import json
import re
from pathlib import Path

import pytest

from simulst.errors import SimulstError
from simulst.show.excerpts import draw_front, pages_with_rows

ASKS = "<!-- rows: mini/en-de LA-2_640ms offline -->\nold\n<!-- end rows -->\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small copy: one section with two runs, and a page that shows both."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "results/mini").mkdir(parents=True)
    runs = [
        {
            "name": "offline",
            "curve": "offline",
            "value": None,
            "read": "offline",
            "scores": {"BLEU": 85.0, "LAAL": 4895},
        },
        {"name": "LA-2_640ms", "curve": "LA-2", "value": 640, "read": "chunk", "scores": {"BLEU": 73.6, "LAAL": 2369}},
    ]
    section = {"title": "t", "command": "./run.sh", "curve": [], "rounded": False, "runs": runs, "comparisons": []}
    (tmp_path / "results/mini/en-de.json").write_text(json.dumps({**section, "findings": [], "tables": [], "text": ""}))
    (tmp_path / "docs/a.md").write_text(f"Before.\n\n{ASKS}\nAfter.\n")
    (tmp_path / "docs/b.md").write_text("No rows.\n")
    return tmp_path


def test_a_page_gets_its_rows_in_the_order_in_which_it_names_them(root: Path) -> None:
    filled = pages_with_rows(root)
    assert list(filled) == [root / "docs/a.md"]
    text = filled[root / "docs/a.md"]
    assert text.startswith("Before.\n\n<!-- rows: mini/en-de LA-2_640ms offline -->\n\n| Configuration")
    assert text.endswith("<!-- end rows -->\n\nAfter.\n") and "old" not in text
    assert re.findall(r"^\| (\S+) +\| (\S+)", text, flags=re.MULTILINE)[2:] == [
        ("LA-2_640ms", "73.6"),
        ("offline", "85.0"),
    ]
    (root / "docs/a.md").write_text(text)
    assert pages_with_rows(root) == filled


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("mini/en-de LA-9", "mini/en-de has no run 'LA-9'; name one of offline, LA-2_640ms"),
        ("mini/x a", "no results mini/x"),
    ],
)
def test_rows_that_there_are_not_end_in_one_sentence(root: Path, asked: str, sentence: str) -> None:
    (root / "docs/a.md").write_text(f"<!-- rows: {asked} -->\n<!-- end rows -->\n")
    with pytest.raises(SimulstError, match=f"a.md: .*{sentence}"):
        pages_with_rows(root)


def test_the_front_picture_has_plain_names(root: Path) -> None:
    assert draw_front(root) == []
    front = "section: mini/en-de\nlag: LAAL\ntitle: T\nlines: {LA-2: two agree}\noffline: {offline: at once}\n"
    (root / "results/front.yaml").write_text(front)
    assert draw_front(root) == [root / "docs/front.svg"]
    assert (
        "two agree" in (root / "docs/front.svg").read_text()
        and "numbers at" not in (root / "docs/front.svg").read_text()
    )
    (root / "results/front.yaml").write_text(front.replace("LA-2", "LA-3"))
    with pytest.raises(SimulstError, match=r"front.yaml: mini/en-de has no 'LA-3'"):
        draw_front(root)


def test_what_is_in_git_is_as_it_is_rendered(committed: Path) -> None:
    for page, text in pages_with_rows(committed).items():
        assert page.read_text(encoding="utf-8") == text, f"{page}: run simulst results render"
    before = (committed / "docs/front.svg").read_bytes()
    assert draw_front(committed)[0].read_bytes() == before
