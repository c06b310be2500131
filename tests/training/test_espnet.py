"""Running ESPnet's programs: what is complete is kept, what was interrupted goes on, nothing is mixed up."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import waiting

from simulst.errors import SimulstError
from simulst.training.espnet import LOG, RECORD, Machines, Training, keep_ctc, run_espnet


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "st.yaml"
    file.write_text("max_epoch: 3\n")
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "st"


def program(out: Path, body: str, *arguments: str) -> list[str]:
    """Instead of ESPnet: it counts its calls in `out/calls`."""
    count = f"f = open({str(out / 'calls')!r}, 'a'); f.write('x'); f.close()"
    return [sys.executable, "-c", f"{count}\n{body}", *arguments]


def calls(out: Path) -> int:
    return len((out / "calls").read_text())


def test_complete_work_is_done_once(out: Path, config: Path) -> None:
    command = program(out, "print('hello')")
    run_espnet(command, out, config)
    run_espnet(command, out, config)
    assert calls(out) == 1
    assert (out / LOG).read_text() == "hello\n"
    assert json.loads((out / RECORD).read_text())["complete"] is True


def test_a_failure_tells_the_last_words_and_the_same_command_goes_on(out: Path, config: Path) -> None:
    out.mkdir()
    body = f"import sys, os\nif os.path.getsize({str(out / 'calls')!r}) < 2: sys.exit('ValueError: no such optimizer')"
    command = program(out, body)
    with pytest.raises(SimulstError, match=r"simulst\.log: ESPnet stopped with status 1: .*no such optimizer"):
        run_espnet(command, out, config)
    (out / "checkpoint.pth").write_text("kept")
    run_espnet(command, out, config)
    assert calls(out) == 2 and (out / "checkpoint.pth").exists()


@pytest.mark.parametrize("complete", [True, False])
def test_another_command_or_configuration_is_refused(out: Path, config: Path, complete: bool) -> None:
    command = program(out, "" if complete else "raise SystemExit(1)")
    if complete:
        run_espnet(command, out, config)
    else:
        with pytest.raises(SimulstError):
            run_espnet(command, out, config)
    with pytest.raises(SimulstError, match="begun with other options"):
        run_espnet([*command, "--seed", "5"], out, config)
    config.write_text("max_epoch: 3\noptim: adam\n")
    with pytest.raises(SimulstError, match=r"another st\.yaml"):
        run_espnet(command, out, config)
    assert calls(out) == 1


@pytest.mark.parametrize("complete", [True, False])
def test_other_contents_of_the_inputs_are_refused(tmp_path: Path, config: Path, complete: bool) -> None:
    """Nothing tells ESPnet that the tokens or the encoder to begin with were made again."""
    out, tokens = tmp_path / "st", tmp_path / "tokens.txt"
    tokens.write_text("a b")
    command = program(out, "" if complete else "raise SystemExit(1)")
    for _ in range(2):
        with nullcontext() if complete else pytest.raises(SimulstError, match="status 1"):
            run_espnet(command, out, config, files=[tokens, tmp_path / "missing"])
    tokens.write_text("b a")
    with pytest.raises(SimulstError, match=r"begun with another .*tokens\.txt, which was made again"):
        run_espnet(command, out, config, files=[tokens])
    assert calls(out) == (1 if complete else 2)
    run_espnet(program(out, ""), out, config, force=True, files=[tokens])
    assert calls(out) == 1


@pytest.mark.parametrize("left", ["checkpoint.pth", "3epoch.pth"])
def test_weights_without_a_record_are_not_gone_on_with(out: Path, config: Path, left: str) -> None:
    """A kill in the middle of --force leaves them."""
    out.mkdir()
    (out / left).write_text("old")
    command = program(out, "")
    with pytest.raises(SimulstError, match=rf"st: has {left} and no simulst\.json; use --force"):
        run_espnet(command, out, config)
    run_espnet(command, out, config, force=True)
    assert calls(out) == 1 and not (out / left).exists()


def test_the_inputs_of_a_training(tmp_path: Path) -> None:
    training = Training("st", tmp_path, Path("t"), Path("v"), "tc.de", Path("k"), "lc.rm.en", Path("s"))
    command = " ".join(training.command(tmp_path, []))
    files = list(map(str, training.files()))
    assert len(set(files)) == len(files) == 12 and all(file in command for file in files)
    assert len(Training("asr", tmp_path, Path("t"), Path("v"), "lc.rm.en", Path("k")).files()) == 8


def test_a_training_goes_on_for_more_epochs_but_not_for_fewer(out: Path, config: Path) -> None:
    command = program(out, "")
    run_espnet(command, out, config)
    config.write_text("max_epoch: 4  # one more\n")
    run_espnet(command, out, config)
    run_espnet([*command, "--max_epoch", "5"], out, config)
    assert calls(out) == 3
    for text in ("max_epoch: 5", "max_epoch: 2  # what the option says counts\n"):
        config.write_text(text)
        run_espnet([*command, "--max_epoch", "5"], out, config)
    with pytest.raises(SimulstError, match=r"another st\.yaml"):
        run_espnet(command, out, config)
    assert calls(out) == 3


def test_statistics_do_not_depend_on_the_number_of_epochs(tmp_path: Path, config: Path) -> None:
    out = tmp_path / "stats"
    command = program(out, "", "--collect_stats", "true")
    run_espnet(command, out, config)
    config.write_text("max_epoch: 9\n")
    run_espnet(command, out, config)
    assert calls(out) == 1


RUN = "from pathlib import Path; from simulst.training.espnet import run_espnet; "


def test_the_folder_is_held_until_espnet_itself_has_ended(tmp_path: Path, out: Path, config: Path) -> None:
    """What started ESPnet is killed, ESPnet goes on: whoever comes now is refused, with or without force."""
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    body = f"import os, waiting\nwith open({str(begun)!r}, 'w') as file: print(os.getpid(), file=file)\n"
    command = program(out, f"{body}waiting.pass_through({str(gate)!r})")
    call = f"run_espnet({command!r}, Path({str(out)!r}), Path({str(config)!r}))"
    with waiting.closed(gate):
        first = subprocess.Popen([sys.executable, "-c", RUN + call])
        waiting.until(lambda: begun.exists() and begun.read_text().endswith("\n"), tmp_path, first)
        first.kill()
        first.wait()
        for force in (False, True):
            with pytest.raises(SimulstError, match=rf"st: another run is at work there \(process {first.pid} on "):
                run_espnet(command, out, config, force)
        espnet = os.pidfd_open(int(begun.read_text()))
        signal.pidfd_send_signal(espnet, signal.SIGKILL)
        select.select([espnet], [], [])  # until it has ended
        os.close(espnet)
    run_espnet(command, out, config)
    assert calls(out) == 2 and not list(out.glob(".*"))


def test_an_interrupted_run_waits_until_espnet_has_ended(tmp_path: Path, config: Path) -> None:
    """Else the next run could begin while it still writes."""
    out, gate = tmp_path / "st", tmp_path / "gate"
    begun, told, ended = (tmp_path / name for name in ("begun", "told", "ended"))
    # A handler would not do: a signal that comes just before signal.pause() does not end it.
    body = "import pathlib, signal, sys, waiting\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    body += (
        f"pathlib.Path({str(begun)!r}).touch()\nsignal.sigwait([signal.SIGTERM])\npathlib.Path({str(told)!r}).touch()\n"
    )
    body += f"waiting.pass_through({str(gate)!r})\npathlib.Path({str(ended)!r}).touch()\nsys.exit(1)"
    command = program(out, body)
    call = f"run_espnet({command!r}, Path({str(out)!r}), Path({str(config)!r}))"
    with (
        waiting.closed(gate) as open_gate,
        subprocess.Popen([sys.executable, "-c", RUN + call], stderr=subprocess.DEVNULL) as run,
    ):
        waiting.until(begun.exists, tmp_path, run)
        run.send_signal(signal.SIGINT)
        waiting.until(told.exists, tmp_path, run)
        with pytest.raises(SimulstError, match="another run is at work there"):
            run_espnet(command, out, config)
        open_gate()
    assert ended.exists() and not list(out.glob(".*"))


def test_the_record_is_of_what_is_trained_not_of_where(out: Path, config: Path) -> None:
    command = program(out, "raise SystemExit(1)")
    with pytest.raises(SimulstError):
        run_espnet(command, out, config, machines=Machines(ngpu=2))
    with pytest.raises(SimulstError, match="status 1"):
        run_espnet(command, out, config)
    assert calls(out) == 2


def test_two_runs_may_keep_the_ctc_layer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found the training complete, whose lock is free."""
    begin, save, processes = tmp_path / "begin.pth", torch.save, itertools.count()
    save({"st_ctc.weight": torch.ones(1)}, begin)
    (tmp_path / "config.yaml").write_text("freeze_param: [encoder]")

    def save_while_another_does(thing: object, file: Path) -> None:
        save(thing, file)
        monkeypatch.setattr("torch.save", save)
        keep_ctc(begin, tmp_path)

    monkeypatch.setattr("os.getpid", lambda: next(processes))
    monkeypatch.setattr("torch.save", save_while_another_does)
    keep_ctc(begin, tmp_path)
    assert [file.name for file in tmp_path.glob("ctc*")] == ["ctc.pth"]
