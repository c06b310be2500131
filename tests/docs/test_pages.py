"""README, docs/ and the recipes' pages: what they tell to type is typed here.

A block of commands runs in bash, in a small copy of the checkout, where the programs of this repository only note how
they were called. Then `simulst` is run with these arguments in this process, on a tiny Whisper and tiny recordings
(with one job, whatever the page says). For `./run.sh`, scripts in Python and groups such as `simulst train`, options
are checked. Blocks of Python are run, and decoding configurations are opened.
"""

from __future__ import annotations

import ast
import functools
import gzip
import importlib
import itertools
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import fake
import fake_runs
import numpy as np
import packages
import pages
import pytest
import recipe
import soundfile
import sounds
import tiny_huggingface
import tiny_whisper
import torch
import tracked
import yaml

from simulst.audio.units import SAMPLE_RATE
from simulst.calls import Steps
from simulst.commands.main import main
from simulst.config import Decoding, load_sweep, parse_decoding
from simulst.hypotheses import Tokens
from simulst.needs import Need
from simulst.opening import Opening
from simulst.policy import boundary, ctc_guide
from simulst.policy.boundary_predictor import BoundaryPredictor, Sizes
from simulst.policy.context import PLAIN, Look, TokensView, WaitToken
from simulst.policy.read import WaitK
from simulst.search import JointBeamSearch
from simulst.session import Model, Traits
from simulst.streams import open_stream
from speech import espeak

NOT_RUN = {
    ("README.md", "./test.sh"): "it runs this test",
    **{
        ("docs/simulstream.md", begin): "tests/serve and tests/measure/test_longform.py run these programs"
        for begin in ("simulst score", "simulstream_", "python -m simulstream", "type: simul")
    },
    ("docs/serve.md", "simulst serve"): "tests/serve/test_server.py runs it",
    ("docs/simulstream.md", "simulst serve"): "the same",
    ("docs/iwslt.md", "tools/install.sh"): "it installs packages",
    ("docs/iwslt.md", "hf download"): "it needs the hub",
    ("docs/iwslt.md", "simulst choose"): "the whole page is run by tests/handin/test_page.py",
    ("docs/iwslt.md", "simulst pack"): "the same",
    ("docs/iwslt.md", "simulst verify"): "the same",
    ("docs/new_pair.md", "tools/install.sh"): "the whole page is run by tests/recipes/test_new_pair.py",
    ("docs/decoding.md", "simuleval --agent"): "tests/serve/test_simuleval.py runs SimulEval with our agent",
    ("docs/models.md", "simulst translate talk.wav --model openai"): "it needs the hub",
    ("docs/gpu.md", "simulst translate"): "it needs a GPU",
    ("docs/huggingface.md", "simulst translate talk.wav --model facebook"): "it needs the hub",
    ("docs/huggingface.md", "ct2-transformers-converter"): "the lines above it train the model",
    ("docs/huggingface.md", "simulst translate talk.wav --model exp/finetuned/ct2"): "the same",
    ("docs/huggingface.md", "recogniser:"): "a cascade; tests/models/cascade opens such files",
    ("docs/huggingface.md", "translator:"): "a part of one; the same",
    ("docs/huggingface.md", "simulst translate talk.wav --model cascade.yaml"): "it needs Apertium; the same",
    ("docs/huggingface.md", "simulst evaluate --data data/mcif"): "it needs the corpus; test_transcript.py does so",
    ("docs/huggingface.md", "simulst score exp/alone"): "the same",
    ("docs/decoding.md", "simulst translate talk.wav"): "it needs a Whisper of several languages; test_auto.py has one",
    ("docs/clusters.md", "jobqueue:"): "a configuration of Dask's, for a Slurm cluster",
    ("docs/library.md", "pip install"): "it installs packages",
    ("docs/own_model.md", "pip install"): "the same; `packages.describe` stands for it",
    ("docs/own_model.md", "# glossary.yaml"): "a cascade; the command below it opens it",
}
"""The blocks and commands, by their beginnings, that can't be run here, and why."""

