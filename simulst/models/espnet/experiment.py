"""The files that ESPnet leaves of a trained model."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from simulst.errors import SimulstError, first_line
from simulst.files.text import decoded
from simulst.files.yaml import load_yaml
from simulst.models.espnet.network.lagging import WaitOptions
from simulst.models.heads import HEADS
from simulst.options import build_options, read_fields
from simulst.search import JointBeamSearch

CHECKPOINTS = (
    *("chosen.pth", "valid.acc.ave.pth", "valid.acc.ave*.pth", "*.ave*.pth", "valid.acc.best.pth", "*.best.pth"),
    *("latest.pth", "*epoch.pth", "model.pth"),
)
"""File names of weights, in order of preference: chosen on dev, averaged, best, newest."""
CONFIG, SEARCH, CTC, DIVERGENCE = "config.yaml", "search.yaml", "ctc.pth", "divergence.pth"
"""ESPnet's configuration; the search's weights that were chosen on dev, if any: `ctc_weight` and `length_bonus`;
the CTC layer of the model that a training began with, if that training has none; the head that foresees divergence."""


@dataclass(frozen=True, kw_only=True)
class _Config(WaitOptions):
    """What is used here of ESPnet's config.yaml, which has much more."""

    token_list: str | list[Any]
    token_type: str | None = None
    bpemodel: str | None = None
    encoder: str | None = None
    encoder_conf: dict[str, Any] | None = None
    decoder: str | None = None
    decoder_conf: dict[str, Any] | None = None
    frontend: str | None = None
    frontend_conf: dict[str, Any] | None = None
    normalize: str | None = None
    normalize_conf: dict[str, Any] | None = None
    model_conf: dict[str, Any] | None = None
    preprocessor_conf: dict[str, Any] | None = None
    train_data_path_and_name_and_type: list[list[str]] | None = None


