"""The door: every kind of thing that users bring, by each of its spellings, and what is told where it fails."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import packages
import pytest
import speaker
import tiny_huggingface
import yaml

from simulst import find
from simulst.config import TYPES, parse_decoding
from simulst.errors import SimulstError
from simulst.measure.metric import KNOWN, find_metrics
from simulst.models.cascade.loading import RECOGNISERS, TRANSLATORS
from simulst.models.huggingface.architectures import ARCHITECTURES
from simulst.models.registry import _built_in, digest_of_weights, families, files_of_model, load_model
from simulst.streams import open_stream

POLICY = """
    from dataclasses import dataclass
    from brought_helper import SIZE
    from simulst.policy.{kind} import {base}

    @dataclass(frozen=True)
    class Mine({base}):
        n: int = SIZE
        label = "mine"
"""
TRANSLATOR = """
    from dataclasses import dataclass
    from brought_helper import SIZE
    from simulst.calls import Turns
    from simulst.models.cascade.translators import PlainTranslation, Translator

    @dataclass(frozen=True)
    class Mine(Translator):
        def load(self, path, cores):
            return lambda opening: Backwards(opening.target, Turns(1))

    class Backwards(PlainTranslation):
        def translate(self, sentence, begin, past=()):
            return " ".join(word[::-1] for word in sentence.split()), False
"""
RECOGNISER = """
    from dataclasses import dataclass
    from brought_helper import SIZE
    from simulst.config import parse_decoding
    from simulst.models import load_model
    from simulst.models.cascade.recognisers import Recogniser

    @dataclass(frozen=True)
    class Mine(Recogniser):
        say: str = "a cat"

        def load(self, path, cores):
            return load_model("speaker:Speaker", say=self.say, unsure=0)

        def policies(self, path):
            return parse_decoding({"read": {"type": "chunk", "ms": 200}, "commit": {"type": "all"}}, str(path))
"""
ARCHITECTURE = """
    from brought_helper import SIZE
    from simulst.models.huggingface.architectures import Whisper

    class Mine(Whisper):
        pass
"""
MODEL = """
    from brought_helper import SIZE
    from fake import FakeModel

    class Mine(FakeModel):
        pass
"""
FAMILY = """
    from dataclasses import dataclass
    from brought_helper import SIZE
    from fake import FakeModel
    from simulst.models.base import Family

    @dataclass(frozen=True)
    class Options:
        seed: int = 0

    class Loaded(FakeModel):
        pass

    Mine = Family("a file *.mine", lambda path: path.suffix == ".mine", Options,
                  lambda path, options, cores: Loaded(seed=options.seed), lambda path, options: (path,))
"""
METRIC = """
    from brought_helper import SIZE
    from simulst.measure import Metric

    Mine = Metric("mine", "lower", digits=SIZE, segments=len)
"""


@dataclass(frozen=True)
class Kind:
    """code: of a module with `Mine`. ours: simulst's own. use: opens `Mine` by a name, and returns what it is."""

    code: str
    ours: Any
    use: Callable[[Path, str], Any]


def policy(key: str) -> Callable[[Path, str], Any]:
    def use(folder: Path, name: str) -> Any:
        parts = {"read": {"type": "chunk", "ms": 500}, "commit": {"type": "all"}}
        decoding = parse_decoding({**parts, key: {"type": name}}, "c.yaml")
        assert decoding.code.keys() == {"brought", "brought_helper"}, "a resumed run would not notice changed code"
        return getattr(decoding, key)

    return use


def noticed(path: Path | str, options: dict[str, Any]) -> None:
    """The model's digest follows the code that was brought."""
    before = digest_of_weights(path, options)
    for name in ("brought", "brought_helper"):
        file = Path(str(sys.modules[name].__file__))
        assert file in files_of_model(path, options)
        file.write_text(file.read_text() + "# changed\n")
        assert digest_of_weights(path, options) != before
        before = digest_of_weights(path, options)


def part_of_a_cascade(kind: str, text: str) -> Callable[[Path, str], Any]:
    def use(folder: Path, name: str) -> Any:
        path = speaker.write(folder, {"type": "program:Program", "command": "cat"}, "a cat")
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**content, kind: {"type": name}}))
        stream = open_stream(load_model(path), parse_decoding(LATE, "here"), "en", "de")
        stream.push(speaker.audio("a cat"), finished=True)
        assert stream.committed_text.strip() == text
        noticed(path, {})
        return sys.modules["brought"].Mine

    return use


LATE = {"read": {"type": "offline"}, "commit": {"type": "all"}}


def architecture(folder: Path, name: str) -> Any:
    path = tiny_huggingface.write(folder / "whisper", "whisper")
    options = {"architecture": name, "threads": 1}
    model: Any = load_model(path, **options)
    noticed(path, options)
    return model.architecture


def own_model(folder: Path, name: str) -> Any:
    model = load_model(name)
    noticed(name, {})
    return model