OTHERS_OPTIONS = {
    **dict.fromkeys(("--computation-aware", "--agent", "--agent-class", "--eval-latency-unit"), "SimulEval"),
    **dict.fromkeys(("--source-segment-size", "--output"), "SimulEval"),
    **dict.fromkeys(
        ("--server-config", "--speech-processor-config", "--eval-config", "--wav-list-file"), "simulstream"
    ),
    **dict.fromkeys(("--option", "--wait_k"), "ESPnet"),
    "--local-dir": "Hugging Face",
    "--copy_files": "CTranslate2",
    "--fix_simuleval_emission_ca": "OmniSTEval",
    **dict.fromkeys(("--encoder_conf",), "ESPnet"),
    **dict.fromkeys(("--nodes", "--ntasks-per-node", "--gres", "--cpus-per-task"), "Slurm"),
}
"""Options in the text that are not this repository's, and whose they are."""

SIMULSTREAM = ("simulstream_server", "simulstream_wavs_client", "simulstream_inference")
PROGRAMS = ("simulst", "python", "pip", "hf", "simuleval", "ct2-transformers-converter", *SIMULSTREAM)
SCRIPTS = ("run.sh", "test.sh", "tools/install.sh")
WHISPER = "egs/prompts/models/whisper-base"
RECORDING = "usr/share/asterisk/sounds/it_IT_m_Carlo/demo-congrats.wav"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages' commands find in the repository's root, and the files that they take as given."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("conf", "local", "benchmarks"):
        (folder / name).symlink_to(pages.ROOT / name)
    programs = folder / "programs"
    for place in ("tools", "programs", ".venv/bin", "egs/must_c", "egs/iwslt", "exp", "data"):
        (folder / place).mkdir(parents=True)
    for path in [*(folder / name for name in SCRIPTS), *(programs / name for name in PROGRAMS)]:
        path.write_text(pages.NOTE)
        path.chmod(0o755)
    (folder / ".venv/bin/activate").touch()
    tiny_whisper.write(folder / WHISPER, eos=6, languages=("en", "es", "it"))
    tiny_huggingface.write(folder / f"{WHISPER}-hf", "whisper")
    (folder / "egs/prompts/conf").symlink_to(pages.ROOT / "egs/prompts/conf")
    recording = folder / "egs/prompts/data/unpacked/asterisk-core-sounds-it-wav" / RECORDING
    recording.parent.mkdir(parents=True)
    for seed, path in enumerate([recording, folder / "speech.wav"]):
        soundfile.write(path, noise(seed, 1.2), SAMPLE_RATE)
    with espeak() as say:
        soundfile.write(folder / "talk.wav", say("The old man sleeps.", "en-us+f3", 150, 50), SAMPLE_RATE)
    for split in ("dev", "tst"):
        audio = {f"u{number}": noise(number, 1.2 + number) for number in range(2)}
        texts = {"u0": "the cat sat", "u1": "on the mat"}
        sounds.write(folder / "egs/prompts/data/es-en" / split, audio, {"en": texts})
    log = {"index": 0, "prediction": "ein Wort", "delays": [900, 1000], "elapsed": [950, 1100], "reference": "ein Wort"}
    log.update(prediction_length=2, source=["a.wav"], source_length=1000.0)
    with gzip.open(folder / "instances.log.gz", "wt") as file:
        file.write(json.dumps(log) + "\n")
    for label in ("hold-2_IBWBS_1block", "hold-2_BWBS_1block"):
        fake_runs.write_run(folder / "egs/mini/exp/en-de/decode/en-de/tst-COMMON", label, fake_runs.references(9))
    for table in ("de_de", "en_us"):  # of Fleurs
        (folder / table).mkdir()
        (folder / table / "train.tsv").write_text("1\ta.wav\tein Satz\n")
    for page in pages.PAGES:
        for block in pages.blocks(page):
            if block.file:
                assert not (folder / block.file).exists(), f"{page}: two blocks are {block.file}"
                (folder / block.file).parent.mkdir(exist_ok=True)
                (folder / block.file).write_text(block.text)
    package = tomllib.loads((folder / "package/pyproject.toml").read_text())["project"]
    packages.describe(folder, package["name"], package["entry-points"]["simulst"])
    return folder


