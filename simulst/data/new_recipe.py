"""Create a recipe's folder from a template: copy its files, and fill in {{name}}, {{source}} and {{target}}."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

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
