"""`simulst pack`: chosen systems as a folder that can be handed in.

Their development logs are decoded from the packed folder, through the judges' programs.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import simulst
from simulst.audio.read import digest_of_beginning, load_audio
from simulst.background import ALL, read_known, table_of_backgrounds
from simulst.errors import SimulstError
from simulst.files.folder import digest, locked, replaced, sha256_of, write_atomically
from simulst.handin import page
from simulst.handin.check import AGENT_LOG, CLAIM, LOG, RECORDINGS, SCORES, difference, digest_of_audio, scores_of
from simulst.handin.image import IMAGE, SERVER, Image, environment_of
from simulst.handin.interface import as_wavs, run_inference, run_simuleval
from simulst.handin.licences import licences_of, write_licences
from simulst.handin.needs import Needs, needs_of, needs_of_verify
from simulst.handin.system import REFERENCES, SEGMENTATION, Placer, System, placed, read_choice, yaml_text
from simulst.handin.verify import REQUIREMENTS, SUMS
from simulst.log import LOG as RUN_LOG
from simulst.log import read_log
from simulst.measure.segmentation import read_segmentation

TORCH_CPU = "https://download.pytorch.org/whl/cpu"
"""Where pip finds torch's builds for CPUs."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Packing:
    """How a folder is packed.

    contact: who answers questions.
    device: cpu or cuda. base: the image that the Dockerfile begins with; empty: the slim one of this Python.
    debian: packages of programs that the systems call. licences: of the models.
    context: what is known of the recordings.
    simuleval: SimulEval's log is made, too.
    """

    contact: str
    device: str = "cpu"
    base: str = ""
    debian: tuple[str, ...] = ()
    licences: tuple[Path, ...] = ()
    context: Path | None = None
    simuleval: bool = False
    force: bool = False


def pack(choices: Sequence[Path], out: Path, packing: Packing) -> None:
    """Make the folder. What was decoded is kept in `OUT.work` until it is done, so an interrupted call goes on.

    choices: files of `simulst choose --out`.

    Raises SimulstError: no contact; the folder is there; a choice can't be packed; a model has no licence; a system
        does not run from the folder alone, or its log does not prove its regime; the disk is full.
    """
    out = Path(os.path.abspath(out))
    if not packing.contact.strip():
        raise SimulstError("--contact is empty; say who answers questions, by name and address.")
    if out.exists() and not packing.force:
        raise SimulstError(f"{out}: is there already; name another folder, or give --force.")
    if out.exists() and not (out / SUMS).is_file():
        raise SimulstError(f"{out}: is no folder that simulst pack made; name another one, or delete it.")
    systems = {system.name: system for system in map(read_choice, choices)}
    if len(systems) != len(choices):
        raise SimulstError(f"{choices[0]}: two choices are of one direction and regime; give one of each.")
    tests = {(s.target_lang, sha256_of(Path(s.segmentation)), sha256_of(Path(s.references))) for s in systems.values()}
    if len({test[1] for test in tests}) > 1 or len(tests) > len({test[0] for test in tests}):
        raise SimulstError(f"{choices[0]}: the choices are of different recordings or references; pack them apart.")
    licences = licences_of(systems.values(), packing.licences)
    recordings = _recordings(next(iter(systems.values())))
    with locked(out, out.with_name(f".{out.name}.lock")):
        _pack(systems, recordings, licences, out, packing)


def _pack(
    systems: dict[str, System], recordings: dict[str, Path], licences: Sequence[Path], out: Path, packing: Packing
) -> None:
    work = out.with_name(f"{out.name}.work")
    with replaced(out) as part:
        digests = {name: digest_of_audio(path) for name, path in recordings.items()}
        placer = Placer(part)
        claims = {name: placed(system, placer, packing.device) for name, system in systems.items()}
        for name, claim in claims.items():
            processor = claim.configuration
            if packing.context is not None:
                processor |= _write_context(part, name, packing.context, recordings, packing.simuleval)
            _write_system(part, name, claim, processor)
        _write_code(part)
        (part / "server.yaml").write_text(yaml_text(SERVER))
        wavs = as_wavs(recordings, work / f"wav-{digest(digests.values())}")
        print("packages that the systems import", flush=True)
        needs = needs_of(part, list(systems), next(iter(wavs.values())), packing.device)
        if remark := _remark(needs, packing.device):
            logger.warning("%s", remark)
        _write_requirements(part / REQUIREMENTS[0], needs, remark)
        image = _write_image(part, list(systems), needs, packing)
        _write_development(part, systems, digests)
        write_licences(part, licences, needs)
        for name, system in systems.items():
            print(f"{name}: {len(wavs)} recordings through simulstream", flush=True)
            write_logs(part, name, system, list(wavs.values()), work, image, packing.simuleval)
        _write_requirements(part / REQUIREMENTS[1], needs_of_verify(part, list(systems), needs))
        scores = {name: json.loads((part / "systems" / name / SCORES).read_text()) for name in systems}
        (part / "README.md").write_text(page.readme(claims, scores, image, packing.contact), encoding="utf-8")
        _write_sums(part)
    shutil.rmtree(work, ignore_errors=True)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(f"{out}: {size / 1e6:.0f} MB; simulst verify {out} RECORDINGS tries it")


