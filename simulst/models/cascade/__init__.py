"""A cascade: a recogniser that is a model of ours under a policy of its own, and a text model that translates.

    recogniser:
      model: whisper-base
      decoding: {read: {type: chunk, ms: 1000}, commit: {type: local_agreement, n: 2}}
    translator: {type: command, command: apertium -u eng-spa}

The decoding configuration of a run (READ, STOP, COMMIT, search) is that of the translator. At each READ, it translates
what the recogniser has heard, its unstable words too unless `unstable: false`. COMMIT says which words are final.
"""

from __future__ import annotations

import json
from pathlib import Path

from simulst.files.lock import digest
from simulst.models.base import Family
from simulst.models.cascade.settings import CascadeOptions, beside, decoding_of, read_settings
from simulst.session import Model

SUFFIXES = (".yaml", ".yml")


def _recognises(path: Path) -> bool:
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    return any(line.startswith("recogniser:") for line in path.read_text("utf-8", errors="replace").splitlines())


def _load(path: Path, options: CascadeOptions, cores: int) -> Model:
    from simulst.models.cascade.loading import load

    return load(path, options, cores)


def _digest(path: Path, options: CascadeOptions) -> str:
    from simulst.models.registry import digest_of_weights

    settings, part = read_settings(path)
    # The decoding configuration may be a file of its own, whose content can change while its name stays.
    decoding = json.dumps(decoding_of(path, part).raw, sort_keys=True)
    parts = [path.read_text(encoding="utf-8"), decoding, digest_of_weights(part.model, part.options)]
    model, kind = settings.translator.get("model"), settings.translator.get("type")
    if kind in ("huggingface", "llm", "ctranslate2") and isinstance(model, str):
        from simulst.models.huggingface.folder import digest_of_files, digest_of_folder

        place = Path(beside(path, model))
        parts.append(digest_of_files([place / "model.bin"]) if kind == "ctranslate2" else digest_of_folder(place))
    return digest(parts)


family = Family(
    name="cascade",
    looks_like="a cascade (a YAML file with a recogniser and a translator)",
    recognises=_recognises,
    options=CascadeOptions,
    load=_load,
    digest=_digest,
)
