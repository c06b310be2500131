"""A cascade: a recogniser that is a model of ours under a policy of its own, and a text model that translates.

    recogniser:
      model: whisper-base
      decoding: {read: {type: chunk, ms: 1000}, commit: {type: local_agreement, n: 2}}
    translator: {type: huggingface, model: Helsinki-NLP/opus-mt-en-es}

The decoding configuration of a run (READ, STOP, COMMIT, search) is that of the translator. At each READ, it translates
what the recogniser has heard, its unstable words too unless `unstable: false`. COMMIT says which words are final.
"""

from __future__ import annotations

from pathlib import Path

from simulst.models.base import Family, later
from simulst.models.cascade.settings import CascadeOptions

SUFFIXES = (".yaml", ".yml")
LOADING = "simulst.models.cascade.loading"


def _recognises(path: Path) -> bool:
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("recogniser:") for line in path.read_text("utf-8", errors="replace").splitlines())


family = Family(
    looks_like="a cascade (a YAML file with a recogniser and a translator)",
    recognises=_recognises,
    options=CascadeOptions,
    load=later(f"{LOADING}:load"),
    files=later(f"{LOADING}:files"),
    check=later(f"{LOADING}:check"),
    tells=later(f"{LOADING}:tells"),
)
