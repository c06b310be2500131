"""Pictures: quality over latency."""

from __future__ import annotations

import colorsys
import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulst.errors import SimulstError
from simulst.files.folder import replacing
from simulst.measure.metric import check_quality
from simulst.results.runs import Row, check_lag, check_same_data, load_runs, metrics_of, warn_of_slow

logger = logging.getLogger(__name__)

# Okabe and Ito's palette, which colour-blind readers can distinguish, without its yellow, which is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
SHADES = (0.27, 0.43)  # lightness of neighbouring hues, where there are more lines than colours above
# Where a label may be placed relative to its point, in units of a distance, best first.
SIDES = ((0, 1), (0, -1), (1.3, 0.6), (-1.3, 0.6), (1.3, -0.6), (-1.3, -0.6), (1.7, 0), (-1.7, 0))
OFFSETS = [(x * distance, y * distance) for distance in (9, 13, 17) for x, y in SIDES]
LABELLED = 300  # points of a panel; labels of more would cover one another, and take minutes to place
# No date in the file: the same runs give the same picture.
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def draw_curve(
    folders: Sequence[Path],
    out: Path,
    latencies: Sequence[str] = ("AL", "LAAL"),
    title: str = "",
    quality: str = "BLEU",
) -> None:
    """Draw quality over latency from the runs' scores.json, with one panel for each latency metric.

    Each strategy (with each initial wait) is a line. Its points, up to `LABELLED` in all, are labelled with the chunk
    in ms, or else with the policy's number. Light bars are the quality's 95 % intervals. An offline run is a dashed
    horizontal line.

    folders: folders of scored runs.
    out: picture to write: .png, .svg or .pdf.
    latencies: keys of scores.json.
    title: of the picture.
    quality: a key of scores.json, such as BLEU or that of a metric of one's own.

    Raises SimulstError: the suffix is another one; there is no such quality; a run lacks a metric; there is nothing to
        draw; the runs are of different data; matplotlib is missing.
    """
    _kind(out)
    if not latencies:
        raise SimulstError(f"{out}: no latency metric to draw over; name one, such as AL.")
    runs = load_runs(folders)
    check_quality(metrics_of(runs), quality)
    check_same_data(runs)
    for run, metric in itertools.product(runs, latencies):
        check_lag(run, metric)
    warn_of_slow(runs)
    draw_rows(runs, out, latencies, title, quality)


def _kind(out: Path) -> str:
    kind = out.suffix.lower().lstrip(".")
    if kind not in METADATA:
        raise SimulstError(f"{out}: pictures are .{', .'.join(METADATA)}; give --out one of these suffixes.")
    return kind


def draw_rows(runs: Sequence[Row], out: Path, latencies: Sequence[str], title: str = "", quality: str = "BLEU") -> None:
    """The same of rows that are loaded. One without the quality or a lag is left out.

    Raises SimulstError: the suffix is another one; there is nothing to draw; matplotlib is missing.
    """
    kind = _kind(out)
    offline = [run for run in runs if run.offline and run.scores.get(quality) is not None]
    lines: dict[str, list[Row]] = {}
    for run in runs:
        if run.offline:
            continue
        if any(run.scores.get(key) is None for key in (quality, *latencies)):
            logger.warning(
                "%s: has no %s or no lag; left out of the picture.", getattr(run, "folder", run.name), quality
            )
            continue
        lines.setdefault(run.curve, []).append(run)
    if not lines and not offline:
        raise SimulstError(f"{out}: none of the runs has both {quality} and a latency; there is nothing to draw.")
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SimulstError(f"pictures need matplotlib ({error}); pip install matplotlib.") from error

    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "simulst"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(5.0 * len(latencies) + 0.4, 4.6), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        metrics = metrics_of(itertools.chain(offline, *lines.values()))
        colours = colours_of(len(lines))
        crowded = len(lines) > len(COLOURS)
        panels = figure.subplots(1, len(latencies), sharey=True, squeeze=False)[0]
        for panel, metric in zip(panels, latencies, strict=True):
            for i, (name, line) in enumerate(lines.items()):
                _draw_line(panel, metric, quality, name, line, i, colours[i])
            for run, dash in zip(offline, itertools.cycle(("--", "-.", ":"))):
                panel.axhline(
                    run.scores[quality], color="0.35", linestyle=dash, linewidth=1.2, label=_in_legend(run.name)
                )
            panel.set_xlabel(metrics[metric].axis)
            panel.grid(color="0.92", linewidth=0.8)
            panel.set_axisbelow(True)
            panel.margins(x=0.1, y=0.08)
        barred = any(f"{quality}_low" in run.scores for line in lines.values() for run in line)
        panels[0].set_ylabel(metrics[quality].axis + (" (bars: 95 %)" if barred else ""))
        handles, labels = panels[0].get_legend_handles_labels()
        widest = 0.5 + 0.075 * max(map(len, labels))  # inches
        columns = min(len(labels), max(1, int(figure.get_figwidth() / widest)))
        points = sum(run.value is not None for run in itertools.chain(*lines.values()))
        if points > LABELLED:
            logger.warning("%d points are too many to label; draw fewer runs to see their numbers.", points)
        labelled = 0 < points <= LABELLED
        where = "points, where there is room" if crowded else "points"
        legend = figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            title=f"numbers at the {where}: READ's chunk in ms, k or λ, or n" if labelled else None,
            title_fontsize=8,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # names of folders may have dollar signs
        if title:
            figure.suptitle(title, fontsize=11, parse_math=False)
        canvas.draw()  # fixes the layout, so that labels can be placed in it
        for panel, metric in zip(panels, latencies, strict=True) if labelled else ():
            levels = [run.scores[quality] for run in offline]
            _label_points(panel, metric, quality, lines, levels, canvas.get_renderer(), crowded)
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            figure.savefig(part, format=kind, dpi=160, metadata=METADATA[kind])


