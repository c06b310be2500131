"""Stage 2: the archive is what ESPnet reads, at every speed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

import prepare_data
from corpora.dump import dump_audio
from simulst.errors import SimulstError
from simulst.files.folder import locked
from simulst.files.table import read_table

SECONDS = {"a-1": (0.5, 1.25), "a-2": (1.5, 3.0)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two segments of one recording."""
    folder = tmp_path / "data"
    folder.mkdir()
    samples = np.random.default_rng(0).normal(0, 0.1, 4 * 16000).clip(-1, 1)
    soundfile.write(tmp_path / "a.wav", samples, 16000)
    (folder / "wav.scp").write_text(f"a {tmp_path / 'a.wav'}\n")
    (folder / "segments").write_text("".join(f"{name} a {b:.3f} {e:.3f}\n" for name, (b, e) in SECONDS.items()))
    (folder / "utt2spk").write_text("".join(f"{name} spk\n" for name in SECONDS))
    (folder / "text.tc.de").write_text("".join(f"{name} Satz {name}\n" for name in SECONDS))
    (folder / "text.lc.rm.en").write_text("".join(f"{name} sentence {name}\n" for name in SECONDS))
    return folder


def read(folder: Path) -> dict[str, np.ndarray]:
    """As ESPnet's training reads it."""
    from espnet2.fileio.read_text import read_2columns_text
    from espnet2.train.dataset import kaldi_loader

    assert read_2columns_text(folder / "wav.scp")
    loader = kaldi_loader(str(folder / "wav.scp"), float_dtype="float32")
    return {name: loader[name] for name in loader}


def test_espnet_reads_the_segments(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "dump"
    dump_audio(data, out, ["tc.de", "lc.rm.en"])
    found = read(out)
    whole, _ = soundfile.read(tmp_path / "a.wav", dtype="float32")
    lengths = read_table(out / "utt2num_samples")
    for name, (start, end) in SECONDS.items():
        np.testing.assert_allclose(found[name], whole[round(start * 16000) : round(end * 16000)], atol=1e-4)
        assert int(lengths[name]) == found[name].size
    assert read_table(out / "text.tc.de") == {"a-1": "Satz a-1", "a-2": "Satz a-2"}
    assert read_table(out / "text.lc.rm.en")["a-2"] == "sentence a-2"
    assert not list(tmp_path.glob("*.part"))


def test_speeds(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "dump"
    dump_audio(data, out, ["tc.de"], [0.9, 1.0, 1.1])
    found = read(out)
    assert set(found) == {prefix + name for prefix in ("", "sp0.9-", "sp1.1-") for name in SECONDS}
    for name in SECONDS:
        assert abs(found[f"sp0.9-{name}"].size - found[name].size / 0.9) <= 1
        assert abs(found[f"sp1.1-{name}"].size - found[name].size / 1.1) <= 1
    assert read_table(out / "utt2spk")["sp0.9-a-1"] == "sp0.9-spk"
    assert read_table(out / "text.tc.de")["sp1.1-a-2"] == "Satz a-2"
    names = list(read_table(out / "wav.scp"))
    assert names == sorted(names)


def test_a_full_disk_leaves_nothing_and_the_same_command_goes_on(data: Path, small_disk: Path) -> None:
    out = small_disk / "dump"
    program = [sys.executable, prepare_data.__file__, "dump"]
    command = [*program, "--data", data, "--out", out, "--texts", "tc.de"]
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - 40_000))
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        sentence = done.stderr.replace("\r", "\n").strip().split("\n")[-1]
        said = f"error: {out}: cannot be written (No space left on device); fix that and run"
        assert sentence.startswith(said)
        assert "Traceback" not in done.stderr
        assert [path.name for path in small_disk.iterdir()] == ["filler"]
    (small_disk / "filler").unlink()
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert set(read(out)) == set(SECONDS)


def test_two_at_once(data: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "dump", tmp_path / ".dump.lock"):
        with pytest.raises(SimulstError, match="dump: another run is at work"):
            dump_audio(data, tmp_path / "dump", ["tc.de"])
        dump_audio(data, tmp_path / "dump2", ["tc.de"])


def test_a_dump_of_something_else_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "dump"
    dump_audio(data, out, ["tc.de"])
    dump_audio(data, out, ["tc.de"])
    assert "complete; --force does it again" in capsys.readouterr().out
    with pytest.raises(SimulstError, match=r"dump: was begun with speeds \[1.0\], not \[0.9, 1.0\]; .* --force"):
        dump_audio(data, out, ["tc.de"], [1.0, 0.9])
    (data / "text.tc.de").write_text((data / "text.tc.de").read_text().replace("Satz a-1", "Ein Satz"))
    with pytest.raises(SimulstError, match="was begun with data "):
        dump_audio(data, out, ["tc.de"])
    dump_audio(data, out, ["tc.de"], force=True)
    assert read_table(out / "text.tc.de")["a-1"] == "Ein Satz"


def test_a_linked_folder_stays_a_link(data: Path, tmp_path: Path) -> None:
    """Such as one on a larger disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "dump").symlink_to("disk")
    dump_audio(data, tmp_path / "dump", ["tc.de"])
    assert (tmp_path / "dump").is_symlink() and (tmp_path / "disk/audio.ark").is_file()
    assert {path.name for path in tmp_path.glob("d*")} == {"data", "disk", "dump"}
