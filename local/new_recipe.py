"""Create a recipe's folder from a template: copy its files, and fill in {{name}}, {{source}} and {{target}}."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import click

from simulst.commands.common import PATH, run_command
from simulst.errors import SimulstError


def new_recipe(recipes: Path, templates: Path, template: str, name: str, pair: str) -> Path:
    """Write the folder `recipes/name` from `templates/template`, whole or not at all. Returns the folder.

    pair: language pair as source-target, such as de-en.

    Raises SimulstError: there is no such template; the name or the pair is not valid; the folder already exists.
    """
    if not templates.is_dir():
        raise SimulstError(f"{templates}: no such folder; run this in the folder of the recipes' repository.")
    have = sorted(path.name for path in templates.iterdir() if path.is_dir())
    if template not in have:
        raise SimulstError(f"{templates}: there is no template '{template}'; choose from {', '.join(have)}.")
    # Names are written into shell scripts and Markdown as they are.
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
        raise SimulstError(
            f"'{name}' cannot name a recipe; use lower-case letters, digits, '_', '.' and '-', such as covost_de."
        )
    if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", pair):
        raise SimulstError(f"'{pair}' is no language pair; give it as source-target, such as de-en.")
    out = recipes / name
    if out.exists():
        raise SimulstError(f"{out}: is there already; choose another name, or edit that recipe.")
    source, _, target = pair.partition("-")
    part = recipes / f".{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(templates / template, part)
    for file in (path for path in part.rglob("*") if path.is_file()):
        text = file.read_text(encoding="utf-8")
        for key, value in {"name": name, "source": source, "target": target}.items():
            text = text.replace(f"{{{{{key}}}}}", value)
        file.write_text(text, encoding="utf-8")
    part.rename(out)
    return out


@click.command()
@click.argument("name")
@click.option("--pair", required=True, help="Language pair as source-target, such as de-en.")
@click.option("--template", default="tsv", show_default=True, help="Template, a folder in TEMPLATE of --recipes.")
@click.option("--recipes", default="egs", show_default=True, type=PATH, help="Folder of the recipes.")
def main(name: str, pair: str, template: str, recipes: Path) -> None:
    """Write a new recipe from a template.

    It is for a corpus or a language pair that has none yet. Call it in the folder of run.sh.
    """
    out = new_recipe(recipes, recipes / "TEMPLATE", template, name, pair)
    print(f"{out}: edit corpus.sh, then ./run.sh --recipe {name} (docs/new_pair.md)")


if __name__ == "__main__":
    run_command(main)