def family(folder: Path, name: str) -> Any:
    """It is found by its files, and its name is only told in errors."""
    (folder / "a.mine").write_text("1")
    model = load_model(folder / "a.mine", seed=3)
    noticed(folder / "a.mine", {})
    return model


def metric(folder: Path, name: str) -> Any:
    [found] = find_metrics([name])
    assert (found.key, found.path) == ("mine", name)
    return sys.modules["brought"].Mine


BASES = {"read": "Offline", "stop": "EndOfSentence", "commit": "All", "segment": "Whole", "late": "Wait"}
KINDS = {
    **{key: Kind(POLICY.format(kind=key, base=base), TYPES[key], policy(key)) for key, base in BASES.items()},
    "search": Kind(
        POLICY.format(kind="read", base="Offline")
        .replace("policy.read import Offline", "search import BeamSearch")
        .replace("(Offline)", "(BeamSearch)"),
        TYPES["search"],
        policy("search"),
    ),
    "translator": Kind(TRANSLATOR, TRANSLATORS, part_of_a_cascade("translator", "a tac")),
    "recogniser": Kind(RECOGNISER, RECOGNISERS, part_of_a_cascade("recogniser", "a cat")),
    "architecture": Kind(ARCHITECTURE, ARCHITECTURES, architecture),
    "model": Kind(MODEL, {}, own_model),
    "family": Kind(FAMILY, {}, family),
    "metric": Kind(METRIC, KNOWN, metric),
}
BY_NAME = [kind for kind in KINDS if kind != "family"]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in ("brought", "brought_helper", "other"):
        sys.modules.pop(name, None)


def brought(folder: Path, kind: str, patch: pytest.MonkeyPatch, offers: dict[str, str] | None = None) -> Path:
    """A package `bringer` with a module `brought`, in which `Mine` is."""
    modules = {"brought": KINDS[kind].code, "brought_helper": "SIZE = 1\n"}
    return packages.install(folder, "bringer", modules, offers or {}, patch)


def test_kinds() -> None:
    assert set(KINDS) == set(find.KINDS) >= set(TYPES)


