"""What `verify` does in the environment of a packed folder: `python -m simulst.handin.check FOLDER RECORDINGS`.

It decodes the recordings through the judges' interfaces, and compares all with what the folder claims.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simulst.audio.name import SUFFIXES, recording_name
from simulst.audio.read import as_int16, load_audio
from simulst.errors import SimulstError
from simulst.handin.image import CLIENT, HOST, IMAGE, PORT, SERVER, Image, missing, read_image
from simulst.handin.interface import as_wavs, run_inference, run_simuleval, serving
from simulst.handin.system import REFERENCES, SEGMENTATION, System, packed_mapping, yaml_text
from simulst.handin.verify import REQUIREMENTS, counted
from simulst.log import read_log
from simulst.log.instance import check_units
from simulst.machine.processor import kind
from simulst.options import read_fields, read_json_fields

LOG, AGENT_LOG, SCORES, CLAIM = "simulstream.jsonl", "simuleval.log", "scores.json", "system.yaml"
RECORDINGS = "recordings.tsv"
AGAIN = "pack again"


class Verdict:
    """What was found: printed as it comes, and counted."""

    def __init__(self) -> None:
        self.problems = self.others = 0

    def ok(self, what: str) -> None:
        print(f"  ok    {what}", flush=True)

    def wrong(self, what: str) -> None:
        self.problems += 1
        print(f"  WRONG {what.rstrip('.')}.", flush=True)

    def other(self, what: str) -> None:
        """Something differs as it may on another kind of processor."""
        self.others += 1
        print(f"  other {what}.", flush=True)

    def attempt(self, what: str, faults: Iterable[str]) -> None:
        """Run a check: it yields a sentence for each fault."""
        before = self.problems, self.others
        try:
            for sentence in faults:
                self.wrong(sentence)
        except (SimulstError, OSError) as error:
            self.wrong(str(error))
        if (self.problems, self.others) == before:
            self.ok(what)


def digest_of_audio(path: Path) -> str:
    """Of the samples that simulstream is sent: 16 bits, 16 kHz."""
    return hashlib.sha256(as_int16(load_audio(path)).tobytes()).hexdigest()


def difference(log: Path, again: Path, unit: str, other: str, times: bool = True) -> Iterator[str]:
    """A sentence on the first word in which two logs differ, if they do. Times of computation are not compared.

    other: what the second log is called. times: delays are compared, too. Raises SimulstError: a log can't be read.
    """
    claimed, found = (_written(one, unit, times) for one in (log, again))
    for recording in dict.fromkeys((*claimed, *found)):
        if claimed.get(recording) != found.get(recording):
            pairs = itertools.zip_longest(claimed.get(recording, ()), found.get(recording, ()))
            differing = ((n, *pair) for n, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
            number, *both = next(differing, (1, None, None))  # one of them has not the recording
            one, two = ("nothing" if written is None else written for written in both)
            yield f"{log.name}: {unit} {number} of {recording} is {one}, but {other} wrote {two}"
            return


def _written(log: Path, unit: str, times: bool) -> dict[str, list[str]]:
    """What was written of each recording: its units, and their delays."""
    instances = read_log(log, unit)
    check_units(instances, unit, log)
    return {
        i.recording: [
            f"{text!r} at {delay / 1000:.12g} s" if times else repr(text)
            for text, delay in zip(i.units(unit), i.delays, strict=True)
        ]
        for i in instances
    }


def check_log(log: Path, again: Path, other: str, system: System, development: Path, verdict: Verdict) -> Iterator[str]:
    """The server, or SimulEval's agent, wrote what the log has.

    Another kind of processor rounds otherwise, so other words may follow there. They are told as such if their quality
    lies within the claimed intervals, and their lag proves the regime; else they are wrong there, too.
    """
    for told in difference(log, again, system.counted, other):
        fault = f"{told}; is it the log of this configuration and model?"
        here = kind(str(system.model_options.get("device", "cpu")))
        if system.processor == here:
            yield f"{fault} It was decoded on this kind of processor, with {system.threads} threads"
            continue
        where = f"the log is of {system.processor}, and this is {here}"
        claimed = read_json_fields(dict[str, Any], log.parent / SCORES, AGAIN)
        found = scores_of(again, system, development, bootstrap=0)
        outside = [
            f"{key} is {found[key]} here, and its claimed interval ends at {claimed[f'{key}_low']} and "
            f"{claimed[f'{key}_high']}"
            for key in ("BLEU", "chrF")
            if not (claimed[f"{key}_low"] or 0) <= found[key] <= (claimed[f"{key}_high"] or 0)  # None: no interval
        ]
        if said := system.unproved(found):
            outside.append(f"these words have {said}")
        if outside:
            yield f"{fault} Rounding does not explain it ({where}): {'; '.join(outside)}"
        else:
            verdict.other(f"{fault} Rounding may explain it ({where}): the scores are within the claimed intervals")


def scores_of(log: Path, system: System, development: Path, bootstrap: int = 1000) -> dict[str, Any]:
    """The scores of a simulstream log. Raises SimulstError: as `score`."""
    from simulst.measure import Asked, Sentences, score

    unit, language = system.counted, system.target_lang
    asked = Asked(Sentences(development / SEGMENTATION, development / f"{language}.{REFERENCES}"))
    return score(read_log(log, unit), language, unit, bootstrap, log, system.source_lang, asked)


def check_scores(folder: Path, name: str, system: System) -> Iterator[str]:
    """The scores of the packed log are those that the folder has, and prove its regime."""
    place = folder / "systems" / name
    claimed = read_json_fields(dict[str, Any], place / SCORES, AGAIN)
    found = scores_of(place / LOG, system, folder / "development")
    for key in dict.fromkeys((*found, *claimed)):
        if (key in found, found.get(key)) != (key in claimed, claimed.get(key)):
            yield f"{SCORES}: {key} is {claimed.get(key)}, but the log gives {found.get(key)}; score it again"
    if said := system.unproved(found):
        yield f"the log has {said}"


def read_claim(place: Path) -> System:
    """What a packed system claims. Raises SimulstError: a file of it is missing or broken."""
    content = {**packed_mapping(place / CLAIM), **packed_mapping(place / "processor.yaml")}
    return read_fields(System, content, str(place / CLAIM), AGAIN)


def check_versions(folder: Path) -> Iterator[str]:
    """The packages of this environment are those that are pinned, the scorers too."""
    for file in REQUIREMENTS:
        for line in (folder / file).read_text(encoding="utf-8").splitlines():
            name, _, version = line.partition("==")
            if not version:
                continue
            try:
                found = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found = "missing"
            if found != version:
                yield f"{file}: {name} should be {version}, but is {found}"


def check_image(folder: Path, image: Image) -> Iterator[str]:
    """What Docker builds and starts is what image.json says, which verify starts."""
    for name, text in image.files().items():
        if (folder / name).read_text(encoding="utf-8") != text:
            yield f"{name}: is not what {IMAGE} says; pack again"
    if packed_mapping(folder / "server.yaml") != SERVER:
        yield f"server.yaml: is not what the image serves by, {SERVER}; pack again"
    if sorted(image.systems) != sorted(path.name for path in (folder / "systems").iterdir()):
        yield f"{IMAGE}: its systems are not those of the folder systems/; pack again"


def check_configuration(folder: Path, name: str, system: System) -> Iterator[str]:
    """Both judges' interfaces decode alike, and the folder has the system's name."""
    if packed_mapping(folder / "systems" / name / "decoding.yaml") != system.decoding:
        yield f"systems/{name}/decoding.yaml: is not the decoding of processor.yaml"
    if system.name != name:
        yield f"systems/{name}/{CLAIM}: is of the system {system.name}"


def recordings_of(folder: Path, given: Path) -> dict[str, Path]:
    """The development recordings, in their order, by their names, in the folder that was given.

    Raises SimulstError: one is missing, or is another one.
    """
    found = {}
    by_name: dict[str, list[Path]] = {}  # beside a film there may be its sound
    for file in sorted(given.rglob("*")):
        if file.suffix.lower() in SUFFIXES and file.is_file():
            by_name.setdefault(recording_name(file), []).append(file)
    for line in (folder / "development" / RECORDINGS).read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        name, _, digest = line.rpartition("\t")
        if name not in by_name:
            raise SimulstError(f"{given}: has no recording {name}; give the folder of the development recordings")
        same = next((file for file in by_name[name] if digest_of_audio(file) == digest), None)
        if same is None:
            raise SimulstError(f"{by_name[name][0]}: is not the recording that the logs are of")
        found[name] = same
    return found


def verify(folder: Path, given: Path, port: int, only: str | None, server: bool) -> Verdict:
    """Check everything. server: whether one is started; else one runs at the port."""
    verdict = Verdict()
    image = read_image(folder)
    names = [only] if only else image.systems
    verdict.attempt("versions of all packages", check_versions(folder))
    verdict.attempt("libraries of all packages", missing(image))
    verdict.attempt("image", check_image(folder, image))
    try:
        recordings = recordings_of(folder, given)
    except SimulstError as error:
        verdict.wrong(str(error))
        return verdict
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        wavs = as_wavs(recordings, work / "wav")
        for name in names:
            print(name, flush=True)
            place = folder / "systems" / name
            system = read_claim(place)
            before = verdict.problems
            verdict.attempt("configuration", check_configuration(folder, name, system))
            verdict.attempt("scores and regime", check_scores(folder, name, system))
            if agents := (place / AGENT_LOG).is_file():
                same = difference(place / LOG, place / AGENT_LOG, system.counted, AGENT_LOG, times=False)
                verdict.attempt("words of SimulEval's log", same)
            if verdict.problems > before:
                continue
            began, sent = time.monotonic(), list(wavs.values())
            judged = system, folder / "development", verdict
            try:
                again = _by_server(folder, image, name, system, sent, work, port, server)
                found = check_log(place / LOG, again, "the server", *judged)
                verdict.attempt("words and delays of simulstream's server", found)
                if agents:
                    again = run_simuleval(folder, image, name, sent, work, system.counted)
                    found = check_log(place / AGENT_LOG, again, "SimulEval's agent", *judged)
                    verdict.attempt("words and delays of SimulEval's agent", found)
            except SimulstError as error:
                verdict.wrong(str(error))
            print(f"        {time.monotonic() - began:.0f} s", flush=True)
    return verdict


def _by_server(
    folder: Path, image: Image, name: str, system: System, wavs: list[Path], work: Path, port: int, server: bool
) -> Path:
    proxy = work / "proxy.yaml"
    proxy.write_text(yaml_text({**packed_mapping(folder / CLIENT), "port": port}))
    log = work / f"{name}.jsonl"
    languages = system.source_lang, system.target_lang
    if not server:
        run_inference(folder, proxy, languages, wavs, log)
        return log
    own = work / "server.yaml"  # the Dockerfile's, but on loopback
    own.write_text(yaml_text({**packed_mapping(folder / "server.yaml"), "hostname": HOST, "port": port}))
    command = [str(own) if part == "server.yaml" else part for part in image.start(name)]
    with serving(folder, image, command, port, work / "server.out"):
        run_inference(folder, proxy, languages, wavs, log)
    return log


def main() -> None:
    """Exit with status 1 if something is not as claimed."""
    parser = argparse.ArgumentParser(prog="verify")
    parser.add_argument("folder", type=Path)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--system")
    parser.add_argument("--served", action="store_true", help="a server of the system runs at the port already")
    given = parser.parse_args()
    logging.disable(logging.INFO)  # the scorers' libraries tell what they do
    try:
        verdict = verify(given.folder.absolute(), given.recordings, given.port, given.system, not given.served)
    except SimulstError as error:
        sys.exit(f"error: {error}")
    if verdict.problems:
        sys.exit(f"{given.folder}: {counted(verdict.problems)}; the hand-in is not what it claims to be.")
    print(f"{given.folder}: all is as claimed{', up to rounding on another processor' * bool(verdict.others)}.")


if __name__ == "__main__":
    main()