class Experiment:
    """The files of a trained model: an experiment directory, or a zip made by espnet2.main_funcs.pack_funcs.

    path: the directory or the zip.
    checkpoint: the file with the weights. Empty: the first that matches CHECKPOINTS, or the one that the zip names.

    Raises SimulstError: a file that is missing or has the wrong content.
    """

    def __init__(self, path: Path, checkpoint: str = "") -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        try:
            if path.is_file():
                self._archive = zipfile.ZipFile(path)
                config, weights = self._packed(self._archive)
                self.checkpoint = checkpoint or weights
            else:
                config = CONFIG
                self.checkpoint = checkpoint or self._newest()
            self.config = self._yaml(self.read(config), "its configuration")
        except (zipfile.BadZipFile, KeyError, AttributeError, TypeError, StopIteration) as error:
            raise SimulstError(f"{path}: not a zip that ESPnet packed ({error!r}).") from error
        read_fields(_Config, self.config, f"{path}: its configuration", "give a model that ESPnet trained")

    def read(self, name: str) -> bytes:
        """The content of a file that the configuration names.

        name: a path relative to the folder where training ran, or to the experiment.
        """
        if self._archive is not None:
            names = self._archive.namelist()
            # If the model was packed in another folder, the path has more or fewer folders at its start.
            found = [name] if name in names else [other for other in names if _one_ends_in_the_other(name, other)]
            if len(found) > 1:
                raise SimulstError(f"{self.path}: {name} could be {' or '.join(found)}; pack only one of them.")
            if found:
                return self._archive.read(found[0])
            raise SimulstError(f"{self.path}: the zip does not contain {name}; pack the model with --option {name}.")
        return self._place(name).read_bytes()

    def _place(self, name: str) -> Path:
        """The file in a directory that the configuration names. Raises SimulstError: it is missing."""
        places = [self.path, *self.path.resolve().parents, Path()]
        for file in [place / name for place in places] + [self.path / Path(name).name]:
            if file.is_file():
                return file
        raise SimulstError(f"{self.path}: the file {name} is missing; put it into the experiment's folder.")

    def weights(self) -> dict[str, torch.Tensor]:
        """All parameters and buffers by ESPnet's names.

        Raises SimulstError: they cannot be read, are not weights, or are not finite.
        """
        try:
            state = torch.load(io.BytesIO(self.read(self.checkpoint)), map_location="cpu", weights_only=True)
            if (beside := self.beside(CTC)) is not None:
                state = torch.load(io.BytesIO(beside), map_location="cpu", weights_only=True) | state
        except SimulstError:
            raise
        except Exception as error:  # torch.load raises many kinds of errors, which depend on the bytes
            raise SimulstError(f"{self.path}: {self.checkpoint} cannot be read ({first_line(error)}).") from error
        if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
            raise SimulstError(
                f"{self.path}: {self.checkpoint} holds more than weights; give a model, as ESPnet saves it."
            )
        # Check this now. Later it may stay unnoticed: a ReLU turns NaN into 0.
        broken = [name for name, tensor in state.items() if not tensor.isfinite().all()]
        if broken:
            raise SimulstError(
                f"{self.path}: {self.checkpoint} holds weights that are not finite (NaN or infinity), "
                f"such as {broken[0]}; the training failed, so name another checkpoint."
            )
        return state

    def search(self) -> JointBeamSearch:
        """The search that a decoding configuration need not name. Raises SimulstError: search.yaml is broken."""
        chosen = self.beside(SEARCH)
        values = {} if chosen is None else self._yaml(chosen, SEARCH, "choose the weights again")
        if not isinstance(values, dict) or values.keys() - {"ctc_weight", "length_bonus"}:
            raise SimulstError(f"{self.path}: {SEARCH} may hold only ctc_weight and length_bonus; choose them again.")
        return build_options(JointBeamSearch, values, f"{self.path}: {SEARCH}", "the search")

    def beside(self, file: str) -> bytes | None:
        """What a file holds that need not be there."""
        if self._archive is not None:
            names = [name for name in self._archive.namelist() if Path(name).name == file]
            if len(names) > 1:
                raise SimulstError(f"{self.path}: {file} could be {' or '.join(names)}; pack only one of them.")
            return self._archive.read(names[0]) if names else None
        place = self.path / file
        return place.read_bytes() if place.is_file() else None

    def files(self) -> tuple[Path, ...]:
        """All that determines the output: the zip, or weights, configuration, vocabulary and search."""
        if self._archive is not None:
            return (self.path,)
        names = [self.checkpoint, CONFIG, self.config.get("bpemodel"), self.config["token_list"]]
        found = [self._place(name) for name in names if isinstance(name, str)]
        beside = (self.path / name for name in (SEARCH, CTC, DIVERGENCE, HEADS))
        return (*dict.fromkeys(found), *(file for file in beside if file.is_file()))

    def tokens(self) -> list[str]:
        """The vocabulary, in order."""
        tokens = self.config["token_list"]
        if isinstance(tokens, str):
            text = decoded(self.read(tokens), self.path / tokens, "give the one that ESPnet trained with")
            return [line.rstrip() for line in text.removesuffix("\n").split("\n")]
        return [str(token) for token in tokens]

    def _packed(self, archive: zipfile.ZipFile) -> tuple[str, str]:
        meta = self._yaml(archive.read("meta.yaml"), "its configuration")
        config = next(
            value for key, value in meta["yaml_files"].items() if key in ("st_train_config", "asr_train_config")
        )
        weights = next(value for key, value in meta["files"].items() if key in ("st_model_file", "asr_model_file"))
        return config, weights

    def _yaml(self, data: bytes, what: str, remedy: str = "give a model that ESPnet trained") -> Any:
        try:
            return load_yaml(data.decode(), fast=True)  # otherwise a vocabulary of thousands takes a second
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise SimulstError(f"{self.path}: {what} is not valid YAML ({first_line(error)}); {remedy}.") from error

    def _newest(self) -> str:
        for pattern in CHECKPOINTS:
            names = [file.name for file in self.path.glob(pattern) if file.is_file()]
            if names:
                return max(names, key=lambda name: [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", name)])
        raise SimulstError(
            f"{self.path}: no weights (such as valid.acc.ave.pth); train the model, or name a checkpoint."
        )


def _one_ends_in_the_other(path: str, other: str) -> bool:
    parts, others = ([part for part in Path(one).parts if part != "/"] for one in (path, other))
    both = min(len(parts), len(others))
    return parts[-both:] == others[-both:]
