"""Families are found by their place in the package; there is no list of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simulst.models
from simulst.errors import SimulstError
from simulst.models import digest_of_weights, load_model, option_names
from simulst.models.registry import families, parse_options


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