def _recordings(system: System) -> dict[str, Path]:
    """The development recordings by their names, in the order of the segmentation."""
    sentences = read_segmentation(Path(system.segmentation), Path(system.references))
    logged = {i.recording: i for i in read_log(Path(system.run) / RUN_LOG, system.counted)}
    found = {}
    for name in dict.fromkeys(sentence.recording for sentence in sentences):
        instance = logged.get(name)
        source = instance.source[0] if instance is not None and isinstance(instance.source, list) else None
        if source is None or not Path(source).is_file():
            raise SimulstError(f"{system.run}: its log names no file for the recording {name}; decode it again.")
        found[name] = Path(source)
    return found


def _write_system(part: Path, name: str, claim: System, processor: dict[str, Any]) -> None:
    place = part / "systems" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "processor.yaml").write_text(yaml_text(processor), encoding="utf-8")
    (place / "decoding.yaml").write_text(yaml_text(claim.decoding), encoding="utf-8")
    claimed = {key: value for key, value in asdict(claim).items() if key not in processor}
    (place / CLAIM).write_text(yaml_text(claimed), encoding="utf-8")


def _write_context(
    part: Path, system: str, context: Path, recordings: Mapping[str, Path], simuleval: bool
) -> dict[str, str]:
    """Write a system's table of what is known; returns what its processor's configuration says of it.

    simulstream tells no names of recordings, so a line is found by the audio.

    Lines of the development recordings get their digest; others must have one. simuleval: SimulEval's agent, which
    knows the line of all recordings alone, is packed, too.

    Raises SimulstError: a broken table; a line without digest; lines that SimulEval's agent can't use.
    """
    known = read_known(context)
    names = {id(background): name for name, background in known.by_name.items()}
    audio = {names[id(background)]: digest for digest, background in known.by_audio.items()}
    own = [name for name in known.by_name if name != ALL]
    if own and simuleval:
        raise SimulstError(f"{context}: SimulEval's agent can't tell recordings apart; leave --simuleval out.")
    for name in own:
        if name not in audio and name not in recordings:
            raise SimulstError(
                f"{context}: {name} is no development recording, and has no digest of its audio; remove its line, or "
                "let egs/iwslt/local/prepare_iwslt.py write the table."
            )
        audio[name] = audio.get(name) or digest_of_beginning(load_audio(recordings[name]))
    place = Path("systems", system, "context.tsv")
    (part / place).parent.mkdir(parents=True, exist_ok=True)
    (part / place).write_text(table_of_backgrounds(known.by_name, audio), encoding="utf-8")
    return {"context": str(place), "context_by": "audio" if own else "all"}


def _write_code(part: Path) -> None:
    source = Path(simulst.__file__).parent
    shutil.copytree(source, part / "simulst", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copy2(source / "handin" / "verify.py", part / "verify.py")
    for folder in ("own", "models"):  # the Dockerfile copies them
        (part / folder).mkdir(exist_ok=True)
        (part / folder / ".keep").touch()


def _write_image(part: Path, systems: list[str], needs: Needs, packing: Packing) -> Image:
    python = ".".join(map(str, sys.version_info[:2]))
    environment = environment_of(packing.device, python, needs.packages)
    base = packing.base or f"python:{python}-slim"
    image = Image(python, base, list(packing.debian), environment, packing.device, list(needs.modules), systems)
    image.write(part)
    return image


def _remark(needs: Needs, device: str) -> str:
    """What whoever packs or builds an image for a CPU has to know of its packages; empty: nothing."""
    if device != "cpu" or not any(package.startswith("nvidia-") for package in needs.packages):
        return ""
    return (
        "torch is built for GPUs where this was packed, so the image for a CPU has NVIDIA's packages, too; install "
        f"torch's build for CPUs (--index-url {TORCH_CPU}), and pack again."
    )


def _write_requirements(path: Path, needs: Needs, remark: str = "") -> None:
    more = [f"# {remark}"] if remark else []
    more += [f"--extra-index-url {TORCH_CPU}"] if any(one.endswith("+cpu") for one in needs.packages) else []
    path.write_text("".join(f"{line}\n" for line in (*more, *needs.packages)))


def _write_development(part: Path, systems: dict[str, System], digests: dict[str, str]) -> None:
    place = part / "development"
    place.mkdir()
    segmentation = Path(next(iter(systems.values())).segmentation)
    if segmentation.suffix == ".json":
        text = yaml_text(json.loads(segmentation.read_text(encoding="utf-8")))
        (place / SEGMENTATION).write_text(text, encoding="utf-8")
    else:
        shutil.copyfile(segmentation, place / SEGMENTATION)
    for system in systems.values():
        shutil.copyfile(system.references, place / f"{system.target_lang}.{REFERENCES}")
    lines = [f"{name}\t{found}\n" for name, found in digests.items()]
    (place / RECORDINGS).write_text("".join(lines), encoding="utf-8")


def _write_sums(part: Path) -> None:
    for compiled in list(part.rglob("__pycache__")):
        shutil.rmtree(compiled)
    names = sorted(file.relative_to(part).as_posix() for file in part.rglob("*") if file.is_file())
    lines = [f"{sha256_of(part / name)}  {name}\n" for name in names]
    (part / SUMS).write_text("".join(lines), encoding="utf-8")


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
            found = run_simuleval(part, image, name, wavs, work, system.counted)
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
