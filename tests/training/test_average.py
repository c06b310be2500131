from pathlib import Path

import pytest
import torch

from simulst.errors import SimulstError
from simulst.training.average import average_checkpoints, best_epochs


def test_the_mean_of_two(tmp_path: Path) -> None:
    for name, value in (("a", 1.0), ("b", 4.0)):
        torch.save({"w": torch.full((2,), value), "batches": torch.tensor(7)}, tmp_path / name)
    average_checkpoints([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    mean = torch.load(tmp_path / "mean", weights_only=True)
    assert mean["w"].tolist() == [2.5, 2.5] and mean["w"].dtype == torch.float32
    assert mean["batches"] == 7


def test_other_weights_are_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(2)}, tmp_path / "a")
    torch.save({"w": torch.zeros(3)}, tmp_path / "b")
    with pytest.raises(SimulstError, match="other weights"):
        average_checkpoints([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")


def test_best_epochs_come_from_the_log(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"simulst\.log: no such file"):
        best_epochs(tmp_path)
    lines = [
        f"{n}epoch results: [train] loss=1, acc=0.9, [valid] loss=2, acc={acc}"
        for n, acc in enumerate((0.1, 0.3, 0.2), 1)
    ]
    (tmp_path / "simulst.log").write_text("\n".join(lines))
    with pytest.raises(SimulstError, match="no checkpoint"):
        best_epochs(tmp_path)
    for n in (1, 3):
        (tmp_path / f"{n}epoch.pth").touch()
    assert best_epochs(tmp_path) == [3, 1]
