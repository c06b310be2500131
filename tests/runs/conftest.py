"""A small data directory and a Dask scheduler."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fake import FakeModel
from run_commands import DURATIONS, LA2, SWEEP

from simulst.data.datadir import write_data_dir


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Utterances u0, u1, ...; the first sample, times 100, is the number (see FakeModel)."""
    folder = tmp_path / "data"
    references = {f"u{i}": FakeModel().truth(ms * 16).strip() for i, ms in enumerate(DURATIONS)}
    write_data_dir(folder, {"wav.scp": {name: f"{name}.wav" for name in references}, "text.en": references})
    for i, ms in enumerate(DURATIONS):
        soundfile.write(folder / f"u{i}.wav", np.full(ms * 16, i / 100), 16000, subtype="PCM_16")
    (tmp_path / "la2.yaml").write_text(LA2)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return folder


@pytest.fixture
def scheduler() -> Iterator[str]:
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster.scheduler_address
