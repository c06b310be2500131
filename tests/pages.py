"""The pages of the documentation: their blocks of code, commands in the text, and links."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import tracked

ROOT = Path(__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in tracked.files("README.md", "docs/*.md", "egs/*/*.md")]
NOTES = [path.relative_to(ROOT).as_posix() for path in tracked.files("docs/experiments/*.md")]
"""The dated notes on experiments. Their commands and figures are those of their day."""
WRITTEN = ("docs/stages.md", *(page for page in PAGES if page.endswith("/RESULTS.md")))
"""The pages that are wholly written by a program."""
NOTE = """#!/bin/bash
case "$1" in
    -c) echo 1; exit ;;  # the number of processors
    *rehearse.py) exec cat > /dev/null ;;
esac
arguments=()
for argument; do
    if [ "$argument" = /dev/stdin ]; then
        argument=$CALLS.stdin
        cat > "$argument"
    fi
    arguments+=("$argument")
done
printf '%s\\0' "$PWD" "$0" "${arguments[@]}" >> "$CALLS"
printf '\\036\\0' >> "$CALLS"
"""
"""A program that only notes how it was called."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block between ``` lines. language: what follows the first of them."""

    page: str
    language: str
    text: str

    @property
    def file(self) -> str:
        """The file that the block is: the name in a comment that is its first line; or empty."""
        named = re.match(r"# (\S+\.(?:py|yaml|toml))\n", self.text)
        return named[1] if named else ""


def read(page: str) -> str:
    """The text of a page. page: its path from the repository's root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The blocks of a page in their order. language: only these."""
    found = [Block(page, *match) for match in _BLOCK.findall(read(page))]
    return [block for block in found if language is None or block.language == language]


def prose(page: str) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", read(page))


def by_hand(page: str) -> str:
    """The text of a page without what programs write into it: the tables of results."""
    if page in WRITTEN:
        return ""
    return re.sub(r"<!-- (results|rows)\b.*?<!-- end \1 -->\n?", "", read(page), flags=re.DOTALL)


def inline(page: str) -> list[str]:
    """What stands between ` and ` in the text of a page."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(page))]


def links(page: str) -> list[str]:
    """Where the links and pictures of a page lead, but for other sites."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in found if "://" not in link]


def anchors(page: str) -> set[str]:
    """The headings of a page as its links name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def called(commands: str, folder: Path, programs: Path) -> list[list[str]]:
    """The calls of programs that are `NOTE` each, made by commands in a folder: current folder, program, arguments.

    programs: a folder of those that are found by their names.
    """
    calls = folder / "calls"
    calls.write_bytes(b"")
    environment = {**os.environ, "CALLS": str(calls), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"
    found = [call.split("\0")[:-1] for call in calls.read_text().split("\036\0")[:-1]]
    return [[where, Path(program).name if program[0] == "/" else program, *rest] for where, program, *rest in found]
