"""What each stage of a script reads and writes, as the file system saw it.

docs/stages.md has a table for each script that a test watches. With WRITE_STAGES=1 in the environment, it writes it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import recipe
from inotify_simple import flags
from waiting import opened_in

PAGE = Path(__file__).parents[2] / "docs/stages.md"
NAMES = {
    r"\ben-(de|ja)\+en-(de|ja)\b": "<pairs>",
    r"\ben-(de|ja)\b": "<pair>",
    r"\b(train|dev|tst-\w+)\.(en|de|ja)$": "<split>.<language>",
    r"\b(train|dev|tst-\w+)\.yaml$": "<split>.yaml",
    r"\btc\.(de|ja)\b": "tc.<target>",
    r"\b(tc|rm)\.en\b": r"\1.<source>",
    r"\b\d+epoch": "<n>epoch",
    r"\bave_\d+best": "ave_<n>best",
    r"(?<=shards/)\d+": "<n>",
    r"(?<=tfevents)\..*": ".*",
    r"[^/]+(?=\.wav$)": "*",
    r"(?<=images/)[^/]+(?=\.png$)": "*",
    r"\b(prefix|pairs)/(all|maxratio\d+)\b": r"\1/<filter>",
    r"\bprefix/wait\d+-\w+\b": "prefix/<wait>",
    r"(results)/[^/]+(?=\.(json|png|svg|html)$)": r"\1/<section>",
    r"(decode/.+)/[^/]+/(?=(config\.yaml|instances\.log|scores\.json)$)": r"\1/<configuration>/",
}
"""What stands for the fixture's own names."""


def run(command: str, folder: Path, stages: Iterable[str]) -> tuple[str, str]:
    """Run a script's stages one by one; returns what they printed, and the table of what they read and wrote.

    Read is what was there before a stage and was opened by it to be read only, written what it made or changed; both
    below `folder`, without hidden files.
    """
    outputs, rows = [], []
    for stage in stages:
        before = _files(folder)
        with opened_in(folder, flags.CLOSE_NOWRITE) as opened:
            outputs.append(recipe.run(f"{command} --only {stage}", folder))
        after = _files(folder)
        used = {
            "reads": {path.relative_to(folder) for path in opened} & before.keys(),
            # `recipe.start` writes the sweep, not the stage.
            "writes": {path for path, state in after.items() if before.get(path) != state} - {Path("sweep.yaml")},
        }
        title = re.search(rf"^== stage (\d+), {stage}: ", outputs[-1], flags=re.MULTILINE)
        assert title, outputs[-1]
        first = f"{title[1]} {stage}"
        for verb, paths in used.items():
            for place, files in _grouped(paths):
                rows.append(f"| {first} | {verb} | `{place}` | {' '.join(f'`{file}`' for file in files)} |")
                first = verb = ""
    return "".join(outputs), "\n".join(["| Stage | | Folder | Files |", "|---|---|---|---|", *rows])


def configurations(folder: Path, **names: str) -> str:
    """Options for copies of files in conf/train below `folder`, where reading them is seen; names: option → file."""
    (folder / "conf").mkdir(exist_ok=True)
    for name in names.values():
        shutil.copy(recipe.ROOT / f"conf/train/{name}.yaml", folder / "conf")
    return "".join(f" --{option}-config {folder}/conf/{name}.yaml" for option, name in names.items())


def check(name: str, table: str) -> None:
    """The table of the script stands in docs/stages.md, or is written there."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- stages: {name} -->\n", "<!-- end stages -->"
    assert begin in page, f"{PAGE} has no '{begin.strip()}'"
    before, _, rest = page.partition(begin)
    found, _, after = rest.partition(end)
    if os.environ.get("WRITE_STAGES"):
        PAGE.write_text(f"{before}{begin}{table}\n{end}{after}", encoding="utf-8")
    else:
        assert found == f"{table}\n", f"{PAGE} is stale; WRITE_STAGES=1 python -m pytest -n 0 tests/recipes writes it"


def _files(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What is there, and what changes when it is written again. Links to files count, hidden files do not."""
    states = {}
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            state = path.lstat()
            states[path.relative_to(folder)] = (state.st_ino, state.st_mtime_ns, state.st_size)
    return states


def _grouped(paths: Iterable[Path]) -> list[tuple[str, list[str]]]:
    """Folders with the same files that differ in one part of their path become one, as in `{dev,train}/`."""
    files = defaultdict(set)
    for path in paths:
        name = path.as_posix()
        for pattern, shown in NAMES.items():
            name = re.sub(pattern, shown, name)
        place, _, file = name.rpartition("/")
        files[tuple(place.split("/"))].add(file)
    groups = sorted(files.items())
    while found := next(((a, b) for a, b in combinations(groups, 2) if a[1] == b[1] and _difference(a[0], b[0])), None):
        (place, names), (other, _) = found
        k = _difference(place, other).pop()
        both = sorted({part for one in (place, other) for part in one[k].strip("{}").split(",")})
        groups[groups.index(found[0])] = ((*place[:k], "{" + ",".join(both) + "}", *place[k + 1 :]), names)
        groups.remove(found[1])
    return [("/".join(place) + "/" if place != ("",) else "./", sorted(names)) for place, names in groups]


def _difference(place: tuple[str, ...], other: tuple[str, ...]) -> list[int]:
    """The part in which two folders differ, if it is only one."""
    differ = [k for k, (a, b) in enumerate(zip(place, other, strict=False)) if a != b]
    return differ if len(place) == len(other) and len(differ) == 1 else []
