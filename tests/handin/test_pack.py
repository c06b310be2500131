"""What `simulst pack` puts into a folder, and what it refuses."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import packages
import pytest
import small
import soundfile
import tiny_whisper
import yaml
from run_commands import sentence, simulst
from simulstream.client.wav_reader_client import read_wav_file

from simulst.audio.read import write_wav
from simulst.errors import SimulstError
from simulst.handin import needs, pack
from simulst.handin.agent import arguments_of
from simulst.handin.check import CLAIM, LOG, RECORDINGS
from simulst.handin.interface import as_wavs
from simulst.handin.licences import write_licences
from simulst.handin.needs import Needs
from simulst.handin.system import Placer
from simulst.handin.verify import faults_of_files
from simulst.machine.processor import kind
from simulst.machine.threads import available_cores

OPTIONS = {"compute_type": "float32", "threads": 1}


def write_whisper(folder: Path) -> Path:
    whisper = tiny_whisper.write(folder / "models" / "whisper v1.2", eos=7.0)
    (whisper / "LICENSE").write_text("MIT\n")
    return whisper


def packed(folder: Path, *choices: Path, out: str = "packed", more: Sequence[object] = ()) -> Path:
    status, _, error = simulst("pack", *choices, "--out", folder / out, "--contact", "a@b.c", *more)
    assert not status, error
    assert not faults_of_files(folder / out)
    return folder / out


def refused(folder: Path, *choices: Path, out: str = "packed", more: Sequence[object] = ()) -> str:
    before = set(folder.iterdir())
    status, _, error = simulst("pack", *choices, "--out", folder / out, "--contact", "a@b.c", *more)
    assert status == 1
    assert {path for path in folder.iterdir() if path.name != f"{out}.work"} == before
    return sentence(error)


def processor(folder: Path, name: str) -> dict:
    return yaml.safe_load((folder / "systems" / name / "processor.yaml").read_text())


def test_two_regimes_of_one_model(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are there once, linked; names have points and spaces; paths are relative to another folder."""
    small.write_recordings(tmp_path, names=("2022.acl long.268", "talk 1"))
    whisper = write_whisper(tmp_path)
    slow = {**small.LA2, "commit": {"type": "all"}}
    monkeypatch.chdir(tmp_path / "data")
    choices = [
        small.chosen(Path(".."), "fast", Path("../models/whisper v1.2"), "0-80000", OPTIONS),
        small.chosen(Path(".."), "slow", Path("../models/whisper v1.2"), "0-90000", OPTIONS, slow),
    ]
    monkeypatch.chdir(tmp_path / "models")
    folder = packed(Path(".."), *[Path("..", "data", choice) for choice in choices])
    assert decoded == ["es-en_0-80000", "es-en_0-90000"]
    assert {processor(folder, name)["model"] for name in decoded} == {"models/whisper v1.2"}
    [weights] = folder.rglob("model.bin")
    size = (whisper / "model.bin").stat().st_size
    assert os.path.samefile(weights, whisper / "model.bin") == (size >= 1 << 20)
    assert (folder / "licences" / "models" / "1-whisper v1.2-LICENSE").read_text() == "MIT\n"
    names = [line.partition("\t")[0] for line in (folder / "development" / RECORDINGS).read_text().splitlines()]
    assert names == ["2022.acl long.268", "talk 1"]
    claim = yaml.safe_load((folder / "systems" / decoded[0] / CLAIM).read_text())
    assert (claim["threads"], claim["processor"]) == (available_cores(), kind())
    client = "--speech-processor-config client.yaml --wav-list-file wavs.txt --src-lang es --tgt-lang en"
    assert client in (folder / "README.md").read_text()
    log = (folder / "systems" / decoded[0] / LOG).read_text()
    assert '"wav_name": "2022.acl long.268.wav"' in log


