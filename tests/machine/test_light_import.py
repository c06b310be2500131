"""ESPnet is imported without what its recipes never use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simulst.training.process import names

PROGRAM = """
import sys
def main():
    import espnet2.tasks.st, espnet2.train.dataset, torch, typeguard
    optimizer = torch.optim.Adam([torch.zeros(1)])
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    names = ("g2p_en.g2p", "h5py.h5", "nltk.metrics", "sklearn", "torch._dynamo", "transformers")
    loaded = [name for name in names if sys.modules.get(name)]
    print(*loaded, typeguard.typechecked(main) is main, espnet2.train.dataset.h5py.File.__name__)
"""


def test_a_training_imports_late_or_never_what_it_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "simulst.training.process", "program"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "True File" and "nltk_data" not in run.stderr


@pytest.mark.parametrize(
    ("options", "config", "named"),
    [
        ("", "encoder: conformer", False),
        ("", "encoder: hugging_face_transformers", True),
        ("--frontend huggingface", "", True),
        ("--decoder transformer", "", False),
    ],
)
def test_hugging_faces_models_stay_for_whom_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, config: str, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("st.yaml").write_text(config)
    assert names("hugging_?face", ["--config", "st.yaml", *options.split()]) is named
