"""Pictures of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake import noted
from fake_runs import scored
from matplotlib.colors import to_hex

from simulst.errors import SimulstError
from simulst.results.runs import Row
from simulst.show import curve
from simulst.show.curve import draw_curve, draw_rows

Figure = pytest.importorskip("matplotlib.figure").Figure


def make_run(folder: Path, read: dict[str, Any], commit: dict[str, Any], **scores: Any) -> Path:
    return scored(folder, {"read": read, "commit": commit}, scores)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = []
    for ms in (2000, 500, 1000):
        for n in (1, 2):
            for wait in (0, 3000):
                read = {"type": "chunk", "ms": ms, "initial_wait_ms": wait}
                scores = {"BLEU": 20 + ms / 500 + n, "AL": ms * n + wait, "LAAL": ms * n + wait + 100, "AP": 0.7}
                interval = {"BLEU_low": scores["BLEU"] - 1, "BLEU_high": scores["BLEU"] + 1} if n == 1 else {}
                folder = tmp_path / f"{ms}-{n}-{wait}"
                folders.append(make_run(folder, read, {"type": "local_agreement", "n": n}, **scores, **interval))
    off = make_run(tmp_path / "off", {"type": "offline"}, {"type": "all"}, BLEU=27.0, AL=4000.0, LAAL=4000.0, AP=1.0)
    return [*folders, off]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved."""
    return noted(monkeypatch, Figure, "savefig", lambda figure, *_, **__: figure)


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("PDF", b"%PDF"), ("svg", b"<?xml")])
def test_kinds(tmp_path: Path, runs: list[Path], suffix: str, magic: bytes) -> None:
    """The same runs give the same bytes."""
    pictures = [tmp_path / f"new{number}" / f"curve.{suffix}" for number in range(2)]
    for out in pictures:
        draw_curve(runs, out, ["AL"])
        assert [path.name for path in out.parent.iterdir()] == [out.name]
    one, other = (out.read_bytes() for out in pictures)
    assert one.startswith(magic) and one == other


def test_what_is_in_it(tmp_path: Path, runs: list[Path], figures: list[Any]) -> None:
    draw_curve(runs, tmp_path / "curve.png", ["AL", "LAAL", "AP"], "es→en")
    [figure] = figures
    assert figure.get_suptitle() == "es→en"
    assert legend(figure) == ["LA-1", "LA-1, wait 3000 ms", "LA-2", "LA-2, wait 3000 ms", "offline"]
    assert [panel.get_xlabel() for panel in figure.axes] == ["AL (ms)", "LAAL (ms)", "AP"]
    assert len({panel.get_ylim() for panel in figure.axes}) == 1
    first = figure.axes[0]
    assert [text.get_text() for text in first.texts] == ["500", "1000", "2000"] * 4
    lines = {line.get_label(): line for line in first.get_lines() if not line.get_label().startswith("_")}
    assert list(lines["LA-2"].get_xdata()) == [1000, 2000, 4000]
    assert list(lines["LA-2"].get_ydata()) == [23, 24, 26]
    assert lines["offline"].get_linestyle() == "--" and set(lines["offline"].get_ydata()) == {27.0}
    looks = {(line.get_color(), line.get_marker()) for line in lines.values()}
    assert len(looks) == len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 5


def test_another_quality(
    tmp_path: Path, runs: list[Path], figures: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    for folder in runs[:2]:
        scores = json.loads((folder / "scores.json").read_text())
        (folder / "scores.json").write_text(json.dumps({**scores, "COMET": scores["BLEU"] / 100}))
    draw_curve(runs, tmp_path / "comet.png", ["AL"], quality="COMET")
    draw_curve(runs, tmp_path / "bleu.png", ["AL"])
    [comet], [bleu] = (figure.axes for figure in figures)
    assert (comet.get_ylabel(), bleu.get_ylabel()) == ("COMET", "BLEU (bars: 95 %)")
    lines = {line.get_label(): list(line.get_ydata()) for line in comet.get_lines()}
    assert lines["LA-1"] == lines["LA-1, wait 3000 ms"] == [0.25]
    assert "1000-1-0: has no COMET or no lag; left out of the picture." in caplog.text
    with pytest.raises(SimulstError, match="none of the runs has both chrF and a latency"):
        draw_curve(runs, tmp_path / "chrf.png", quality="chrF")


def test_labels_do_not_cover_each_other(tmp_path: Path, runs: list[Path], figures: list[Any]) -> None:
    draw_curve(runs, tmp_path / "curve.png", ["AL"])
    boxes = [text.get_window_extent() for text in figures[0].axes[0].texts]
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])


