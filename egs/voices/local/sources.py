"""Where the recipe's data come from: Debian's packages of the two games, and its lists of words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from debian import fetch_packages, unpack
from drascula import speech_files
from simulst.errors import SimulstError

SKY, DRASCULA, DRASCULA_ES = "beneath-a-steel-sky", "drascula", "drascula-spanish"
GAMES = (SKY, DRASCULA, DRASCULA_ES)
WORDS = {
    "en": ("wamerican", "wbritish"),
    "de": ("wngerman",),
    "fr": ("wfrench",),
    "it": ("witalian",),
    "es": ("wspanish",),
    "pt": ("wportuguese", "wbrazilian"),
    "sv": ("wswedish",),
}
"""Language → packages with its words. Russian is not among them: its text is not in capitals."""

FOLDER = "usr/share/scummvm"
CHECKSUMS = {
    (
        "beneath-a-steel-sky",
        "beneath-a-steel-sky/sky.dnr",
    ): "1aa426bc9b04d962c98f2c6108f770b23a45a32cb85bd4e053a6eb1779173164",
    (
        "beneath-a-steel-sky",
        "beneath-a-steel-sky/sky.dsk",
    ): "9ef6ca3dcb6f9ceb31e950bc3a05d5105bbbb38a5e9fc9a9f6508363c87849e2",
    (
        "beneath-a-steel-sky",
        "beneath-a-steel-sky/sky.cpt",
    ): "9f41a3be39db91391400401152bd62435500b772bc92613d2c2eea0eb816982f",
    (DRASCULA, "drascula/en/drascula.dat"): "4ad7c24b2e642e1406fddee729159c6dfc6b1563a33bd7e421f85c4a1bd567b8",
    (DRASCULA, "drascula/en"): "d436f491c7a9905918a047a8ffb572ebafd2c325fe05328bf7b804271173676b",
    (DRASCULA_ES, "drascula/es"): "cc4ee48b3f0de8f64aae897cb248061d42a67dfdd0d9d1046639de8f74600555",
}
"""Package and file or folder → SHA-256; of a folder, that of its speech: names and contents, in order."""


@dataclass(frozen=True)
class Games:
    """sky: a folder. drascula: spoken language → folder."""

    sky: Path
    drascula: Mapping[str, Path]

    @property
    def drascula_texts(self) -> Path:
        """The file with the texts in all languages."""
        return self.drascula["en"] / "drascula.dat"


def fetch_games(downloads: Path) -> Games:
    """The games' files, fetched and unpacked below `downloads` unless they are there, and their checksums compared.

    Raises SimulstError: no network, a package that can't be unpacked, or files that are not those of CHECKSUMS.
    """
    packages = fetch_packages(list(GAMES), downloads)
    roots = {name: unpack(file, downloads / "unpacked" / name) / FOLDER for name, file in packages.items()}
    for (name, file), expected in CHECKSUMS.items():
        path = roots[name] / file
        again = f"delete {packages[name]} and {downloads / 'unpacked' / name}, and run again"
        if not path.exists():
            raise SimulstError(f"{packages[name]}: has no {file}, so it is another version of the game; {again}.")
        if checksum(path) != expected:
            raise SimulstError(f"{path}: changed, or of another version of the game; {again}.")
    return Games(roots[SKY] / SKY, {"en": roots[DRASCULA] / "drascula/en", "es": roots[DRASCULA_ES] / "drascula/es"})


def fetch_words(downloads: Path) -> dict[str, set[str]]:
    """Language → the words of its lists, fetched like the games. Raises SimulstError: a package without a list."""
    packages = fetch_packages([name for names in WORDS.values() for name in names], downloads)
    roots = {name: unpack(file, downloads / "unpacked" / name) for name, file in packages.items()}
    return {language: set().union(*(read_words(roots[name]) for name in names)) for language, names in WORDS.items()}


def read_words(root: Path) -> set[str]:
    """The words of an unpacked package. Raises SimulstError: there are none."""
    words: set[str] = set()
    for path in sorted(root.glob("usr/share/dict/*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            try:
                words.update(data.decode().split())
            except UnicodeDecodeError:  # wswedish
                words.update(data.decode("latin-1").split())
    if not words:
        raise SimulstError(f"{root}: the package has no list of words; delete it and its .deb file, and run again.")
    return words


def checksum(path: Path) -> str:
    """SHA-256 of a file, or of a folder's speech."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    whole = hashlib.sha256()
    for (prefix, number), file in sorted(speech_files(path).items()):
        whole.update(f"{prefix}{number} ".encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()
