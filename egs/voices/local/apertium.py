"""Apertium as the translator of a cascade: {type: apertium:Apertium, mode: eng-spa}. Its programs stay open."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from simulst.calls import Turns
from simulst.errors import SimulstError
from simulst.models.cascade.translators import Opener, Past, PlainTranslation, Translator

MODES = Path("/usr/share/apertium/modes")
PROGRAM = Path(__file__).with_name("apertium.sh")


@dataclass(frozen=True)
class Apertium(Translator):
    """mode: the languages, as Apertium names them. All streams of a process share what is open."""

    mode: str = "eng-spa"

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: the languages are not installed."""
        if not (MODES / f"{self.mode}.mode").is_file():
            raise SimulstError(f"{path}: Apertium lacks {self.mode}; install the language pair, apertium-{self.mode}.")
        opened = Opened(self.mode)
        return lambda opening: ApertiumTranslation(opened, opening.target)

    def files(self, path: Path) -> tuple[Path, ...]:
        return (PROGRAM,)


class Opened:
    """The programs, which end with this process: their input ends then."""

    def __init__(self, mode: str) -> None:
        self._mode, self._lock = mode, threading.Lock()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(["bash", PROGRAM, mode], stdin=pipe, stdout=pipe, encoding="utf-8")

    def ask(self, text: str) -> str:
        """The translation of a line. Raises SimulstError: the programs have ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            try:
                print(text, file=self._process.stdin, flush=True)
                answer = self._process.stdout.readline()
            except OSError:
                answer = ""
        if not answer.strip():
            raise SimulstError(f"Apertium gave no translation; try {PROGRAM} {self._mode} in a shell.")
        return answer.strip()


class ApertiumTranslation(PlainTranslation):
    """It can't be told how to begin: what goes on from the committed text is taken of the whole translation."""

    def __init__(self, opened: Opened, target: str) -> None:
        super().__init__(target, Turns(1))
        self._opened = opened

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        return self._opened.ask(" ".join(sentence.split())), False
