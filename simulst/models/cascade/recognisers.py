"""What hears inside a cascade."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulst.config import Decoding, load_decoding, parse_decoding
from simulst.errors import SimulstError
from simulst.models.cascade.settings import beside
from simulst.models.registry import check_languages, files_of_model, files_of_part, load_model, tells_language
from simulst.policy.segment import Attention, Whole
from simulst.session import Model


class Recogniser(ABC):
    """Options of a recogniser: a frozen dataclass. path: always that of the cascade's file, for errors."""

    @abstractmethod
    def load(self, path: Path, cores: int) -> Model:
        """Load what is heavy. Its sessions write in the language spoken. cores: processors that may be used."""

    @abstractmethod
    def policies(self, path: Path) -> Decoding:
        """When it hears and what it commits. Raises SimulstError: a file that is not valid."""

    def files(self, path: Path) -> tuple[Path, ...]:
        """The files that it is made of, in a fixed order. Raises SimulstError: one is missing."""
        return ()

    def check(self, path: Path, language: str) -> None:
        """Raise SimulstError if it is known before anything is loaded that this language is not heard."""

    def tells(self, path: Path) -> bool:
        """Whether its model may tell which language is spoken."""
        return False


@dataclass(frozen=True)
class OwnModel(Recogniser):
    """A model of simulst's under a decoding configuration.

    model: as on the command line; a path is relative to the cascade's file.
    decoding: its decoding configuration, or the file that holds one.
    options: of the model.
    """

    model: str
    decoding: dict[str, Any] | str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self, path: Path, cores: int) -> Model:
        return load_model(beside(path, self.model), cores, **self.options)

    def check(self, path: Path, language: str) -> None:
        check_languages(beside(path, self.model), self.options, language, language)

    def tells(self, path: Path) -> bool:
        return tells_language(beside(path, self.model), self.options)

    def policies(self, path: Path) -> Decoding:
        if isinstance(self.decoding, dict):
            found = parse_decoding(self.decoding, str(path))
        else:
            found = load_decoding(beside(path, self.decoding))
        if not isinstance(found.segment, Attention) and found.segment != Whole():
            raise SimulstError(
                f"{path}: a recogniser's own 'segment' may be attention; write others in the run's configuration."
            )
        return found

    def files(self, path: Path) -> tuple[Path, ...]:
        """Those of the configuration, of the policies, and of the model."""
        inner = () if isinstance(self.decoding, dict) else (Path(beside(path, self.decoding)),)
        decoding = self.policies(path)
        read = [file for name in decoding.files for file in files_of_part(name)]
        return (*inner, *read, *decoding.code.values(), *files_of_model(beside(path, self.model), self.options))
