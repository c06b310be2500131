"""Models as one file: ESPnet's program packs them, and simulst and ESPnet can open them."""

from __future__ import annotations

import contextlib
import re
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tiny_espnet
from click.testing import CliRunner

from simulst.audio.units import SAMPLE_RATE
from simulst.commands.main import main
from simulst.errors import SimulstError
from simulst.models import load_model
from simulst.models.espnet.model import ESPnet

AUDIO = np.random.default_rng(0).normal(0, 0.1, 40000).astype(np.float32)
OPTIONS = ["--option", "data/bpe.model", "--option", "data/feats_stats.npz"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe's folder with a trained model, which also has a SentencePiece model that is not for its output."""
    folder = tmp_path_factory.mktemp("recipe")
    tiny_espnet.write(folder)
    (folder / "source").mkdir()
    (folder / "source/bpe.model").write_text("of another text")
    return folder


def pack(cwd: Path, out: Path, *options: str, experiment: str = "exp/st") -> None:
    """ESPnet's program, run in `cwd`."""
    from espnet2.bin import pack

    command = ["st", "--outpath", str(out), "--st_train_config", f"{experiment}/config.yaml"]
    with contextlib.chdir(cwd):
        pack.main([*command, "--st_model_file", f"{experiment}/valid.acc.ave.pth", *options])


@pytest.fixture(scope="module")
def packed(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the docs say: from the recipe's folder, with relative paths."""
    out = tmp_path_factory.mktemp("packed") / "model.zip"
    pack(recipe, out, "--option", "source/bpe.model", *OPTIONS)
    return out


def translated(model: Path, audio: Path) -> str:
    root = Path(__file__).parents[3]
    command = ["translate", str(audio), "--model", str(model), "--source-lang", "en", "--target-lang", "de"]
    command += ["--decoding", str(root / "conf/decode/ibwbs_hold6.yaml")]
    return CliRunner().invoke(main, command, catch_exceptions=False).stdout


def test_a_file_is_translated_by_a_packed_model(
    recipe: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    soundfile.write(tmp_path / "speech.wav", AUDIO, SAMPLE_RATE)
    text = translated(packed, tmp_path / "speech.wav")
    assert re.search(r"\d s  \w", text)
    assert text == translated(recipe / "exp/st", tmp_path / "speech.wav")


def test_packed_by_absolute_paths(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"{recipe / name}" for name in ("source/bpe.model", "data/bpe.model", "data/feats_stats.npz")]
    options = [word for file in files for word in ("--option", file)]
    pack(tmp_path, tmp_path / "model.zip", *options, experiment=f"{recipe}/exp/st")
    models = [load_model(path) for path in (tmp_path / "model.zip", recipe / "exp/st")]
    assert all(isinstance(model, ESPnet) for model in models)
    assert len({tuple(model.vocabulary.pieces.encode("der hund")) for model in models}) == 1  # type: ignore[attr-defined]


def test_what_the_packer_forgot(recipe: Path, tmp_path: Path) -> None:
    """Another file of the same name is not taken in its place."""
    pack(recipe, tmp_path / "model.zip", "--option", "source/bpe.model")
    with pytest.raises(SimulstError, match=r"model.zip: the zip does not contain data/bpe.model; pack the model with"):
        load_model(tmp_path / "model.zip")


def test_two_files_that_could_be_meant(recipe: Path, packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(tmp_path / "model.zip", "w") as new:
        for name in old.namelist():
            for place in ("one", "two") if name == "data/bpe.model" else ("",):
                new.writestr(str(Path(place) / name), old.read(name))
    with pytest.raises(
        SimulstError, match=r"bpe.model could be one/data/bpe.model or two/data/bpe.model; pack only one"
    ):
        load_model(tmp_path / "model.zip")


def test_an_unpacked_model(recipe: Path, packed: Path, tmp_path: Path) -> None:
    """As model hubs provide it: the content of the zip in a folder."""
    shutil.unpack_archive(packed, tmp_path / "hub")
    model = load_model(tmp_path / "hub/exp/st")
    assert isinstance(model, ESPnet) and model.vocabulary.pieces.encode("der hund", out_type=str)


def test_espnet_opens_it(packed: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from espnet2.bin.st_inference_streaming import Speech2TextStreaming
        from espnet2.main_funcs.pack_funcs import unpack

        files: dict[str, Any] = unpack(packed, tmp_path)
        results = Speech2TextStreaming(**files, beam_size=2, ctc_weight=0.0)(AUDIO, is_final=True)
    assert isinstance(results[0][0], str)
