"""Pages that are rendered from results/."""

from __future__ import annotations

import re
from pathlib import Path

import pages as repository
import pytest
from contents import contents
from recipe_copy import README, call, publish

from published.pages import anchor, read_recipe, recipes, rendered
from published.section import read_sections
from simulst.errors import SimulstError

PAGE = """
title: All of mine
intro: About all.
readme:
  curve: en-de-tst
  columns: [BLEU, LAAL]
  rows: [{section: en-de-tst, run: good, name: the better one}]
sections:
  - {section: second, title: The second, notes: A remark., column: mine}
"""


def test_the_order_headings_and_remarks_of_page_yaml(root: Path) -> None:
    """Sections that it does not name follow, in the order of their names."""
    publish(root)
    publish(root, section="second")
    (root / "results/mine/page.yaml").write_text(PAGE)
    call("render", "mine", "--root", root)
    page = (root / "egs/mine/RESULTS.md").read_text()
    assert page.startswith("# All of mine\n\n") and "About all.\n\n* [The second](#the-second)\n* [en-de-tst](" in page
    assert page.index("\n## The second\n\nA remark.\n\n| Configuration") < page.index("\n## en-de-tst\n")
    papers = (root / "docs/papers.md").read_text()
    assert papers.startswith("# Papers\n\n<!-- results -->\n\nyes: it holds")
    links = "| [mine](../egs/mine/RESULTS.md#the-second) | [mine en-de-tst](../egs/mine/RESULTS.md#en-de-tst) |"
    assert links in papers


def test_the_readme_has_one_block(root: Path) -> None:
    publish(root)
    assert (root / "egs/mine/README.md").read_text() == README  # page.yaml asks for no table
    (root / "results/mine/page.yaml").write_text(PAGE.replace("second", "en-de-tst"))
    call("render", "--root", root)
    readme = (root / "egs/mine/README.md").read_text()
    picture = "![Quality over latency](../../results/mine/en-de-tst.svg)"
    assert readme.startswith(f"# mine\n\n<!-- results -->\n\n{picture}\n\n")
    assert readme.endswith("\n\n<!-- end results -->\n\nThe end.\n") and "old" not in readme
    assert re.search(r"^\| System +\| BLEU \| +95 % \| LAAL \|$", readme, flags=re.MULTILINE)
    assert re.search(r"^\| the better one \| ", readme, flags=re.MULTILINE) and "| bad" not in readme


def test_bad_markers(root: Path) -> None:
    """Nothing is written then."""
    publish(root)
    begin, end = "<!-- results -->\n", "<!-- end results -->\n"
    for text in ("", begin, end + begin, (begin + end) * 2):
        (root / "docs/papers.md").write_text(text)
        before = contents(root)
        with pytest.raises(SimulstError, match=r"papers\.md: needs the lines '<!-- results -->' and"):
            call("render", "--root", root)
        assert contents(root) == before


def test_a_page_that_is_missing(root: Path) -> None:
    publish(root)
    (root / "docs/papers.md").unlink()  # a copy of the recipes alone
    call("render", "--root", root)
    assert not (root / "docs/papers.md").exists()
    (root / "egs/mine/README.md").unlink()
    (root / "results/mine/page.yaml").write_text(PAGE.replace("second", "en-de-tst"))
    with pytest.raises(SimulstError, match=r"README\.md: cannot be read .* write the page, with the lines"):
        call("render", "--root", root)


def test_two_sections_with_one_heading(root: Path) -> None:
    publish(root)
    publish(root, section="second")
    (root / "results/mine/page.yaml").write_text("sections: [{section: second, title: en-de-tst}]")
    with pytest.raises(SimulstError, match=r"page\.yaml: two sections have the heading 'en-de-tst'"):
        call("render", "--root", root)


def test_the_committed_pages_are_what_render_gives(committed: Path) -> None:
    """If this fails: local/results.py render."""
    for page, text in rendered(committed, recipes(committed)).items():
        assert page.read_text(encoding="utf-8") == text, f"{page}: run local/results.py render"


def test_every_committed_curve_shows_its_section(committed: Path) -> None:
    """Its title and all curves; the legend of a picture holds them as comments."""
    for recipe in recipes(committed):
        folder = committed / "results" / recipe
        sections = read_sections(folder)
        assert {path.stem for path in folder.glob("*.svg")} == {name for name, one in sections.items() if one.curve}
        for name, section in sections.items():
            if section.curve:
                shown = set(re.findall(r"<!-- (.*) -->", (folder / f"{name}.svg").read_text(encoding="utf-8")))
                lines = {
                    run.curve for run in section.runs if not run.offline and run.scores[section.curve[0]] is not None
                }
                assert {section.title, *lines} <= shown, f"{folder / name}: run local/results.py render"


def test_readmes_have_short_tables_and_anchors_are_those_of_links(committed: Path) -> None:
    for recipe in recipes(committed):
        found = read_recipe(committed, recipe)
        assert 0 < len(found.rows) <= 10
        titles = {anchor(entry.title) for entry, _ in found.sections.values()}
        assert titles <= repository.anchors(f"egs/{recipe}/RESULTS.md")