@pytest.fixture
def here(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout as current folder, with its modules."""
    monkeypatch.chdir(checkout)
    monkeypatch.syspath_prepend(str(checkout))
    return checkout


def noise(seed: int, seconds: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * SAMPLE_RATE)).astype(np.float32)


def not_run(page: str, command: str) -> bool:
    return any(page == where and command.startswith(begin) for where, begin in NOT_RUN)


def test_what_is_not_run_is_still_there() -> None:
    for page, begin in NOT_RUN:
        texts = [line for block in pages.blocks(page) for line in block.text.splitlines()]
        assert any(line.startswith(begin) for line in texts), f"{page} has no '{begin}'; take it out of NOT_RUN"
    said = [pages.prose(page) for page in pages.PAGES]
    said += [text for file in programs() for text in sentences(file)]
    for option in OTHERS_OPTIONS:
        assert any(option in text for text in said), f"no page and no message has {option}"


# ---- commands ----


@pytest.mark.parametrize(
    "page", [page for page in pages.PAGES if pages.blocks(page, "sh") and page != "docs/new_pair.md"]
)
def test_commands(page: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in pages.blocks(page, "sh"):
        for folder, program, *arguments in pages.called(block.text, here, here / "programs"):
            command = " ".join([program, *arguments])
            if not_run(page, command):
                if program == "simulst":
                    check_simulst_options(command)
                continue
            if program == "simulst" and isinstance(main.commands.get(arguments[0]), click.Group):
                check_simulst_options(command)
            elif program == "simulst":
                os.chdir(folder)
                main([*with_one_job(arguments)], standalone_mode=False)
                assert capsys.readouterr().out, f"{page}: '{command}' printed nothing"
            elif program == "./run.sh":
                check_recipe_options(arguments)
                check_corpus(arguments)
            elif program == "python" and arguments[0].endswith(".py"):
                check_script_options(command)
            else:
                pytest.fail(f"{page}: '{command}' can't be run; if there is a reason, put it into NOT_RUN")


def with_one_job(arguments: Sequence[str]) -> list[str]:
    """The tiny corpora are not worth other processes."""
    return ["1" if before == "--jobs" else argument for before, argument in zip(["", *arguments], arguments)]  # noqa: B905


def check_recipe_options(words: Sequence[str]) -> None:
    """The script of the recipe is there and has these options, and its stages have these names."""
    name = words[words.index("--recipe") + 1] if "--recipe" in words else "mini"
    shown = recipe.shown("must_c" if name == "my_corpus" else name)
    for word in words:
        assert not word.startswith("-") or " " in word or word in (*options(shown), "--recipe", "--help"), (words, word)
    for option, value in itertools.pairwise(words):
        if option in ("--stage", "--stop-stage", "--only"):
            assert re.search(rf"^ +\d+ {value} ", shown, flags=re.MULTILINE), f"{words}: no stage is called {value}"


def check_corpus(words: Sequence[str]) -> None:
    """A command that begins with the data of a corpus that nobody can fetch says where the corpus is."""
    name = words[words.index("--recipe") + 1] if "--recipe" in words else "mini"
    later = {"--help", "--stage", "--only"} & {*words}
    if name.partition("/")[0] == "must_c" and "extras" not in name and not later:
        assert "--root" in words, f"{' '.join(words)}: add --root"


def check_script_options(command: str) -> None:
    """The script declares each option. (Running it with --help takes seconds.)"""
    script = pages.ROOT / command.split()[1]
    declared = re.findall(r'"(--[a-z][a-z-]*)[/"]', script.read_text())
    for option in options(command):
        assert option in declared, f"{command}: {script.name} has no option {option}"


def options(command: str) -> list[str]:
    return re.findall(r"(?<![\w-])--[a-z][a-z0-9_-]*", command)


@pytest.mark.parametrize("page", pages.PAGES)
def test_commands_in_the_text(page: str) -> None:
    """Their options, and each option that is mentioned, are there."""
    for code in pages.inline(page):
        code = code.replace("[", "").replace("]", "")
        if code.startswith("./run.sh") and "..." not in code:
            check_recipe_options(shlex.split(code)[1:])
        elif re.match(r"python (local|benchmarks)/", code):
            check_script_options(code)
        elif code.startswith("simulst "):
            check_simulst_options(code)
        else:
            for option in options(code):
                assert option in all_options() or option in OTHERS_OPTIONS, f"{page}: nothing has the option {option}"


def check_simulst_options(command: str) -> None:
    found: click.Command = main
    for name in command.split()[1:]:
        if not isinstance(found, click.Group) or name.startswith("-"):
            break
        assert name in found.commands, f"there is no command '{command}'"
        found = found.commands[name]
    assert set(options(command)) <= {*options_of(found), "--help"}, command


def options_of(command: click.Command) -> set[str]:
    """Its options, and those of the commands in it."""
    own = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(options_of, below))


@functools.cache
def all_options() -> set[str]:
    found = {option for name in recipe.SCRIPTS for option in options(recipe.shown(name))}
    files = tracked.files("benchmarks/*.py", "egs/*/local/*.py", "local/*.py", "run.sh", "tools/install.sh")
    found |= {
        f"--{name}" for name in re.findall(r"^option (\w+)", pages.read("egs/TEMPLATE/tsv/corpus.sh"), re.MULTILINE)
    }
    return found.union(options_of(main), *(options(file.read_text()) for file in files))


# ---- blocks in other languages ----


@pytest.mark.parametrize("page", [page for page in pages.PAGES if pages.blocks(page, "python")])
def test_python(page: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in pages.blocks(page, "python"):
        if block.file:
            importlib.import_module(Path(block.file).stem)
        else:
            exec(compile(block.text, page, "exec"), {})
            assert capsys.readouterr().out


VALUES = {
    "beam": 2,
    "unit": 280,
    "writes": 1,
    "wait_beam": 1,
    "ratio": 1.6,
    "name": "a",
    "k": [3],
    "trained_waits": [3],
    "ms": 640,
    "first": 1680,
    "lags": [1],
    "complete": [],
    "guide": "a",
    "predictor": "exp/en-de/prefix/predictor/predictor.pth",
}
"""What the recipes' scripts give for `$name` in a sweep."""


class Guess(TokensView):
    """A view that has everything."""

    def odds_of_end(self, exact: bool = False) -> float:
        return -0.5

    def frames_left(self, look: Look = PLAIN) -> float:
        return 6.0

    def source_word(self, look: Look = PLAIN) -> int:
        return 6

    def distribution(self) -> np.ndarray:
        return np.log([0.7, 0.2, 0.1])

    def divergence(self) -> float:
        return 0.1

    def end_times(self) -> list[float]:
        return [0.2 * number for number, _ in enumerate(self.tokens, start=1)]


class GuessingGuide:
    """A guide that needs no model."""

    def __init__(self, opening: Opening) -> None:
        pass

    def hear(self, samples: np.ndarray) -> Steps[None]:
        yield from ()

    def spell(self, text: str) -> Tokens:
        return tuple(map(ord, text))

    def odds_of_end(self, tokens: Tokens, given: int, exact: bool) -> list[float]:
        return [-0.5] * (len(tokens) - given)


class CapableSession(fake.FakeSession):
    traits = Traits(
        frozenset(Need) - {Need.AUDIO},
        JointBeamSearch(),
        layers=24,
        heads=14,
        trained_wait=(3, 280.0, 1),
        wait=WaitToken(1, {1: (2,)}, 1680.0, 640.0),
    )
    source_words = 8.0


class Capable(fake.FakeModel):
    """A model that gives all that policies and searches may ask for."""

    def session(self, opening: Opening | None = None) -> fake.FakeSession:
        return CapableSession(self, super().session(opening).opening)


@pytest.fixture(scope="module")
def whisper(checkout: Path) -> Model:
    return tiny_whisper.load(checkout / WHISPER)


@pytest.fixture
def predictor(checkout: Path) -> Iterator[None]:
    path = checkout / "exp/en-de/prefix/predictor/predictor.pth"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    BoundaryPredictor(100, Sizes(mels=16, channels=2, embedding=8, hidden=8)).save(path)
    yield
    boundary._load.cache_clear()


def configurations() -> list[tuple[str, str]]:
    """Where they are written, and their text."""
    found = [(page, block.text) for page in pages.PAGES for block in pages.blocks(page, "yaml")]
    files = tracked.files("conf/decode/*.yaml", "egs/*/conf/*.yaml")
    found += [(file.relative_to(pages.ROOT).as_posix(), file.read_text()) for file in files]
    return [(where, text) for where, text in found if not not_run(where, text)]


@pytest.mark.parametrize(("where", "text"), configurations())
def test_configurations(
    where: str, text: str, here: Path, whisper: Model, predictor: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each decodes some audio, with Whisper or else with a model that gives all that may be asked for."""
    monkeypatch.setattr(fake, "TokensView", Guess)
    monkeypatch.setattr(ctc_guide, "_load", lambda load_model, model, checkpoint: (fake.RATE, GuessingGuide))
    (here / "block.yaml").write_text(text)
    for decoding in load_sweep(here / "block.yaml", VALUES):
        alone = parse_decoding(decoding.raw, where)
        model = whisper if works_with(alone, whisper) else Capable()
        stream = open_stream(model, alone, "es", "en")
        stream.push(noise(0, 1.2), finished=True)


def works_with(decoding: Decoding, model: Model) -> bool:
    session = model.session(Opening("es", "en"))
    search = decoding.search or session.traits.default_search
    needs = decoding.read.needs | decoding.stop.needs | search.needs
    return needs <= session.traits.gives | {Need.AUDIO} and not isinstance(decoding.read, WaitK)


def test_every_block_is_of_a_known_kind() -> None:
    for page in pages.PAGES:
        for block in pages.blocks(page):
            assert block.language in ("sh", "python", "yaml", "toml", "json", ""), f"{page}: {block.language}"
            if block.language == "json":
                json.loads(block.text)
            if not block.language:  # what is printed, or drawn
                assert not re.search(r"^(simulst|python|\./\w+\.sh) ", block.text, flags=re.MULTILINE), page


# ---- what the pages say ----


@pytest.mark.parametrize("page", [*pages.PAGES, *pages.NOTES, "CHANGELOG.md"])
def test_links(page: str) -> None:
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (pages.ROOT / page).parent / path if path else pages.ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in pages.anchors(target.resolve().relative_to(pages.ROOT).as_posix()), f"{page}: {link}"


@pytest.mark.parametrize("page", pages.PAGES)
def test_files_in_the_text(page: str) -> None:
    for code in pages.inline(page):
        if re.fullmatch(r"(tests|conf|simulst|local|benchmarks|egs/\w+/local)(/[\w.-]+)+/?", code):
            assert (pages.ROOT / code).exists(), f"{page}: there is no {code}"


TOPS = ("simulst", "local", "egs", "benchmarks")
NAMED = {
    "file": r"(?<![\w./$-])(?:docs|conf|local|egs|tools|benchmarks|simulst|tests)/[\w./-]*\w\.(?:md|py|sh|yaml|json)\b",
    "recipe": r"--recipe ([a-z_]+(?:/[a-z_]+)*)",
    "command": r"(?:`|\b(?:run|let|by|use|with) )simulst ([a-z][a-z-]+)",
}


def programs() -> list[Path]:
    """Ours, in all folders but those of tests."""
    return tracked.files("*.sh", *(f"{top}/**/*.{end}" for top in TOPS for end in ("py", "sh")))


def sentences(file: Path) -> Iterator[str]:
    """What a program may print, and its docstrings. Of a shell script: all of it."""
    if file.suffix == ".sh":
        yield file.read_text()
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def test_what_messages_name_is_there() -> None:
    """Files, recipes, commands and options in messages, help and docstrings."""
    for file in programs():
        if "handin" in file.parts or "TEMPLATE" in file.parts:  # what other programs take; what is filled in first
            continue
        for text in sentences(file):
            for name in re.findall(NAMED["file"], text):
                places = (pages.ROOT, *list(file.parents)[:2])  # scripts run in their recipe's folder
                assert any((place / name).exists() for place in places), f"{file}: there is no {name}"
            for name in re.findall(NAMED["recipe"], text):
                assert recipe.script(name).is_file(), f"{file}: there is no recipe {name}"
            for name in re.findall(NAMED["command"], text):
                assert name in main.commands, f"{file}: there is no command simulst {name}"
            if file.is_relative_to(pages.ROOT / "simulst"):
                for option in options(text):
                    known = option in all_options() or option in OTHERS_OPTIONS
                    assert known, f"{file}: nothing has the option {option}"


def test_the_readme_names_every_page() -> None:
    named = {link.partition("#")[0] for link in pages.links("README.md")}
    assert {page for page in pages.PAGES if page.startswith("docs/")} <= named


def test_the_number_of_configurations() -> None:
    count = len(load_sweep(pages.ROOT / "conf/decode/paper_c.yaml"))
    assert f"has {count} configurations" in pages.read("docs/decoding.md")
    assert f"the {count} of `conf/decode/paper_c.yaml`" in " ".join(pages.read("docs/new_pair.md").split())


def test_each_experiment_has_a_date_and_a_finding_in_the_table() -> None:
    table = pages.read("docs/experiments/README.md")
    notes = [note for note in pages.NOTES if not note.endswith("README.md")]
    for note in notes:
        name, finding = Path(note).name, pages.read(note).splitlines()[0].removeprefix("# ")
        assert re.match(r"\d{4}-\d\d-\d\d-[a-z0-9_-]+\.md$", name)
        assert f"| {name[:10]} | [{finding}]({name}) |" in table, note
    assert table.count("| 20") == len(notes)


def test_pages_are_short() -> None:
    """What is written by hand: not the notes, not what results/ or a test writes."""
    lines = {page: len(pages.by_hand(page).splitlines()) for page in [*pages.PAGES, "CHANGELOG.md"]}
    assert sum(lines.values()) <= 3000, lines
    assert all(count <= 80 for page, count in lines.items() if page.startswith("egs/")), lines


def test_stages_have_names() -> None:
    for page in pages.PAGES:
        assert not re.search(r"--(stop-)?stage \d", pages.by_hand(page)), page


def test_a_file_that_a_page_shows_is_shown_whole() -> None:
    text = pages.read("docs/configurations.md")
    shown = re.findall(r"`(conf/decode/\w+\.yaml)` is\s((?:(?!```).)*?)```yaml\n(.*?)```", text, flags=re.DOTALL)
    shown = [(file, block) for file, between, block in shown if "conf/decode/" not in between]
    assert shown
    for file, block in shown:
        assert yaml.safe_load(block) == yaml.safe_load((pages.ROOT / file).read_text()), file
