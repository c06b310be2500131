"""A program as a translator of one's own: it is run for each text."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from simulst.calls import Turns
from simulst.errors import SimulstError
from simulst.models.cascade.translators import Opener, Past, PlainTranslation, Translator


@dataclass(frozen=True)
class Program(Translator):
    command: str

    def load(self, path: Path, cores: int) -> Opener:
        turn = Turns(cores)
        return lambda opening: ProgramTranslation(shlex.split(self.command), opening.target, turn)


class ProgramTranslation(PlainTranslation):
    def __init__(self, words: list[str], target: str, turn: Turns) -> None:
        super().__init__(target, turn)
        self._words = words

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        done = subprocess.run(self._words, input=f"{' '.join(sentence.split())}\n", capture_output=True, text=True)
        if done.returncode or not done.stdout.strip():
            name = shlex.join(self._words)
            raise SimulstError(
                f"'{name}' failed with status {done.returncode} ({done.stderr.strip()}); try it in a shell."
            )
        return " ".join(done.stdout.split()), False
