#!/usr/bin/env python
"""Create the recipe of a new corpus or language pair: write egs/NAME from a template in egs/TEMPLATE."""

from __future__ import annotations

from pathlib import Path

import click

from simulst.command import run_command
from simulst.corpora.scaffold import new_recipe

RECIPES = Path(__file__).resolve().parents[1] / "egs"


@click.command(help=__doc__)
@click.argument("name")
@click.option("--pair", required=True, help="Language pair as source-target, such as de-en.")
@click.option("--template", default="tsv", show_default=True, help="Template, a folder in egs/TEMPLATE.")
def main(name: str, pair: str, template: str) -> None:
    """Write the recipe's folder."""
    out = new_recipe(RECIPES, RECIPES / "TEMPLATE", template, name, pair)
    print(f"{out}: edit the head of run.sh, then ./run.sh --recipe {name} (docs/new_pair.md)")


if __name__ == "__main__":
    run_command(main)
