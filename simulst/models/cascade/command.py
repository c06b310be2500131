"""A command that reads a line and writes its translation, such as Apertium."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simulst.errors import SimulstError
from simulst.models.cascade.translators import Opener, PlainTranslation, Translation, Translator


@dataclass(frozen=True)
class Command(Translator):
    """Options of a command.

    command: it is run for each text, without a shell; {source} and {target} stand for the languages.
    timeout: the seconds that it may take.
    """

    command: str
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: there is no such program."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise SimulstError(f"{path}: 'command' cannot be read ({error}): {self.command}") from error
        if not words or shutil.which(words[0]) is None:
            raise SimulstError(f"{path}: there is no program '{self.command}'; install it, or check its name and PATH.")

        def opened(source: str, target: str) -> Translation:
            named = [word.replace("{source}", source).replace("{target}", target) for word in words]
            return CommandTranslation(named, self.timeout, target)

        return opened


class CommandTranslation(PlainTranslation):
    """It can't be told how to begin: it translates the whole again, and what goes on from the prefix is taken."""

    def __init__(self, words: list[str], timeout: float, target: str) -> None:
        super().__init__(target)
        self._words, self._timeout = words, timeout

    def translate(self, sentence: str, begin: str) -> tuple[str, bool]:
        name = shlex.join(self._words)
        line = " ".join(sentence.split()) + "\n"
        try:
            done = subprocess.run(
                self._words, input=line.encode(), capture_output=True, timeout=self._timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise SimulstError(
                f"'{name}' gave no translation within {self._timeout:g} s; give it a longer 'timeout'."
            ) from error
        except OSError as error:
            raise SimulstError(f"'{name}' cannot be run ({error.strerror}); check the command.") from error
        text = done.stdout.decode("utf-8", errors="replace").strip()
        if done.returncode or not text:
            reason = done.stderr.decode("utf-8", errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
            raise SimulstError(f"'{name}' failed with status {done.returncode} ({reason[0]}); try it in a shell.")
        return " ".join(text.split()), False
