"""COMET's metrics, such as XCOMET: computed by COMET's own command, which has an environment of its own.

unbabel-comet wants older versions of numpy and transformers than simulst. `tools/install.sh --scoring` installs it in
`.venv-scoring`; a `comet-score` on the PATH is used, too.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

import simulst
from simulst.errors import SimulstError
from simulst.files.folder import digest_of_file, write_atomically
from simulst.files.text import read_json
from simulst.log import LOG
from simulst.measure.metric import Texts
from simulst.options import read_json_fields

INSTALLED = Path(simulst.__file__).parents[1] / ".venv-scoring" / "bin" / "comet-score"
"""Where tools/install.sh --scoring puts COMET's command."""

KEPT = "comet.json"
"""In a run's folder: the score of each segment, by each model."""


Score = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class Segment:
    """What a model judges: a sentence, its translation, and the reference (None: the model must do without)."""

    source: str
    prediction: str
    reference: str | None


@dataclass(frozen=True)
class _Kept:
    """What comet.json holds. log: digest of the run's log. models: model → a score for each of the segments."""

    log: str
    models: dict[str, list[Score]]
    segments: list[tuple[str, str, str | None]]


Known = dict[str, dict[Segment, float]]
"""Model → segment → score. A model that is a file is told apart by the digest of the file, too."""


@dataclass(frozen=True)
class Comet:
    """COMET's models, and what they have scored so far.

    models: names on the Hugging Face hub, such as Unbabel/XCOMET-XL, or checkpoints (.ckpt). The first one's score is
        COMET in scores.json.
    folder: of a run, where the scores of its segments are kept; None: nowhere.
    """

    models: tuple[str, ...]
    known: Known = field(default_factory=dict)
    folder: Path | None = None

    def scores(self, segments: Sequence[Segment]) -> dict[str, list[float]]:
        """Model → a score for each segment by `comet-score`, which runs at most once a model and shows its progress.

        Raises SimulstError: there is no `comet-score`; it ends with an error.
        """
        found = {}
        for model in self.models:
            scores = self.known.setdefault(_key(model), {})
            if unknown := [segment for segment in dict.fromkeys(segments) if segment not in scores]:
                scores.update(zip(unknown, _ask(model, unknown), strict=True))
            found[model] = [scores[segment] for segment in segments]
        return found

    def summary(self, texts: Texts, bootstrap: int = 1000) -> dict[str, Any]:
        """What scores.json holds: the first model's as COMET; of several models, all by their names, too."""
        from simulst.measure.quality import mean_score

        segments = segments_of(texts)
        scores, rows = self.scores(segments), {}
        for model, values in scores.items():
            found = mean_score(values, bootstrap)
            low, high = (None if value is None else round(value, 4) for value in (found.low, found.high))
            rows[model] = {"score": round(found.score, 4), "low": low, "high": high}
        if self.folder is not None:
            _keep(self.folder, segments, scores)
        first = rows[self.models[0]]
        summary = {
            "COMET": first["score"],
            "COMET_low": first["low"],
            "COMET_high": first["high"],
            "COMET_model": self.models[0],
        }
        return summary if len(rows) == 1 else {**summary, "COMET_models": rows}


