"""The development logs of a packed system: decoded from the packed folder, through the judges' programs."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from simulst.errors import SimulstError
from simulst.files.folder import sha256_of, write_atomically
from simulst.files.lock import digest
from simulst.handin.check import AGENT_LOG, LOG, RECORDINGS, SCORES, difference, scores_of
from simulst.handin.image import IMAGE, Image
from simulst.handin.interface import free_port, run_inference, run_simuleval
from simulst.handin.system import System
from simulst.log import LOG as RUN_LOG

logger = logging.getLogger(__name__)


def write_logs(
    part: Path, name: str, system: System, wavs: list[Path], work: Path, image: Image, simuleval: bool
) -> None:
    """Write a system's logs and scores. What is in the folder `work` of the same files is taken from there.

    wavs: the recordings, in their order (`as_wavs`). simuleval: SimulEval's log is made, too.

    Raises SimulstError: a program fails; the log does not prove the system's regime.
    """
    place = part / "systems" / name
    kept = work / f"{name}-{_digest(part, place)}.jsonl"
    if not kept.is_file():
        log = work / f"{name}.jsonl"
        processor = Path("systems", name, "processor.yaml")
        run_inference(part, processor, (system.source_lang, system.target_lang), wavs, log)
        write_atomically(kept, _without_places(log, wavs))
    shutil.copyfile(kept, place / LOG)
    if simuleval:
        of_agent = kept.with_suffix(".simuleval")
        if not of_agent.is_file():
            found = run_simuleval(part, image, name, wavs, work, free_port(), system.counted)
            write_atomically(of_agent, _without_places(found, wavs))
        shutil.copyfile(of_agent, place / AGENT_LOG)
    scores = scores_of(place / LOG, system, part / "development")
    (place / SCORES).write_text(json.dumps(scores, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if said := system.unproved(scores):
        raise SimulstError(f"{name}: its log has {said}; choose another configuration.")
    for told in difference(Path(system.run) / RUN_LOG, place / LOG, system.counted, "simulstream", times=False):
        logger.warning(
            "%s, %s: it sends audio of 16 bits, in pieces of 0.1 s, and another processor than the run's rounds "
            "otherwise; the scores are of its log.",
            name,
            told,
        )


def _digest(part: Path, place: Path) -> str:
    """Of all that a system's log depends on."""
    folders = (part / "models", part / "own", part / "simulst", place)
    # Of the threads and the kind of processor, too: they are in system.yaml.
    files = [part / "requirements.txt", part / IMAGE, part / "development" / RECORDINGS]
    files += (file for folder in folders for file in folder.rglob("*") if file.suffix != ".pyc")
    return digest(f"{file.relative_to(part)} {sha256_of(file)}" for file in sorted(files) if file.is_file())


def _without_places(log: Path, wavs: list[Path]) -> str:
    """A log that names recordings without the folders of this machine."""
    text, folder = log.read_text(encoding="utf-8"), f"{wavs[0].absolute().parent}/"
    for in_ascii in (True, False):  # as programs write JSON
        text = text.replace(json.dumps(folder, ensure_ascii=in_ascii)[1:-1], "")
    return text
