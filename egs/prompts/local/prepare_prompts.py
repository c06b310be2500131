"""Fetch Debian's Asterisk core sounds, and write data directories of them.

The packages hold the same set of telephone prompts in several languages, one recording and one transcript line
per prompt name. The English line is the reference translation of the other languages' recordings.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "local"))  # what recipes share

from debian import fetch_packages, unpack
from simulst.audio.read import load_audio
from simulst.audio.units import SAMPLE_RATE
from simulst.commands.common import PATH, Several, run_command
from simulst.data.datadir import write_data_dir
from simulst.errors import SimulstError
from simulst.files.folder import replaced

LANGUAGES = ("es", "fr", "it", "ru")
REASONS = ("no recording", "no transcript", "no English", "non-speech", "short", "duplicate", "implausible")
COLUMNS = ("found", *REASONS, "kept", "dev", "tst")

SILENCE_DB = -50.0  # level (root mean square, relative to full scale) below which a recording holds no speech
# Limits as factors of the language's median. In a pair outside of them, the recording says something else.
SECONDS_PER_ENGLISH_WORD = (0.5, 2.0)
CHARACTERS_PER_SECOND = (0.6, 1.6)

# Words in brackets are not spoken ("[quello]", "(enfatico)"), as Whisper's transcripts show. These two are exceptions.
SPOKEN_NOTES = ("(ne m'appelez plus, jamais)", "(статус)")

_ENTRY = re.compile(r"([\w/-]+)\s*:\s*(.*)")
_MERGED = re.compile(r"(?:^|(?<=[.!?])\s*)([a-z0-9/_]+(?:-[a-z0-9/_]+)+):\s", re.IGNORECASE)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "…": "..."})


@dataclass(frozen=True)
class Prompt:
    """One recording with its transcript and its English reference."""

    name: str
    wav: Path
    source: str
    reference: str
    seconds: float


def prepare_prompts(
    downloads: Path, out: Path, languages: tuple[str, ...] = LANGUAGES, min_words: int = 8
) -> dict[str, Counter[str]]:
    """Fetch, unpack, clean and split the prompts; write `out/<language>-en/{dev,tst}`.

    The recordings are in `out/unpacked`.

    downloads: folder of the Debian packages.
    languages: source languages.
    min_words: drop pairs with fewer English words than this.

    Returns: language → count for each of COLUMNS, "dev seconds" and "tst seconds".
    Raises SimulstError: a language is unknown; a package cannot be fetched or read; no prompt is left.
    """
    if unknown := sorted(set(languages) - set(LANGUAGES)):
        raise SimulstError(f"--languages: '{unknown[0]}' is not offered; choose from {', '.join(LANGUAGES)}.")
    packages = [f"asterisk-core-sounds-{language}" for language in ("en", *languages)]
    packages += [f"asterisk-core-sounds-{language}-wav" for language in languages]
    files = fetch_packages(packages, downloads)
    roots = {name: unpack(file, out / "unpacked" / name) for name, file in files.items()}
    english = read_transcript(_transcript_file(roots["asterisk-core-sounds-en"], "en"))
    counts = {}
    for language in languages:
        transcript = read_transcript(_transcript_file(roots[f"asterisk-core-sounds-{language}"], language))
        voice = _voice_dir(roots[f"asterisk-core-sounds-{language}-wav"], language)
        prompts, counts[language] = select(transcript, english, voice, min_words)
        if not prompts:
            raise SimulstError(f"{voice}: no prompt is left with --min-words {min_words}; lower it.")
        _write_language(out, language, voice.name, prompts, counts[language])
    return counts


# ---- transcripts ----


def _transcript_file(root: Path, language: str) -> Path:
    found = sorted(root.glob(f"usr/share/doc/*/core-sounds-{language}.txt*"))
    if not found:
        raise SimulstError(f"{root}: the package has no transcripts (core-sounds-{language}.txt.gz); fetch another.")
    return found[0]


def _voice_dir(root: Path, language: str) -> Path:
    sounds = root / "usr/share/asterisk/sounds"
    found = [path for path in sorted(sounds.glob(f"{language}*")) if path.is_dir() and not path.is_symlink()]
    if not found:
        raise SimulstError(f"{sounds}: the package has no voice folder for '{language}'; fetch another.")
    return found[0]


def read_transcript(path: Path) -> dict[str, str]:
    """Read lines of `name: text`. If a name appears twice, its first text counts.

    Returns: prompt name → transcript, not cleaned.
    Raises SimulstError: the file is not (gzipped) UTF-8 text; a line has no name.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SimulstError(f"{path}: not readable as (gzipped) UTF-8 text; unpack the package again.") from error
    entries: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(";"):
            continue
        match = _ENTRY.match(line.strip())
        if not match:
            raise SimulstError(f"{path}, line {number}: not 'name: text'; fix the line.")
        # Some line breaks are missing, and one line has its name twice: split at each further "name: ".
        pieces = _MERGED.split(match[2])
        for name, value in zip([match[1], *pieces[1::2]], pieces[::2], strict=True):
            if not entries.get(name):
                entries[name] = value.strip()
    return entries


def clean(text: str) -> str:
    """The spoken text in one line, without stage directions, outer ellipses, curly quotes or double spaces.

    An entry that is only a note ("[ascending tones]") becomes empty.
    """
    text = " ".join(text.translate(_QUOTES).split())
    for note in SPOKEN_NOTES:
        text = text.replace(note, f", {note[1:-1]}")
    text = re.sub(r"\[[^]]*\]|\([^)]*\)|<[^>]*>", " ", text)
    text = re.sub(r"([.!?]) [.!?](?!\.)", r"\1", " ".join(text.split()))
    text = re.sub(r"\s+([.,;:!?])", r"\1", text)
    if text.count('"') % 2 or re.fullmatch(r'"[^"]*"', text):
        text = re.sub(r'^"|"$', "", text)
    text = re.sub(r"^(\.{2,}\s*)+|(\s*\.{2,})+$", "", text)
    return text.strip() if word_count(text) else ""


