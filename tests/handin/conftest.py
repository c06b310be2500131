"""Packing without other processes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is decoded, in this process: one that simulst starts imports all again."""
    from servers import close_metrics
    from simulstream import inference

    from simulst.handin import pack
    from simulst.handin.needs import Needs
    from simulst.serve.simulstream import StreamProcessor

    done: list[str] = []
    needs = Needs((f"numpy=={np.__version__}",), ("numpy",))

    def run(
        folder: Path, processor: Path, languages: tuple[str, str], wavs: Sequence[Path], log: Path, *_: object
    ) -> None:
        done.append(processor.parent.name)
        log.unlink(missing_ok=True)
        names = log.with_suffix(".wavs")
        names.write_text("".join(f"{wav.absolute()}\n" for wav in wavs))
        files = {"speech_processor_config": str(processor), "wav_list_file": str(names), "metrics_log_file": str(log)}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(StreamProcessor, "_loaded", {})
            inference.main(Namespace(src_lang=languages[0], tgt_lang=languages[1], **files))
            close_metrics()

    monkeypatch.setattr(pack, "needs_of", lambda *_: needs)
    monkeypatch.setattr(pack, "needs_of_verify", lambda *_: Needs((), ()))
    monkeypatch.setattr(pack, "run_inference", run)
    return done