POLICY = """
from dataclasses import dataclass
from own_helper import CUT
from simulst.policy.commit import All

@dataclass(frozen=True)
class Mine(All):
    label = "mine"
    words: str = ""

    @property
    def files(self):
        return (self.words,)
"""
MODEL = """
from fake import FakeModel

class Mine(FakeModel):
    def __init__(self, weights: str, log: str = "") -> None:
        with open(weights) as file:
            super().__init__(seed=int(file.read()))
"""


def test_own_code(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy with what it imports and reads; a model with an option that is a file. A package offers both.

    What the folder needs is found in a process that knows the package by the folder alone.
    """
    modules = {"own_policy": POLICY, "own_helper": "CUT = 1\n", "own_model": MODEL}
    offers = {"commit.mine": "own_policy:Mine", "model.mine": "own_model:Mine", "read.mine": "gone:Mine"}
    code = packages.install(tmp_path, "own-code", modules, offers, monkeypatch)
    (code / "seed.txt").write_text("7")
    (code / "words.txt").write_text("the\n")
    small.write_recordings(tmp_path)
    decoding = {**small.LA2, "commit": {"type": "mine", "words": str(code / "words.txt")}}
    choice = small.chosen(tmp_path, "own", "mine", "0-90000", {"weights": code / "seed.txt"}, decoding)
    folder = packed(tmp_path, choice)
    content = processor(folder, "es-en_0-90000")
    assert content["model"] == "own_model:Mine" and content["decoding"]["commit"]["type"] == "mine"
    assert (folder / content["model_options"]["weights"]).read_text() == "7"
    assert str(tmp_path) not in (folder / "systems" / "es-en_0-90000" / CLAIM).read_text()
    assert (folder / content["decoding"]["commit"]["words"]).read_text() == "the\n"
    assert {file.name for file in (folder / "own").iterdir()} >= {"own_policy.py", "own_helper.py", "own_model.py"}
    offered = set((folder / "own" / "own_code-1.0.dist-info" / "entry_points.txt").read_text().splitlines())
    assert offered == {"[simulst]", "commit.mine = own_policy:Mine", "model.mine = own_model:Mine"}


TRANSLATOR = """
from dataclasses import dataclass
from pathlib import Path
from simulst.calls import Turns
from simulst.models.cascade.settings import beside
from simulst.models.cascade.translators import PlainTranslation, Translator

@dataclass(frozen=True)
class Mine(Translator):
    words: str

    def load(self, path, cores):
        return lambda opening: Words(opening.target, Turns(1))

    def files(self, path):
        return (Path(beside(path, self.words)),)

class Words(PlainTranslation):
    def translate(self, sentence, begin, past=()):
        return "the cat sat", False
"""


def test_a_cascade(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a translator of one's own reads is beside the cascade's file; its module is packed, too."""
    small.write_recordings(tmp_path)
    write_whisper(tmp_path)
    (tmp_path / "models" / "words.txt").write_text("the la\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_translator.py").write_text(TRANSLATOR)
    recogniser = {"model": "whisper v1.2", "options": OPTIONS, "decoding": small.LA2}
    translator = {"type": "own_translator:Mine", "words": "words.txt"}
    cascade = tmp_path / "models" / "cascade.yaml"
    cascade.write_text(yaml.safe_dump({"recogniser": recogniser, "translator": translator}))
    choice = small.chosen(tmp_path, "cascade", cascade, "0-90000", decoding={**small.LA2, "commit": {"type": "all"}})
    folder = packed(tmp_path, choice)
    model = folder / processor(folder, "es-en_0-90000")["model"]
    assert (model.parent / "words.txt").is_file() and (model.parent / "whisper v1.2" / "model.bin").is_file()
    assert (folder / "own" / "own_translator.py").is_file()
    translator["words"] = str(tmp_path / "models" / "words.txt")
    cascade.write_text(yaml.safe_dump({"recogniser": recogniser, "translator": translator}))
    assert "by an absolute path" in refused(tmp_path, choice, out="other")


def test_context(tmp_path: Path, decoded: list[str]) -> None:
    """simulstream tells no names: a recording's line is found by its audio."""
    small.write_recordings(tmp_path)
    choice = small.chosen(tmp_path, "fake", small.FAKE, "0-90000")
    table = tmp_path / "context.tsv"
    table.write_text(f"recording\tterms\n{small.NAMES[0]}\thaz=beam\n*\tMadrid\n")
    folder = packed(tmp_path, choice, more=["--context", table])
    content = processor(folder, "es-en_0-90000")
    assert content["context_by"] == "audio"
    lines = [line.split("\t") for line in (folder / content["context"]).read_text().splitlines()]
    assert [(line[0], bool(line[1])) for line in lines[1:]] == [(small.NAMES[0], True), ("*", False)]
    assert "can't tell recordings apart" in refused(
        tmp_path, choice, out="other", more=["--context", table, "--simuleval"]
    )
    table.write_text("recording\tterms\ntalk9\thaz=beam\n")
    assert "talk9 is no development recording" in refused(tmp_path, choice, out="other", more=["--context", table])
    table.write_text("recording\tterms\n*\tMadrid\n")
    folder = packed(tmp_path, choice, out="all", more=["--context", table])
    assert processor(folder, "es-en_0-90000")["context_by"] == "all"


def test_interrupted_and_again(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decoded is not decoded again, unless the packages or the recordings are others."""
    data = small.write_recordings(tmp_path)
    choices = [
        small.chosen(tmp_path, "fast", small.FAKE, "0-80000"),
        small.chosen(tmp_path, "slow", small.FAKE, "0-90000", {"seed": 1}),
    ]
    run = pack.run_inference

    def interrupted(folder: Path, file: Path, *more: object) -> None:
        if file.parent.name.endswith("0-90000"):
            raise KeyboardInterrupt
        run(folder, file, *more)

    for version in ("1", "1", "2"):
        with monkeypatch.context() as patch:
            patch.setattr(pack, "needs_of", lambda *_, version=version: Needs((f"numpy=={version}",), ("numpy",)))
            patch.setattr(pack, "run_inference", interrupted)
            before = set(tmp_path.iterdir()) | {tmp_path / "packed.work"}
            status, _, _ = simulst("pack", *choices, "--out", tmp_path / "packed", "--contact", "a@b.c")
        assert status and set(tmp_path.iterdir()) == before
    assert decoded == ["es-en_0-80000"] * 2
    shutil.copy(data / f"{small.NAMES[0]}.wav", data / f"{small.NAMES[1]}.wav")
    packed(tmp_path, *choices)
    assert decoded == [*["es-en_0-80000"] * 3, "es-en_0-90000"]


def test_licences_of_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are kept, of parts with the same name, too; modules are no licences."""
    files = {
        "two_parts-1.dist-info/METADATA": "Metadata-Version: 2.4\nName: two-parts\nVersion: 1\nLicense: MIT\n",
        "two_parts-1.dist-info/licenses/LICENSE": "its own",
        "two_parts-1.dist-info/licenses/inner/LICENSE": "of a part",
        "two_parts-1.dist-info/licenses/AUTHORS": "people",
        "two_parts/data/COPYING": "of a library inside",
        "two_parts/license.py": "",
    }
    for name, text in files.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    (tmp_path / "site" / "two_parts-1.dist-info" / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    monkeypatch.syspath_prepend(tmp_path / "site")
    write_licences(tmp_path, [], Needs(("two-parts==1",), ()))
    place = tmp_path / "licences" / "two-parts"
    found = {str(file.relative_to(place)): file.read_text() for file in place.rglob("*") if file.is_file()}
    assert found == {
        "licenses/LICENSE": "its own",
        "licenses/inner/LICENSE": "of a part",
        "licenses/AUTHORS": "people",
        "two_parts/data/COPYING": "of a library inside",
    }
    assert (tmp_path / "licences" / "packages.tsv").read_text() == "two-parts==1\tMIT\n"


def test_a_folder_that_is_there(tmp_path: Path, decoded: list[str]) -> None:
    """--force replaces a hand-in, nothing else."""
    small.write_recordings(tmp_path)
    choice = small.chosen(tmp_path, "fake", small.FAKE, "0-90000")
    folder = packed(tmp_path, choice)
    assert refused(tmp_path, choice).endswith("is there already; name another folder, or give --force.")
    (folder / "more").touch()
    assert not simulst("pack", choice, "--out", folder, "--contact", "a@b.c", "--force")[0]
    assert not (folder / "more").exists()
    told = refused(tmp_path, choice, out="data", more=["--force"])
    assert "is no folder that simulst pack made" in told and (tmp_path / "data" / "wav.scp").is_file()


def test_refused(tmp_path: Path, decoded: list[str]) -> None:
    """One sentence, and nothing is written."""
    small.write_recordings(tmp_path)
    whisper = write_whisper(tmp_path)
    (whisper / "LICENSE").unlink()
    choice = small.chosen(tmp_path, "whisper", whisper, "0-90000", OPTIONS)
    assert "has no licence file; put its LICENSE there" in refused(tmp_path, choice)
    assert "no such file; give the model's licence" in refused(tmp_path, choice, more=["--licence", tmp_path / "no"])
    (whisper / "COPYING.txt").touch()
    assert "two choices are of one direction and regime" in refused(tmp_path, choice, choice)
    assert refused(tmp_path, choice, more=["--contact", " "]).startswith("--contact is empty; say who answers")
    content = yaml.safe_load(choice.read_text())
    other = tmp_path / "other.yaml"
    for values, told in [
        ({"regime": [9, 1]}, "'regime' is no range of lags"),
        ({"segmentation": None}, "names no segmentation"),
        ({"references": str(tmp_path / "gone")}, "which is not there; choose again"),
        ({"model": str(tmp_path / "gone")}, "gone: no such model folder"),
        ({"decoding": {"read": {"type": "no"}}}, "its decoding: the key 'commit' is missing"),
        ({"run": str(tmp_path / "gone")}, "gone"),
    ]:
        other.write_text(yaml.safe_dump({**content, **values}))
        assert told in refused(tmp_path, other)
        assert not (tmp_path / "packed.work").exists()
    other.write_text("- 1\n")
    assert "give a file that simulst choose --out wrote" in refused(tmp_path, other)
    references = tmp_path / "others.en"
    references.write_text("a\nb\nc\nd\n")
    other.write_text(yaml.safe_dump({**content, "regime": [0, 80000], "references": str(references)}))
    assert "of different recordings or references" in refused(tmp_path, choice, other)
    other.write_text(yaml.safe_dump({**content, "regime": [0, 10]}))
    assert "which does not prove the regime of 0 to 10 ms; choose another" in refused(tmp_path, other)


def test_a_linked_file_is_a_large_one(tmp_path: Path) -> None:
    """An editor writes into small ones in place."""
    for name, size in (("large", 1 << 20), ("small", 10)):
        (tmp_path / name).write_bytes(b"0" * size)
        Placer(tmp_path / "out").file(tmp_path / name, Path(name))
        assert os.path.samefile(tmp_path / name, tmp_path / "out" / name) == (name == "large")


def test_all_samples_are_sent(tmp_path: Path) -> None:
    """Python's `wave`, by which simulstream reads, stops where a stale header says, and knows no extensible one."""
    samples = np.random.default_rng(1).integers(-9000, 9000, 24000, dtype=np.int16)
    plain, stale, extensible = (tmp_path / f"{name}.wav" for name in ("plain", "stale", "extensible"))
    for path in (plain, stale):
        write_wav(path, samples)
    content = bytearray(stale.read_bytes())
    content[40:44] = (16000).to_bytes(4, "little")  # a third of the bytes that follow
    stale.write_bytes(content)
    soundfile.write(extensible, samples, 16000, format="WAVEX", subtype="PCM_16")
    sent = as_wavs({path.stem: path for path in (plain, stale, extensible)}, tmp_path / "sent")
    for name, path in sent.items():
        rate, read = read_wav_file(str(path))
        assert rate == 16000 and np.array_equal(read, samples), name
    assert sent["plain"].is_symlink() and not sent["stale"].is_symlink()


@pytest.mark.parametrize(
    ("target", "unit", "counted"), [("en", "", "word"), ("zh", "", "char"), ("en", "char", "char")]
)
def test_simulevals_agent_is_told_the_unit(tmp_path: Path, target: str, unit: str, counted: str) -> None:
    content = {"model": "m", "source_lang": "es", "target_lang": target} | ({"unit": unit} if unit else {})
    (tmp_path / "processor.yaml").write_text(yaml.safe_dump(content))
    found = arguments_of(tmp_path)
    assert found[found.index("--eval-latency-unit") + 1] == counted


def test_torch_is_packed_only_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes the same without torch does not get it."""
    heavy, lean = Needs(("numpy==1", "torch==2"), ("numpy", "torch")), Needs(("numpy==1",), ("numpy",))

    def needed(words: dict[str, list[str]]) -> Needs:
        def tried(folder: Path, arguments: Sequence[str]) -> tuple[Needs, list[str]]:
            if arguments[0] not in words:
                raise SimulstError("no torch")
            return lean if arguments[0] == "serve-without-torch" else heavy, words[arguments[0]]

        monkeypatch.setattr(needs, "_tried", tried)
        return needs.needs_of(tmp_path, ["a"], tmp_path / "a.wav", "cpu")

    assert needed({"serve": ["a"], "serve-without-torch": ["a"]}) == lean
    assert needed({"serve": ["a"], "serve-without-torch": ["b"]}) == heavy
    assert needed({"serve": ["a"]}) == heavy


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_nvidias_packages_are_packed_with_a_torch_for_gpus(cuda: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its build for CPUs wants none; pip finds it at an index of its own."""
    found = [SimpleNamespace(metadata={"Name": name}) for name in ("torch", "nvidia-cublas")]
    monkeypatch.setattr(needs.sys, "modules", {"torch": SimpleNamespace(version=SimpleNamespace(cuda=cuda))})
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: {"torch": ["torch"]})
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: found)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1")
    packages, _ = needs._imported()
    assert packages == (["nvidia-cublas==1", "torch==1"] if cuda else ["torch==1"])


def test_requirements_of_a_torch_for_cpus(tmp_path: Path) -> None:
    gpu = "nvidia-cublas==1"
    for package, device, first in (
        ("torch==2+cpu", "cpu", "--extra-index-url https://download.pytorch.org/whl/cpu\n"),
        ("torch==2", "cpu", ""),
        (gpu, "cuda", ""),
        (gpu, "cpu", f"# {pack._remark(Needs((gpu,), ()), 'cpu')}\n"),
    ):
        packages = Needs((package,), ())
        pack._write_requirements(tmp_path / "requirements.txt", packages, pack._remark(packages, device))
        assert (tmp_path / "requirements.txt").read_text() == f"{first}{package}\n"
    assert "NVIDIA's packages, too; install torch's build for CPUs" in first


def test_a_gpu_has_one_cudnn() -> None:
    """That of torch and that of CTranslate2 would be the same files."""
    alone = Needs(("ctranslate2==4",), ("ctranslate2",))
    both = Needs(("ctranslate2==4", "nvidia-cudnn-cu13==9", "torch==2"), ("ctranslate2", "torch"))
    assert needs._for_ctranslate2(alone, "cuda") == (needs.CUBLAS, needs.CUDNN)
    assert needs._for_ctranslate2(both, "cuda") == (needs.CUBLAS,)
    assert needs._for_ctranslate2(both, "cpu") == needs._for_ctranslate2(Needs((), ()), "cuda") == ()