def test_too_many_points_have_no_labels(
    tmp_path: Path, figures: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [Row("r", f"curve{n % 3}", float(n), "chunk", {"BLEU": n % 7, "AL": float(n)}) for n in range(12)]
    draw_rows(rows, tmp_path / "curve.png", ["AL"])
    assert len(figures[0].axes[0].texts) == 12 and not caplog.text
    monkeypatch.setattr(curve, "LABELLED", 11)
    draw_rows(rows, tmp_path / "curve.png", ["AL"])
    assert not figures[1].axes[0].texts and "12 points are too many to label" in caplog.text
    assert len(legend(figures[1])) == 3 and not figures[1].legends[0].get_title().get_text()


def test_many_lines(tmp_path: Path, figures: list[Any]) -> None:
    """Each has a colour of its own. A label that finds no room is left out, and the legend says so."""
    runs = []
    for number in range(24):
        for ms in (500, 1000, 1500):
            scores = {"BLEU": 20.0 + number / 50 + ms / 1000, "AL": ms + number}
            read = {"type": "chunk", "ms": ms, "initial_wait_ms": 1000 + number}
            runs.append(make_run(tmp_path / f"{number}-{ms}", read, {"type": "local_agreement"}, **scores))
    draw_curve(runs, tmp_path / "curve.png", ["AL"])
    [figure] = figures
    panel = figure.axes[0]
    drawn = [line for line in panel.get_lines() if not line.get_label().startswith("_")]
    assert len({to_hex(line.get_color()) for line in drawn}) == len(drawn) == 24
    figure.draw_without_rendering()  # at its own resolution, not at that of the file
    boxes = [text.get_window_extent() for text in panel.texts]
    assert 3 < len(boxes) < 72
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])
    assert "where there is room" in figure.legends[0].get_title().get_text()


def test_names_that_matplotlib_would_hide_or_typeset(tmp_path: Path, figures: list[Any]) -> None:
    for place, number in (("_old/a", 1.0), ("$x_2$/a", 2.0)):
        read = {"type": "chunk", "ms": 500}
        make_run(tmp_path / place, read, {"type": "local_agreement"}, BLEU=number, AL=number)
    draw_curve([tmp_path / "_old/a", tmp_path / "$x_2$/a"], tmp_path / "curve.png", ["AL"], r"a $\foo$")
    assert legend(figures[0]) == ["$x_2$/LA-2", "./_old/LA-2"]


def test_few_runs(tmp_path: Path, runs: list[Path], figures: list[Any]) -> None:
    draw_curve(runs[:1], tmp_path / "point.png", ["AL"])
    draw_curve(runs[-1:], tmp_path / "offline.png", ["AL"])
    assert [legend(figure) for figure in figures] == [["LA-1"], ["offline"]]


def test_a_run_that_wrote_nothing_is_left_out(tmp_path: Path, runs: list[Path], figures: list[Any]) -> None:
    read = {"type": "chunk", "ms": 100}
    mute = make_run(tmp_path / "mute", read, {"type": "hold", "n": 9}, BLEU=0.0, AL=None, LAAL=None, AP=None)
    draw_curve([runs[0], mute], tmp_path / "curve.png")
    assert legend(figures[0]) == ["LA-1"]
    with pytest.raises(SimulstError, match="nothing to draw"):
        draw_curve([mute], tmp_path / "gone.png")