def _keep(folder: Path, segments: Sequence[Segment], scores: Mapping[str, Sequence[float]]) -> None:
    """Write the scores of a run's segments. Those of other models stay if they are of the same texts."""
    texts = [(segment.source, segment.prediction, segment.reference) for segment in segments]
    earlier = _read(folder)
    models = earlier.models if earlier is not None and earlier.segments == texts else {}
    models = {**models, **{_key(model): list(values) for model, values in scores.items()}}
    content = asdict(_Kept(digest_of_file(folder / LOG), models, texts))
    write_atomically(folder / KEPT, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def segments_of(texts: Texts) -> list[Segment]:
    """Texts as COMET's models judge them. Raises SimulstError: nobody knows what was said."""
    if not texts.sources:
        raise SimulstError("COMET's models judge a translation by what was said; give the transcript (--sources).")
    references = texts.references or (None,) * len(texts.predictions)
    return [
        Segment(_line(source), _line(prediction), None if reference is None else _line(reference))
        for source, prediction, reference in zip(texts.sources, texts.predictions, references, strict=True)
    ]


def read_kept(folders: Iterable[Path]) -> Known:
    """All scores that runs have kept. What can't be read is computed again."""
    known: Known = {}
    for content in filter(None, map(_read, folders)):
        segments = [Segment(*texts) for texts in content.segments]
        for key, scores in content.models.items():
            known.setdefault(key, {}).update(zip(segments, scores, strict=True))
    return known


def kept_scores(folder: Path, model: str) -> tuple[list[Segment], list[float]] | None:
    """A run's segments and their scores by a model; None if it has none of this log."""
    content = _read(folder)
    if content is None or _key(model) not in content.models or content.log != digest_of_file(folder / LOG):
        return None
    return [Segment(*texts) for texts in content.segments], content.models[_key(model)]


def _line(text: str) -> str:
    """As `comet-score` reads it: without line ends, and without space around it."""
    return re.sub(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+", " ", text).strip()


def _key(model: str) -> str:
    path = Path(model)
    return f"{model} {digest_of_file(path)}" if path.is_file() else model


def _read(folder: Path) -> _Kept | None:
    """What a run has kept; None if there is nothing, or nothing that can be read."""
    try:
        content = read_json_fields(_Kept, folder / KEPT, "score it again")
    except (SimulstError, OSError):
        return None
    whole = all(len(scores) == len(content.segments) for scores in content.models.values())
    return content if whole else None


def _program() -> str:
    """Raises SimulstError: COMET is not installed."""
    found = str(INSTALLED) if INSTALLED.is_file() else shutil.which("comet-score")
    if found is None:
        raise SimulstError(
            "COMET's metrics need the program comet-score; run tools/install.sh --scoring in the checkout, or pip "
            "install unbabel-comet in an environment of its own and put its bin folder on the PATH."
        )
    return found


def _ask(model: str, segments: Sequence[Segment]) -> list[float]:
    program = _program()
    if model.endswith(".ckpt") and not Path(model).is_file():
        raise SimulstError(f"{model}: no such file; give a COMET checkpoint, or a model's name on the hub.")
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        columns = {"s": [s.source for s in segments], "t": [s.prediction for s in segments]}
        if all(segment.reference is not None for segment in segments):
            columns["r"] = [segment.reference or "" for segment in segments]
        command = [program, "--model", model, "--gpus", str(int(torch.cuda.is_available())), "--to_json", "scores"]
        for option, lines in columns.items():
            (folder / option).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            command += [f"-{option}", option]
        # Checkpoints are files of strangers; torch's loader must run none of their code.
        environment = {**os.environ, "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TOKENIZERS_PARALLELISM": "false"}
        if os.sep in model:
            command[2] = str(Path(model).absolute()) if Path(model).is_file() else model
        said = b""
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        with process:
            while part := process.stderr.read1(4096):  # type: ignore[attr-defined]
                said = (said + part)[-4096:]
                sys.stderr.buffer.write(part)
                sys.stderr.flush()
        if process.returncode:
            lines = said.decode(errors="replace").strip().splitlines() or [f"status {process.returncode}"]
            raise SimulstError(f"{model}: COMET cannot use this model ({lines[-1].strip().rstrip('.')}).")
        try:
            found = [float(row["COMET"]) for row in read_json(folder / "scores", "")["t"]]  # t: as the file is called
            if not all(map(math.isfinite, found)):
                raise ValueError("no number")
        except (SimulstError, LookupError, TypeError, ValueError) as error:
            raise SimulstError(
                f"{model}: {program} wrote no scores that can be read; is it unbabel-comet's?"
            ) from error
    if len(found) != len(segments):
        raise SimulstError(f"{model}: {program} wrote {len(found)} scores of {len(segments)} segments; try it again.")
    return found