def word_count(text: str) -> int:
    """The number of words with at least one letter or digit."""
    return sum(any(c.isalnum() for c in word) for word in text.split())


# ---- selection ----


def select(
    transcript: dict[str, str], english: dict[str, str], voice: Path, min_words: int
) -> tuple[list[Prompt], Counter[str]]:
    """Select the prompts to keep. Returns them sorted by name, and the count for each of COLUMNS so far."""
    wavs = {path.relative_to(voice).with_suffix("").as_posix(): path for path in voice.rglob("*.wav")}
    counts: Counter[str] = Counter({column: 0 for column in COLUMNS})
    prompts: list[Prompt] = []
    seen: set[tuple[str, str]] = set()
    for name in sorted(transcript.keys() | wavs.keys()):
        counts["found"] += 1
        source, reference = clean(transcript.get(name, "")), clean(english.get(name, ""))
        key = (_bare(source), _bare(reference))
        if reason := _why_not(name, transcript, english, wavs, min_words):
            counts[reason] += 1
        elif key in seen:
            counts["duplicate"] += 1
        else:
            samples = load_audio(wavs[name])
            if _level(samples) < SILENCE_DB:
                counts["non-speech"] += 1
                continue
            seen.add(key)
            prompts.append(Prompt(name, wavs[name], source, reference, samples.size / SAMPLE_RATE))
    kept = drop_implausible(prompts)
    counts["implausible"] = len(prompts) - len(kept)
    counts["kept"] = len(kept)
    return kept, counts


def drop_implausible(prompts: list[Prompt]) -> list[Prompt]:
    """Drop the prompts whose recording is far too short or long for its English text or its transcript."""
    if not prompts:
        return []
    pace = [p.seconds / word_count(p.reference) for p in prompts]
    rate = [len(p.source) / p.seconds for p in prompts]
    middle_pace, middle_rate = statistics.median(pace), statistics.median(rate)
    return [
        prompt
        for prompt, a, b in zip(prompts, pace, rate, strict=True)
        if SECONDS_PER_ENGLISH_WORD[0] <= a / middle_pace <= SECONDS_PER_ENGLISH_WORD[1]
        and CHARACTERS_PER_SECOND[0] <= b / middle_rate <= CHARACTERS_PER_SECOND[1]
    ]


def split_of(name: str) -> str:
    """ "dev" for about a quarter of all prompt names, else "tst"; the same in every language, on every run."""
    return "dev" if hashlib.sha256(name.encode()).digest()[0] % 4 == 0 else "tst"


def _why_not(
    name: str, transcript: dict[str, str], english: dict[str, str], wavs: dict[str, Path], min_words: int
) -> str | None:
    if name not in wavs:
        return "no recording"
    if not transcript.get(name):
        return "no transcript"
    if not english.get(name):
        return "no English"
    if not clean(transcript[name]) or not clean(english[name]):
        return "non-speech"
    return "short" if word_count(clean(english[name])) < min_words else None


def _bare(text: str) -> str:
    """The text without case and punctuation, for comparisons."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _level(samples: np.ndarray) -> float:
    return 10 * float(np.log10(np.mean(np.square(samples, dtype=np.float64)) + 1e-12))


# ---- writing ----


def _write_language(out: Path, language: str, speaker: str, prompts: list[Prompt], counts: Counter[str]) -> None:
    """Write both splits, each as a whole. Other folders beside them stay, such as talks."""
    place = out / f"{language}-en"
    for split in ("dev", "tst"):
        chosen = {f"{language}-{p.name.replace('/', '.')}": p for p in prompts if split_of(p.name) == split}
        counts[split] = len(chosen)
        counts[f"{split} seconds"] = round(sum(p.seconds for p in chosen.values()))
        tables = {
            "wav.scp": {key: os.path.relpath(p.wav, place / split) for key, p in chosen.items()},
            "utt2spk": dict.fromkeys(chosen, speaker),
            f"text.{language}": {key: p.source for key, p in chosen.items()},
            "text.en": {key: p.reference for key, p in chosen.items()},
        }
        with replaced(place / split) as part:
            write_data_dir(part, tables)


def decision_table(counts: dict[str, Counter[str]]) -> str:
    """The counts as text: one line per language."""
    columns = (*COLUMNS, "dev seconds", "tst seconds")
    rows = [["language", *columns]] + [[lang, *(str(count[c]) for c in columns)] for lang, count in counts.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


# ---- command ----


@click.command()
@click.option("--downloads", required=True, type=PATH, help="Folder for the Debian packages.")
@click.option("--out", required=True, type=PATH, help="For the data directories <language>-en.")
@click.option(
    "--languages", type=Several(str), default=" ".join(LANGUAGES), show_default=True, help="Source languages."
)
@click.option(
    "--min-words", default=8, show_default=True, type=click.IntRange(1), help="Least words of an English reference."
)
def main(downloads: Path, out: Path, languages: tuple[str, ...], min_words: int) -> None:
    """Fetch Debian's Asterisk core sounds, and write data directories of them."""
    print(decision_table(prepare_prompts(downloads, out, languages, min_words)))


if __name__ == "__main__":
    run_command(main)
