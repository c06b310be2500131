"""Findings in YAML: those of this repository, and what is refused."""

from __future__ import annotations

import re
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

import pages
import pytest
import tracked

from findings import Finding, load_findings
from findings.declared import Kind
from simulst.config import load_sweep
from simulst.errors import SimulstError

ROOT = Path(__file__).parents[3]
FILES = tracked.files("conf/findings/*.yaml")
GOOD = {"id": "X1", "section": 3, "sentence": "s", "kind": "quality", "a": ["x"], "b": ["y"], "direction": "more"}


def write(folder: Path, text: str) -> Path:
    path = folder / "findings.yaml"
    path.write_text(text)
    return path


def finding(**changes: object) -> str:
    values = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    return f"paper: P\nfindings: [{values}]"


def test_our_own() -> None:
    papers = load_findings(FILES)
    assert [paper[0] for paper in papers] == list("ABCD")
    findings = [finding for of_paper in papers.values() for finding in of_paper]
    assert len(findings) >= 25 and all(finding.command for finding in findings)
    for paper, of_paper in papers.items():
        assert all(finding.id[0] == paper[0] for finding in of_paper)


@pytest.mark.parametrize(
    ("name", "sweeps"),
    [
        ("paper_a", ["egs/prompts/conf/paper_a_es.yaml"]),
        ("paper_a", ["conf/decode/paper_a.yaml"]),
        ("paper_b", ["conf/decode/paper_b.yaml"]),
        ("paper_b_pieces", ["conf/decode/paper_b.yaml"]),
        ("paper_c_full_context", ["conf/decode/paper_c_full_context.yaml"]),
        ("paper_c", [f"conf/decode/paper_c{name}.yaml" for name in ("", "_repetition", "_guided")]),
    ],
)
def test_our_sweeps_have_the_runs(name: str, sweeps: list[str]) -> None:
    labels = {
        decoding.label for sweep in sweeps for decoding in load_sweep(ROOT / sweep, {"guide": "m", "ratio": None})
    }
    [findings] = load_findings([ROOT / f"conf/findings/{name}.yaml"]).values()
    for finding in findings:
        for pattern in (*finding.a, *finding.b):
            # Paper B's begin with the folders of one of its models.
            pattern = re.sub(r"^b-(char|bpe400|bpe2000)/\*/tst-COMMON/", "", pattern)
            assert any(fnmatchcase(label, pattern) for label in labels), pattern


def test_paper_a_spans_the_chunks_and_strategies_of_its_figure_1() -> None:
    """Not the sizes of table 2, which the sweep has too."""
    labels = [decoding.label for decoding in load_sweep(ROOT / "conf/decode/paper_a.yaml")]
    [findings] = load_findings([ROOT / "conf/findings/paper_a.yaml"]).values()
    strategies = [f"{name}_1000ms" for name in ("LA-2", "LA-3", "LA-4", "hold-3", "hold-6", "hold-12", "SP-1", "SP-2")]
    for finding in findings[:2]:
        chunks, others = (
            [label for label in labels if any(fnmatchcase(label, pattern) for pattern in patterns)]
            for patterns in (finding.a, finding.b)
        )
        assert chunks == [f"LA-2_{ms}ms" for ms in (250, 500, 1000, 2000)] and others == strategies


def test_a_users_own(tmp_path: Path) -> None:
    text = "paper: Mine\ncommand: make it\nfindings:\n" + "".join(
        f"  - {{id: {k}, section: 3.4, sentence: s, kind: lag, a: [x], b: ['y*'], direction: less, margin: -20}}\n"
        for k in "ab"
    )
    [found] = load_findings([write(tmp_path, text)]).values()
    assert [one.id for one in found] == ["a", "b"]
    assert (found[0].section, found[0].margin, found[0].command, found[0].lag) == ("3.4", -20.0, "make it", "LAAL")
    assert found[0].is_for("zh")


def test_the_documentations_own(tmp_path: Path) -> None:
    [block] = pages.blocks("local/findings/README.md", "yaml")
    [[finding]] = load_findings([write(tmp_path, block.text)]).values()
    assert finding.margin == 0.5 and finding.command == "./run.sh"
    keys = " ".join(pages.inline("local/findings/README.md")).split()
    assert {field.name for field in fields(Finding)} <= set(keys)
    assert set(get_args(Kind)) <= set(keys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a mapping with the keys paper, command and findings"),
        ("paper: P\nfindings: []", "no finding; declare one"),
        ("paper: P", "needs the option 'findings'"),
        ("paper: P\nfindings: [x]", "finding 1: a finding is a mapping with the keys id, section"),
        (finding(kind="beauty"), "finding 1: the finding X1, option 'kind': Input should be 'quality', 'lag'"),
        (finding(direction="up"), "'direction': Input should be 'more', 'less' or 'same'; found 'up'"),
        (finding(a=[]), "option 'a'"),
        (finding(b=None), "the finding X1 needs the option 'b'"),
        (finding(seeds=True), "the finding X1 has no option 'seeds'; it has id, section"),
        (finding(lag="AP"), "'lag' of X1 is 'AP'; choose from AL, AL_original"),
        (finding(direction="same"), "give it a margin above 0"),
        (finding(languages=["xx-no"]), "xx-no"),
        (finding(up_to=1000), "X1 has 'up_to', which belongs to quality_at_lag and cost_at_lag"),
        (finding(kind="quality_at_lag", up_to=0), "option 'up_to'"),
        (finding(margin=10**400), "option 'margin': numbers above 1e+15 are not accepted"),
        ("paper: P\nfindings: [{id: null}]", "option 'id'"),
        ("paper: P\nfindings:", "option 'findings': Input should be a list; found None"),
        ("paper: P\nfindings: [1, 1", "not valid YAML"),
    ],
)
def test_errors_are_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SimulstError) as caught:
        load_findings([path])
    assert message in str(caught.value) and str(path) in str(caught.value)
