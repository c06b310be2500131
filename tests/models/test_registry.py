"""Families are found by their place in the package; there is no list of them."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import sounds
import tiny_whisper
from click.testing import CliRunner

import simulst.models
from simulst.commands.main import main
from simulst.errors import SimulstError
from simulst.models.registry import digest_of_weights, families, load_model, option_names, parse_options
from simulst.serve.simuleval import StreamAgent
from simulst.serve.simulstream import StreamProcessor


def test_families() -> None:
    assert list(families()) == ["cascade", "espnet", "huggingface", "whisper"]


def test_the_registry_names_no_family() -> None:
    folder = Path(simulst.models.__file__).parent
    for name in ("__init__.py", "registry.py", "base.py"):
        text = (folder / name).read_text().lower()
        assert not any(family in text.replace("simulst.models.espnet", "") for family in families()), name


class Named:
    """A model whose options are called as arguments of `load_model` are."""

    def __init__(self, path: str, cores: int) -> None:
        self.options = path, cores

    def session(self, opening: object) -> None: ...


def test_options_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "named", sys.modules[__name__])
    assert load_model("named:Named", 2, path="weights", cores=5).options == ("weights", 5)  # type: ignore[attr-defined]


def test_finding_families_loads_nothing_heavy() -> None:
    code = "import sys; from simulst.models.registry import families; families(); "
    heavy = ("torch", "ctranslate2", "tokenizers", "transformers", "espnet2")
    code += f"print([name for name in {heavy} if sys.modules.get(name)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("ask", [load_model, option_names, lambda path: digest_of_weights(path, {})])
def test_what_is_no_model(tmp_path: Path, ask: object) -> None:
    for path, words in (
        (tmp_path, r"not a model that simulst knows; give .*, or an ESPnet experiment.*, or a CTranslate2 Whisper"),
        (tmp_path / "gone", "no such model folder; fetch or train the model first"),
        ("nowhere:Model", r"cannot be imported .*check the path, and PYTHONPATH"),
        ("json:loads", "not a model; write a class like Model"),
        ("json:nothing", "cannot be imported"),
    ):
        with pytest.raises(SimulstError, match=words):
            ask(path)  # type: ignore[operator]


def test_options_from_the_command_line() -> None:
    assert parse_options(["a=1", "b=2.5", "c=int8", "d=true", "e=", "f=a=b"]) == {
        **{"a": 1, "b": 2.5, "c": "int8", "d": True, "e": None, "f": "a=b"},
    }
    for pair in ("a", "=1", "a=[1]", "a={b: 1}"):
        with pytest.raises(SimulstError, match="--model-option"):
            parse_options([pair])


BEFORE = {
    "translate": ["translate", "a.wav", "--model", "whisper"],
    "serve": ["serve", "--model", "whisper"],
    "evaluate": ["evaluate", "--data", ".", "--out", "out", "--model", "whisper"],
    "bench": ["bench", "--data", ".", "--model", "whisper"],
    "cascade": ["translate", "a.wav", "--model", "cascade.yaml"],
}


@pytest.fixture
def unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Whisper that must not be loaded, a cascade that has it, audio and a data directory."""
    monkeypatch.chdir(tmp_path)
    tiny_whisper.write(tmp_path / "whisper")
    monkeypatch.setattr("ctranslate2.models.Whisper", Mock(side_effect=SimulstError("the model is loaded")))
    Path("c.yaml").write_text("read: {type: chunk, ms: 500}\ncommit: {type: local_agreement}\n")
    Path("cascade.yaml").write_text(
        "recogniser: {model: whisper, decoding: c.yaml}\ntranslator: {type: server, url: http://a, model: m}\n"
    )
    sounds.write(tmp_path, {"a": np.zeros(64000)}, {"en": {"a": "b"}})


@pytest.mark.parametrize("wrong", ["xx", "fi"])
@pytest.mark.parametrize("command", [*BEFORE, "agent", "processor"])
def test_languages_are_looked_at_before_the_model_is_loaded(unloaded: None, command: str, wrong: str) -> None:
    """One that is none, and one that the model lacks."""
    if command in BEFORE:
        called = [*BEFORE[command], "--source-lang", wrong, "--target-lang", "en", "--decoding", "c.yaml"]
        found = CliRunner().invoke(main, called).exception
    else:
        values = {"model": "whisper", "decoding": "c.yaml", "source_lang": wrong, "target_lang": "en"}
        with pytest.raises((SimulstError, SystemExit)) as caught:
            if command == "agent":
                StreamAgent(Namespace(**values))
            StreamProcessor.load_model(SimpleNamespace(type="simulst.serve.simulstream.StreamProcessor", **values))
        found = caught.value
    assert f"'{wrong}'" in str(found)


def test_audio_is_looked_for_before_the_model_is_loaded(unloaded: None, caplog: pytest.LogCaptureFixture) -> None:
    options = ["--source-lang", "es", "--target-lang", "en", "--decoding", "c.yaml"]
    result = CliRunner().invoke(main, [*BEFORE["translate"], *options, "none.wav"])
    assert result.stderr.startswith("none.wav: no such audio file") and "is loaded" in str(result.exception)
    Path("wav.scp").write_text("a gone.wav\n")
    with caplog.at_level("WARNING"):
        result = CliRunner().invoke(main, [*BEFORE["evaluate"], *options])
    assert "gone.wav: no such audio file (1 in all)" in caplog.text and "is loaded" in str(result.exception)