@pytest.mark.parametrize("kind", BY_NAME)
def test_by_module_and_name(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(tmp_path, kind, monkeypatch)
    found = KINDS[kind].use(tmp_path, "brought:Mine")
    mine = sys.modules["brought"].Mine
    assert found is mine or isinstance(found, mine)


@pytest.mark.parametrize("kind", KINDS)
def test_by_a_packages_name(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(tmp_path, kind, monkeypatch, {f"{kind}.mine": "brought:Mine"})
    found = KINDS[kind].use(tmp_path, "mine")
    module = sys.modules["brought"]
    assert found is module.Mine or isinstance(found, module.Loaded if kind == "family" else module.Mine)


@pytest.mark.parametrize("kind", [kind for kind in BY_NAME if KINDS[kind].ours])
def test_twice(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours and a package's; then two packages'. Both are named, and the others go on."""
    taken = next(iter(KINDS[kind].ours))
    brought(tmp_path, kind, monkeypatch, {f"{kind}.{taken}": "brought:Mine", f"{kind}.mine": "brought:Mine"})
    with pytest.raises(SimulstError) as told:
        find.find(kind, taken, KINDS[kind].ours, "here")
    assert str(told.value).startswith(f"here: the {kind} '{taken}' stands 2 times, in simulst")
    assert "bringer 1.0 (brought:Mine); write the one that you mean as module:Name" in str(told.value)
    packages.install(tmp_path, "other", {}, {f"{kind}.mine": "brought:Mine"}, monkeypatch)
    with pytest.raises(SimulstError, match=r"in other 1.0 \(brought:Mine\) and in bringer 1.0 \(brought:Mine\)"):
        find.find(kind, "mine", KINDS[kind].ours, "here")
    for name in [*KINDS[kind].ours][1:]:
        find.find(kind, name, KINDS[kind].ours, "here")


@pytest.mark.parametrize("kind", BY_NAME)
def test_missing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(tmp_path, kind, monkeypatch, {f"{kind}.mine": "brought:Mine"})
    known = ", ".join([*KINDS[kind].ours, "mine"])
    with pytest.raises(SimulstError) as told:
        find.find(kind, "nothing", KINDS[kind].ours, "here")
    assert (
        str(told.value) == f"here: there is no {kind} 'nothing'; choose from {known}, or name your own as module:Name."
    )
    for name, words in {
        "brought.Mine": f"here: the {kind} 'brought.Mine' is written with a colon, as 'brought:Mine'.",
        "brought:Gone": f"here: the {kind} 'brought:Gone' cannot be imported (brought has no Gone); check the path",
        "gone:Mine": f"here: the {kind} 'gone:Mine' cannot be imported (ModuleNotFoundError: No module named 'gone')",
    }.items():
        with pytest.raises(SimulstError) as told:
            find.find(kind, name, KINDS[kind].ours, "here")
        assert str(told.value).startswith(words)


@pytest.mark.parametrize("kind", ["commit", "translator", "metric"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("broken:Mine", "cannot be imported (ZeroDivisionError: division by zero, "),
        ("ended:Mine", "cannot be imported (SystemExit: 3"),
        ("gone:Mine", "cannot be imported (ModuleNotFoundError: No module named 'gone'); update or uninstall"),
        ("brought", "is not written as module:Name; update or uninstall that package"),
    ],
)
def test_a_package_that_fails(
    kind: str, value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told if it is asked for; names are listed, and the others found."""
    modules = {"broken": "1 / 0\n", "ended": "import sys\nsys.exit(3)\n"}
    packages.install(tmp_path, "unlucky", modules, {f"{kind}.unlucky": value}, monkeypatch)
    brought(tmp_path, kind, monkeypatch, {f"{kind}.mine": "brought:Mine"})
    with pytest.raises(SimulstError) as told:
        find.find(kind, "unlucky", KINDS[kind].ours, "here")
    assert f"here: the {kind} 'unlucky' of unlucky 1.0 ({value}) {reason}" in str(told.value)
    assert find.names(kind, KINDS[kind].ours) == [*KINDS[kind].ours, "mine", "unlucky"]
    find.find(kind, "mine", KINDS[kind].ours, "here")


def test_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A family is asked for by its files: one that fails is told where no other recognises them."""
    offers = {"family.mine": "brought:Mine", "family.broken": "broken:Mine", "family.none": "brought:Options"}
    place = brought(tmp_path, "family", monkeypatch, offers)
    (place / "broken.py").write_text("1 / 0\n")
    assert list(families()) == sorted([*_built_in(), "mine"])
    (tmp_path / "a.mine").write_text("1")
    load_model(tmp_path / "a.mine")
    for path, words in (
        (tmp_path, "not a model that simulst knows; give a cascade .* or a file .*mine.* or"),
        (tmp_path / "gone", "no such model folder"),
    ):
        with pytest.raises(SimulstError, match=words) as told:
            load_model(path)
        assert "(the family 'broken' of bringer 1.0 (broken:Mine) cannot be imported (Zero" in str(told.value)
        assert "(the family 'none' is no simulst.models.base.Family" in str(told.value)
    packages.install(tmp_path, "other", {}, {"family.mine": "brought:Mine"}, monkeypatch)
    with pytest.raises(SimulstError, match=r"the family 'mine' stands 2 times, in other 1.0 .* and in bringer 1.0"):
        load_model(tmp_path / "a.mine")
    assert list(families()) == sorted(_built_in())


def test_a_family_that_fails_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "from brought import *\nimport dataclasses\ndef fails(path): raise TypeError('not me')\n"
    wrong += "Wrong = dataclasses.replace(Mine, recognises=fails)\n"
    place = brought(tmp_path, "family", monkeypatch, {"family.mine": "brought:Mine", "family.wrong": "wrong:Wrong"})
    (place / "wrong.py").write_text(wrong)
    (tmp_path / "a.mine").write_text("1")
    with caplog.at_level("WARNING"):
        load_model(tmp_path / "a.mine")
        load_model(tmp_path / "a.mine")
    assert caplog.text.count("the family 'wrong' of bringer fails for") == 1 and "TypeError: not me" in caplog.text


def test_two_families_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(tmp_path, "family", monkeypatch, {"family.mine": "brought:Mine", "family.same": "brought:Mine"})
    (tmp_path / "a.mine").write_text("1")
    with pytest.raises(SimulstError, match=r"a.mine: recognised by the families 'mine' .* and 'same'"):
        load_model(tmp_path / "a.mine")


def test_a_model_whose_name_is_also_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought(tmp_path, "model", monkeypatch, {"model.mine": "brought:Mine"})
    monkeypatch.chdir(tmp_path)
    load_model("mine")
    Path("mine").mkdir()
    with pytest.raises(SimulstError, match="mine: here, and a model that a package offers"):
        load_model("mine")


def test_a_type_of_model_that_a_package_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its architecture serves all models of the type, and no option names it."""
    path = tiny_huggingface.write(tmp_path / "mbart", "mbart")
    before = digest_of_weights(path, {})
    code = ARCHITECTURE.replace("Whisper", "Architecture")
    packages.install(
        tmp_path,
        "bringer",
        {"brought": code, "brought_helper": "SIZE = 1\n"},
        {"architecture.speech-encoder-decoder": "brought:Mine"},
        monkeypatch,
    )
    model: Any = load_model(path)
    assert type(model.architecture) is sys.modules["brought"].Mine and digest_of_weights(path, {}) != before
    with pytest.raises(SimulstError, match=r"the architecture 'json:loads' is not derived from simulst.models.hugging"):
        load_model(path, architecture="json:loads")


def test_an_entry_point_of_no_kind_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brought(tmp_path, "metric", monkeypatch, {"comit.mine": "brought:Mine"})
    with caplog.at_level(logging.WARNING):
        find.names("commit", {})
    assert "bringer 1.0 (brought:Mine) offers 'comit.mine', which is ignored" in caplog.text
