from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from simulst.errors import SimulstError
from simulst.files.folder import locked
from simulst.files.yaml import read_yaml
from simulst.training import average
from simulst.training.average import CHOSEN, FOUND, Dev, average_checkpoints, best_epochs, choose, is_chosen


def test_the_mean_of_two(tmp_path: Path) -> None:
    for name, value in (("a", 1.0), ("b", 4.0)):
        torch.save({"w": torch.full((2,), value), "batches": torch.tensor(7)}, tmp_path / name)
    average_checkpoints([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    found = torch.load(tmp_path / "mean", weights_only=True)
    assert found["w"].tolist() == [2.5, 2.5] and found["w"].dtype == torch.float32
    assert found["batches"] == 7


def test_other_weights_are_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(2)}, tmp_path / "a")
    torch.save({"w": torch.zeros(3)}, tmp_path / "b")
    with pytest.raises(SimulstError, match="other weights"):
        average_checkpoints([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")


def test_best_epochs_come_from_the_log(tmp_path: Path) -> None:
    with pytest.raises(SimulstError, match=r"simulst\.log: no such file"):
        best_epochs(tmp_path)
    write_log(tmp_path, 0.1, 0.3, 0.2)
    with pytest.raises(SimulstError, match="no checkpoint"):
        best_epochs(tmp_path)
    for n in (1, 3, "before-1"):
        (tmp_path / f"{n}epoch.pth").touch()
    assert best_epochs(tmp_path) == [3, 1]


def write_log(folder: Path, *accuracies: float) -> None:
    line = "{}epoch results: [train] loss=1, acc=0.9, [valid] loss=2, acc={}\n".format
    (folder / "simulst.log").write_text("".join(line(n, acc) for n, acc in enumerate(accuracies, 1)))


def finished(folder: Path) -> Path:
    """A training of two epochs, the first of them better."""
    write_log(folder, 0.3, 0.2)
    for n in (1, 2):
        torch.save({"w": torch.full((1,), float(n))}, folder / f"{n}epoch.pth")
    return folder


def test_all_pairs_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first language alone would take one checkpoint."""
    bleu = {("de", "ave_1best.pth"): 20.0, ("de", "ave_2best.pth"): 19.0}
    bleu |= {("ja", "ave_1best.pth"): 10.0, ("ja", "ave_2best.pth"): 14.0}

    def dev_bleu(model: str, devs: Sequence[Dev], source: str, limit: int, searches: Sequence[Any]) -> list[float]:
        if model == CHOSEN:
            return [3.0 - abs(search.length_bonus - 0.5) for search in searches]
        return [mean(bleu[dev.target, model] for dev in devs) for _ in searches]

    monkeypatch.setattr(average, "load_model", lambda experiment, checkpoint: checkpoint)
    monkeypatch.setattr(average, "dev_bleu", dev_bleu)
    devs = [Dev(Path(target), f"tc.{target}", target) for target in ("de", "ja")]
    finished(tmp_path)
    for some, scores, mean_weight in ((devs[:1], {"1": 20.0, "2": 19.0}, 1.0), (devs, {"1": 15.0, "2": 16.5}, 1.5)):
        choose(tmp_path, some, "en", [1, 2, 5], 9, force=True)
        assert json.loads((tmp_path / FOUND).read_text())["dev_BLEU"] == scores
        assert torch.load(tmp_path / CHOSEN, weights_only=True)["w"].tolist() == [mean_weight]
    assert read_yaml(tmp_path / "search.yaml") == {"ctc_weight": 0.0, "length_bonus": 0.5}
    # Killed between the two choices, it is not complete.
    monkeypatch.setattr(average, "choose_search", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        choose(tmp_path, devs, "en", [1], 9, force=True)
    assert (tmp_path / CHOSEN).is_file() and not (tmp_path / FOUND).exists()


def test_a_training_that_went_on_is_chosen_from_again(tmp_path: Path) -> None:
    known = {"counts": [1, 2], "limit": 9, "texts": ["tc.de"]}
    assert not is_chosen(finished(tmp_path), known)
    (tmp_path / CHOSEN).touch()
    (tmp_path / FOUND).write_text(json.dumps({"epochs": [1, 2]}))
    with pytest.raises(SimulstError, match="damaged; use --force to choose again"):
        is_chosen(tmp_path, known)
    (tmp_path / FOUND).write_text(json.dumps({"epochs": [1, 2], "asked": known}))
    assert is_chosen(tmp_path, known)
    (tmp_path / "1epoch.pth").rename(tmp_path / "kept")
    assert is_chosen(tmp_path, known)  # some checkpoints may be deleted
    (tmp_path / "kept").rename(tmp_path / "1epoch.pth")
    torch.save({}, tmp_path / "3epoch.pth")
    write_log(tmp_path, 0.3, 0.2, 0.4)
    assert not is_chosen(tmp_path, known)
    for path in tmp_path.glob("*epoch.pth"):
        path.unlink()
    assert is_chosen(tmp_path, known)  # or all


def test_other_counts_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(average, "load_model", lambda experiment, checkpoint: checkpoint)
    monkeypatch.setattr(average, "dev_bleu", lambda *arguments: [1.0 for _ in arguments[-1]])
    devs = [Dev(tmp_path, "tc.de", "de")]
    choose(finished(tmp_path), devs, "en", [2, 1, 1], 9)
    choose(tmp_path, devs, "en", [1, 2], 9)
    assert capsys.readouterr().out.endswith("chosen.pth: complete; --force does it again\n")
    for path in (None, *tmp_path.glob("*epoch.pth")):  # whatever is deleted
        if path:
            path.unlink()
        with pytest.raises(SimulstError, match=r"chosen\.pth: was chosen with other counts and limit"):
            choose(tmp_path, devs, "en", [1], 8)


def test_a_folder_where_a_training_is_at_work_is_refused(tmp_path: Path) -> None:
    with locked(finished(tmp_path)), pytest.raises(SimulstError, match="another run is at work there"):
        choose(tmp_path, [Dev(tmp_path, "tc.de", "de")], "en", [1], 9)
    assert not (tmp_path / "ave_1best.pth").exists()
    with pytest.raises(SimulstError, match="train the model first"):
        choose(tmp_path / "nowhere", [Dev(tmp_path, "tc.de", "de")], "en", [1], 9)
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    for n in range(2):
        torch.save({"w": torch.zeros(50_000)}, tmp_path / f"{n}.pth")
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 8_000))
    with pytest.raises(SimulstError, match=r"ave\.pth: cannot be written .* run the same command again"):
        average_checkpoints([tmp_path / "0.pth", tmp_path / "1.pth"], small_disk / "ave.pth")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