def _in_legend(name: str) -> str:
    """A name as the legend shows it. matplotlib leaves out names that begin with an underscore."""
    return f"./{name}" if name.startswith("_") else name


def _bound(run: Row, quality: str, side: str) -> float:
    """The end of the interval on one side; the score if there is none."""
    bound: float | None = run.scores.get(f"{quality}_{side}")
    return run.scores[quality] if bound is None else bound


def colours_of(count: int) -> Sequence[Any]:
    """A colour for each of so many lines, no two alike."""
    if count <= len(COLOURS):
        return COLOURS[:count]
    return [colorsys.hls_to_rgb(number / count, SHADES[number % 2], 0.85) for number in range(count)]


def _draw_line(panel: Any, metric: str, quality: str, name: str, runs: list[Row], number: int, colour: Any) -> None:
    """Draw one strategy. `load_runs` has sorted its points from the smallest value to the largest."""
    x = [run.scores[metric] for run in runs]
    y = [run.scores[quality] for run in runs]
    low = [max(0.0, score - _bound(run, quality, "low")) for run, score in zip(runs, y, strict=True)]
    high = [max(0.0, _bound(run, quality, "high") - score) for run, score in zip(runs, y, strict=True)]
    panel.errorbar(x, y, [low, high], fmt="none", ecolor=colour, alpha=0.25, elinewidth=1.2, capsize=2, zorder=1)
    panel.plot(
        x,
        y,
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.5,
        linewidth=1.4,
        label=_in_legend(name),
    )


def _label_points(
    panel: Any,
    metric: str,
    quality: str,
    lines: dict[str, list[Row]],
    levels: Sequence[float],
    renderer: Any,
    crowded: bool,
) -> None:
    """Write each point's value close to the point, where it covers few lines, points and other labels.

    levels: the quality of the horizontal lines. crowded: leave out labels that would lie on others.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    paths = [
        panel.transData.transform([(run.scores[metric], run.scores[quality]) for run in runs])
        for runs in lines.values()
    ]
    # Lines become dots a few pixels apart, so that we can count what a label covers.
    left, right = panel.get_xlim()
    across = [panel.transData.transform([(left, level), (right, level)]) for level in levels]
    ink = np.concatenate([np.zeros((0, 2)), *map(_along, [*paths, *across])])
    moves = np.array(OFFSETS) * renderer.points_to_pixels(1)
    far = np.hypot(*np.array(OFFSETS).T) / 2
    boxes = np.zeros((0, 2, 2))  # of the labels so far: lower left and upper right
    for colour, runs in zip(colours_of(len(lines)), lines.values(), strict=True):
        for run in runs:
            if run.value is None:
                continue
            label = panel.annotate(
                f"{run.value:g}",
                (run.scores[metric], run.scores[quality]),
                xytext=(0, 0),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=7.5,
                color=[0.8 * part for part in to_rgb(colour)],  # darker: letters are thin
                path_effects=[withStroke(linewidth=1.8, foreground="white")],
                zorder=4,
            )
            label.set_in_layout(False)
            box = label.get_window_extent(renderer).padded(1)  # measured once: of two thousand it takes minutes
            low, high = box.min + moves, box.max + moves  # (offsets, 2)
            near = ink[((ink >= low.min(axis=0)) & (ink <= high.max(axis=0))).all(axis=1)]
            covered = ((near >= low[:, None]) & (near <= high[:, None])).all(axis=2).sum(axis=1)
            shared = np.minimum(high[:, None], boxes[:, 1]) - np.maximum(low[:, None], boxes[:, 0])
            piled = np.maximum(shared, 0).prod(axis=2).sum(axis=1)
            best = int((covered + piled + far).argmin())
            if crowded and piled[best]:
                label.remove()
                continue
            label.set_position(OFFSETS[best])
            boxes = np.concatenate([boxes, [[low[best], high[best]]]])


def _along(path: np.ndarray, step: float = 2.0) -> np.ndarray:
    """Points on a polyline, about `step` apart. Corners carry markers, so they appear ten times. path: (n, 2)."""
    pieces = [np.repeat(path, 10, axis=0)]
    for start, end in itertools.pairwise(path):
        count = int(np.hypot(*(end - start)) / step) + 1
        pieces.append(start + (end - start) * np.linspace(0, 1, count)[:, None])
    return np.concatenate(pieces)
