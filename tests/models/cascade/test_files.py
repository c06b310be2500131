"""The files that a model is made of are those that loading reads, as the file system saw it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import speaker
import tiny_espnet
import tiny_huggingface
import tiny_whisper
import transformers
import yaml
from waiting import opened_in

from simulst.errors import SimulstError
from simulst.models.registry import digest_of_part, digest_of_weights, files_of_model, files_of_part, load_model

OTHER = ("README.md", "model.fp32.safetensors", "model.fp32.safetensors.index.json", "made_of.json", "old.pth", "a.py")
"""Files that lie beside models and are no part of them."""


def cascade(translator: str, model: Callable[[Path], Path], **options: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        named = {name: str(folder / value) for name, value in options.items()}
        return speaker.write(folder, {"type": translator, "model": str(model(folder)), **named}, "a cat")

    return write


def converted(folder: Path, **options: str) -> Path:
    original = tiny_huggingface.write_text_model(folder / "original", "marian", pad_last=True)
    files = () if options else ("tokenizer.json", "tokenizer_config.json")
    return tiny_huggingface.to_ctranslate2(original, folder / "model", files)


def experiment(folder: Path) -> Path:
    tiny_espnet.write(folder, "contextual_block_conformer", 0)
    (folder / "exp/st/search.yaml").write_text("ctc_weight: 0.1\n")
    return folder / "exp/st"


def with_a_decoding_file(folder: Path) -> Path:
    """A recogniser of ESPnet's under a configuration in a file, and a translator of one's own."""
    (folder / "inner.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: all}\n")
    recogniser = {"model": str(experiment(folder)), "decoding": "inner.yaml"}
    translator = {"type": "program:Program", "command": "cat"}
    path = folder / "cascade.yaml"
    path.write_text(yaml.safe_dump({"recogniser": recogniser, "translator": translator}))
    return path


MODELS: dict[str, Callable[[Path], Path]] = {
    "espnet": experiment,
    "whisper": lambda folder: tiny_whisper.write(folder / "model", eos=6),
    "hf-whisper": lambda folder: tiny_huggingface.write(folder / "model", "whisper"),
    "hf-mbart": lambda folder: tiny_huggingface.write(folder / "model", "mbart"),
    "hf-speech_to_text": lambda folder: tiny_huggingface.write(folder / "model", "speech_to_text"),
    "hf-seamless": lambda folder: tiny_huggingface.write(folder / "model", "seamless"),
    "hf-canary": lambda folder: tiny_huggingface.write(folder / "model", "canary"),
    "text": cascade("huggingface", lambda folder: tiny_huggingface.write_text_model(folder / "model", "m2m")),
    "llm": cascade("llm", lambda folder: tiny_huggingface.write_language_model(folder / "model", "llama")),
    "ctranslate2": cascade("ctranslate2", converted),
    "tokenizer": cascade("ctranslate2", lambda folder: converted(folder, tokenizer="x"), tokenizer="original"),
    "own": with_a_decoding_file,
}


@pytest.mark.parametrize("kind", MODELS)
def test_loading_reads_these_files(kind: str, tmp_path: Path) -> None:
    path = MODELS[kind](tmp_path)
    for folder in {path.parent, *(file.parent for file in files_of_model(path, {}))}:
        for name in OTHER if tmp_path in (folder, *folder.parents) else ():
            if not (folder / name).exists():
                (folder / name).write_text("{}")
    with opened_in(tmp_path) as opened:
        load_model(path)
    found = files_of_model(path, {})
    assert len(found) == len(set(found))
    here = {file.resolve() for file in found if tmp_path in file.parents}
    assert here == {file.resolve() for file in opened if file.is_file()}
    digest = digest_of_weights(path, {})
    for file in here:
        before = file.read_bytes()
        with file.open("ab") as changed:
            changed.write(b" ")
        assert digest_of_weights(path, {}) != digest, file
        file.write_bytes(before)
    assert digest_of_weights(path, {}) == digest


def test_a_packed_experiment_is_its_zip(tmp_path: Path) -> None:
    from espnet2.main_funcs.pack_funcs import pack

    path = experiment(tmp_path)
    config = {"st_train_config": path / "config.yaml"}
    pack({"st_model_file": path / "valid.acc.ave.pth"}, config, tmp_path / "packed.zip")
    assert files_of_model(tmp_path / "packed.zip", {}) == (tmp_path / "packed.zip",)


def test_shards(tmp_path: Path) -> None:
    """Weights in several files are those of their index."""
    path = tiny_huggingface.write(tmp_path / "model", "whisper")
    model = transformers.WhisperForConditionalGeneration.from_pretrained(path)
    model.save_pretrained(path, max_shard_size="20KB")
    (path / "model.safetensors").unlink(missing_ok=True)
    with opened_in(tmp_path) as opened:
        load_model(path)
    weights = [file.name for file in files_of_model(path, {}) if "model" in file.name]
    assert len(weights) > 2 and weights[-1] == "model.safetensors.index.json"
    assert set(files_of_model(path, {})) == {file for file in opened if file.is_file()}
    (path / weights[-1]).write_text("[]")
    with pytest.raises(SimulstError, match="not an index of weights"):
        files_of_model(path, {})


def test_code_is_part_of_a_model_that_may_run_it(tmp_path: Path) -> None:
    path = tiny_huggingface.write(tmp_path / "model", "mbart")
    (path / "modeling.py").write_text("")
    assert path / "modeling.py" not in files_of_model(path, {})
    assert path / "modeling.py" in files_of_model(path, {"trust_remote_code": True})


def test_the_policy_of_a_recogniser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file, what it imports, and what it reads."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "heard_policy.py").write_text(
        "from dataclasses import dataclass\nfrom heard_helper import CUT\nfrom simulst.policy.commit import Commit\n"
        "@dataclass(frozen=True)\nclass Mine(Commit):\n    label = 'mine'\n    files = ('own_data.txt',)\n"
        "    def stable(self, beams): return beams[-1][0].tokens[:CUT]\n"
    )
    (tmp_path / "heard_helper.py").write_text("CUT = 1\n")
    monkeypatch.chdir(tmp_path)
    Path("own_data.txt").write_text("1")
    decoding = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "heard_policy:Mine"}}
    recogniser = {"model": str(experiment(tmp_path)), "decoding": decoding}
    path = tmp_path / "cascade.yaml"
    translator = {"type": "program:Program", "command": "cat"}
    path.write_text(yaml.safe_dump({"recogniser": recogniser, "translator": translator}))
    known = {digest_of_weights(path, {})}
    for name in ("heard_policy.py", "heard_helper.py", "own_data.txt"):
        with Path(name).open("a") as file:
            file.write("\n")
        known.add(digest_of_weights(path, {}))
    assert len(known) == 4
    del sys.modules["heard_policy"], sys.modules["heard_helper"]


def test_heard_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their modules are known; a module's classes are told apart."""
    monkeypatch.syspath_prepend(tmp_path)
    text = "class A:\n    sample_rate = 16000\n    def session(self, opening): ...\nclass B(A): ...\n"
    (tmp_path / "heard_model.py").write_text(text)
    (tmp_path / "heard_door.py").write_text("from heard_model import A, B\n")
    assert files_of_model("heard_model:A", {}) == (tmp_path / "heard_model.py",)
    assert files_of_model("heard_door:A", {}) == (tmp_path / "heard_door.py", tmp_path / "heard_model.py")
    digests = {digest_of_weights(path, {}) for path in ("heard_model:A", "heard_model:B", "heard_door:A")}
    assert len(digests) == 3
    del sys.modules["heard_model"], sys.modules["heard_door"]


def test_what_a_policy_reads(tmp_path: Path) -> None:
    path = experiment(tmp_path)
    assert files_of_part(path) == files_of_model(path, {})
    assert digest_of_part(path) == digest_of_weights(path, {})
    file = tmp_path / "predictor.pth"
    file.write_bytes(b"1")
    assert files_of_part(file) == (file,)
    before = digest_of_part(file)
    file.write_bytes(b"22")
    assert digest_of_part(file) != before
    with pytest.raises(SimulstError, match="gone: cannot be read"):
        digest_of_part(tmp_path / "gone")


WITHOUT_TORCH = """
import sys
from pathlib import Path
sys.modules["torch"] = None
from simulst.models.cascade.loading import read_translator
from simulst.opening import Opening
path = Path("cascade.yaml")
read_translator(path, {"type": "ctranslate2", "model": sys.argv[1]}).load(path, 1)(Opening("en", "de"))
"""


@pytest.mark.long
def test_translators_without_torch(tmp_path: Path) -> None:
    """CTranslate2 needs no torch, so a hand-in need not have it."""
    folder = converted(tmp_path)
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
