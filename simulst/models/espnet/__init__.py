"""ESPnet2 speech translation (or recognition) models. ESPnet trains them; this package decodes them.

Nothing heavy is imported before a model is loaded.
"""

from __future__ import annotations

from pathlib import Path

from simulst.models.base import Family, later
from simulst.models.espnet.options import ESPnetOptions


def _recognises(path: Path) -> bool:
    config = path / "config.yaml"
    if config.is_file():
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
        return any(line.startswith("token_list:") for line in lines)
    return path.suffix == ".zip" and path.is_file()


def _files(path: Path, options: ESPnetOptions) -> tuple[Path, ...]:
    from simulst.models.espnet.experiment import Experiment

    return Experiment(path, options.checkpoint).files()


def _check(path: Path, options: ESPnetOptions, source: str, target: str) -> None:
    from simulst.models.espnet.experiment import Experiment
    from simulst.models.espnet.vocabulary import check_trained, trained_languages

    check_trained(path, trained_languages(Experiment(path, options.checkpoint).config), source, target)


family = Family(
    looks_like="an ESPnet experiment (config.yaml with a token_list, weights in *.pth) or the zip that ESPnet packed",
    recognises=_recognises,
    options=ESPnetOptions,
    load=later("simulst.models.espnet.loading:load"),
    files=_files,
    check=_check,
)
