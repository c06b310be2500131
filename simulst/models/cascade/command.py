"""A command that reads a text and writes its translation, such as Apertium."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from weakref import WeakValueDictionary

from pydantic import Field

from simulst.calls import Turns
from simulst.errors import SimulstError
from simulst.machine.threads import available_cores
from simulst.models.cascade.open_command import OpenCommand, run_once
from simulst.models.cascade.translators import Opener, Past, PlainTranslation, Translation, Translator
from simulst.opening import Opening

SEPARATORS = re.compile(r"[\s=|;&<>()'\"]+")
KEPT_OPEN = 4  # processes that no stream uses


@dataclass(frozen=True)
class Command(Translator):
    """Options of a command.

    command: it is run without a shell; {source} and {target} stand for the languages. A word with a slash, such as
        ./translate.sh, is a file beside the cascade's if there is one, or else one of the working folder.
    answers: `once`: it is run for each text. `line`: it stays open and answers each line with a line. It is asked its
        first text twice: two answers that differ show a greeting or a second answer.
    timeout: the seconds that an answer may take.

    With `once`, as many texts of several streams are translated at once as there are processors. A process that stays
    open translates one after the other.
    """

    command: str
    answers: Literal["once", "line"] = "once"
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0

    def load(self, path: Path, cores: int) -> Opener:
        """Raises SimulstError: there is no such program."""
        words, _ = self._found(path)
        # Streams share a process. It ends when no stream uses it and others were used since: a server's clients may
        # name any number of languages.
        running: WeakValueDictionary[tuple[str, ...], OpenCommand] = WeakValueDictionary()
        recent: deque[OpenCommand] = deque(maxlen=KEPT_OPEN)
        turn = Turns(cores or available_cores())

        def opened(opening: Opening) -> Translation:
            source, target = opening.languages
            named = [_beside(path, word.replace("{source}", source).replace("{target}", target)) for word in words]
            if self.answers == "once":
                return CommandTranslation(lambda text: run_once(named, text, self.timeout), target, turn)
            process = running.get(tuple(named)) or OpenCommand(named, self.timeout)
            running[tuple(named)] = process
            if process not in recent:
                recent.append(process)
            return CommandTranslation(process.ask, target, process.turn)

        return opened

    def files(self, path: Path) -> tuple[Path, ...]:
        """The program, and the files that the command names, such as a script, those of all languages.

        What the program reads or runs by itself is not known. Raises SimulstError: no such program.
        """
        words, program = self._found(path)
        # Also words inside a word: sh -c 'tool --table=rules.txt | other'.
        named = dict.fromkeys(part for word in words[1:] for part in (word, *SEPARATORS.split(word)) if part)
        return tuple(dict.fromkeys([program, *(file for part in named for file in _files_named(path, part))]))

    def _found(self, path: Path) -> tuple[list[str], Path]:
        """The command's words, and its program. Raises SimulstError: there is no such program."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise SimulstError(f"{path}: 'command' cannot be read ({error}): {self.command}") from error
        program = shutil.which(_beside(path, words[0])) if words else None
        if program is None:
            raise SimulstError(f"{path}: there is no program '{self.command}'; install it, or check its name and PATH.")
        return words, Path(program)


def _beside(path: Path, word: str) -> str:
    place = Path(os.path.abspath(path.parent)) / word  # absolute, as a program of the working folder has a slash
    return str(place) if "/" in word and place.exists() else word


def _files_named(path: Path, word: str) -> list[Path]:
    """The files that a word of a command names, with any languages in it."""
    for place in [str(path.parent / word), word] if "/" in word else [word]:
        pattern = glob.escape(place).replace("{source}", "*").replace("{target}", "*")
        if found := [file for file in map(Path, sorted(glob.glob(pattern))) if file.is_file()]:
            return found
    return []


class CommandTranslation(PlainTranslation):
    """It can't be told how to begin: it translates the whole again, and what goes on from the prefix is taken."""

    def __init__(self, ask: Callable[[str], str], target: str, turn: Turns) -> None:
        super().__init__(target, turn)
        self._ask = ask

    def translate(self, sentence: str, begin: str, past: Past = ()) -> tuple[str, bool]:
        return " ".join(self._ask(" ".join(sentence.split())).split()), False
