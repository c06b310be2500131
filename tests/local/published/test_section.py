"""The file of a section."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from published.section import (
    Comparison,
    Decided,
    Run,
    Section,
    Table,
    check_name,
    read_section,
    to_json,
    write_section,
)
from simulst.errors import SimulstError

texts, figures = st.text(), st.floats(allow_nan=False, allow_infinity=False)
cells = st.none() | st.integers(-(10**9), 10**9) | figures | texts
configurations = st.none() | st.fixed_dictionaries({"read": st.fixed_dictionaries({"ms": st.lists(figures)})})
runs = st.builds(
    Run, value=st.none() | figures, scores=st.dictionaries(texts, cells, max_size=3), configuration=configurations
)
tables = st.builds(Table, rows=st.lists(st.tuples(cells, cells), max_size=2).map(tuple))
comparisons = st.builds(Comparison, **dict.fromkeys(("difference", "low", "high", "p"), figures))
findings = st.builds(
    Decided,
    **dict.fromkeys(("margin", "difference", "low", "high", "p"), figures),
    each=st.lists(figures).map(tuple),
    levels=st.none() | st.tuples(figures, figures),
)
sections = st.builds(
    Section,
    runs=st.lists(runs, max_size=3, unique_by=lambda run: run.name).map(tuple),
    tables=st.lists(tables, max_size=2).map(tuple),
    comparisons=st.lists(comparisons, max_size=2).map(tuple),
    findings=st.lists(findings, max_size=2).map(tuple),
)
RUN = Run(
    "LA-2_500ms", "LA-2", 500.0, "chunk", {"BLEU": 20.5, "AL": None}, date="2026-11-26", commit="a", processor="p"
)


@given(sections)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, section: Section) -> None:
    path = tmp_path_factory.mktemp("results") / "s.json"
    assert write_section(path, section)
    assert to_json(read_section(path)) == path.read_text() == to_json(section)


def test_a_line_for_each_value() -> None:
    lines = to_json(Section("t", "c", ("AL", "LAAL"), runs=(RUN,))).splitlines()
    assert '  "curve": ["AL", "LAAL"],' in lines
    assert '      "scores": {"BLEU": 20.5, "AL": null},' in lines and '      "date": "2026-11-26",' in lines


def test_the_same_figures_leave_the_file_as_it_is(tmp_path: Path) -> None:
    """Another date, commit or processor is no other result; another score is."""
    path, section = tmp_path / "mine/s.json", Section("t", "c", runs=(RUN,))
    assert write_section(path, section)
    again = replace(RUN, date="2027-01-01", commit="b", processor=None)
    before = path.read_bytes()
    assert not write_section(path, replace(section, runs=(again,))) and path.read_bytes() == before
    assert write_section(path, replace(section, runs=(replace(again, scores={"BLEU": 20.6}),)))
    assert read_section(path).runs[0].date == "2027-01-01"
    path.write_text("{")  # a broken file is replaced
    assert write_section(path, section) and path.read_bytes() == before


def test_two_runs_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(to_json(Section("t", "c", runs=(RUN, RUN))))
    with pytest.raises(SimulstError, match=r"s\.json: two runs are called LA-2_500ms; write it again"):
        read_section(tmp_path / "s.json")


@pytest.mark.parametrize("value", ["20.5", True, [20.5]])
def test_scores_that_are_no_numbers(tmp_path: Path, value: object) -> None:
    section = Section("t", "c", runs=(replace(RUN, scores={"BLEU": value}),))
    (tmp_path / "s.json").write_text(to_json(section))
    with pytest.raises(SimulstError, match=r"s\.json, LA-2_500ms: BLEU is .*, which is no number; write it again"):
        read_section(tmp_path / "s.json")


def test_names() -> None:
    check_name("paper_a-en-de+en-ja-tst-COMMON", "section")
    for name in ("", "a/b", "..", "-a", "a b", ".a"):
        with pytest.raises(SimulstError, match=r"section '.*': give a name of letters"):
            check_name(name, "section")
