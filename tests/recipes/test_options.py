"""The options of the recipes: what --help prints, and where defaults come from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from simulst.scaffold import new_recipe

ROOT = Path(__file__).parents[2]
SHARED = {"local/st_options.sh", "local/prefix_options.sh"}
RECIPES = sorted(path.parent.name for path in ROOT.glob("egs/*/run.sh"))


def run(recipe: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(recipe / "run.sh"), *options], capture_output=True, text=True)


@pytest.mark.parametrize("name", [*RECIPES, "new"])
def test_help_shows_every_option_and_its_default(tmp_path: Path, name: str) -> None:
    recipe = ROOT / "egs" / name
    if name == "new":
        (tmp_path / "local").symlink_to(ROOT / "local")
        (tmp_path / "egs").mkdir()
        recipe = new_recipe(tmp_path / "egs", ROOT / "egs/TEMPLATE", "tsv", name, "de-en")
    shown = run(recipe, "--help")
    assert shown.returncode == 0 and not shown.stderr
    assert "[$" not in shown.stdout and "[]" not in shown.stdout
    text = (recipe / "run.sh").read_text().split(". ../../local/parse_options.sh")[0]
    text += "".join((ROOT / file).read_text() for file in SHARED if file in text)
    for variable in re.findall(r"^([a-z_]+)=", text, flags=re.MULTILINE):
        assert f"--{variable.replace('_', '-')}" in shown.stdout


def test_a_size_sets_defaults_that_options_override() -> None:
    recipe = ROOT / "egs/mini"
    small, large = (run(recipe, *options, "--help").stdout for options in ((), ("--size", "large")))
    assert "[../../conf/train/mini_st.yaml]" in small and "[../../conf/train/paper_c_st.yaml]" in large
    assert "encoder [false]" in small and "encoder [true]" in large
    assert "encoder [false]" in run(recipe, "--size", "large", "--asr", "false", "--help").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sise", "large"], "error: unknown option --sise; see"),
        (["--size", "huge"], "error: no size 'huge'; there are small and large"),
        (["--tests"], "error: --tests needs a value"),
        (["en-de"], "error: unexpected argument 'en-de'"),
    ],
)
def test_bad_options_end_in_a_sentence(options: list[str], message: str) -> None:
    result = run(ROOT / "egs/mini", *options)
    assert result.returncode == 1 and result.stderr.startswith(message) and result.stderr.count("\n") == 1
