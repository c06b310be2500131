"""A process of an ESPnet program: `python -m simulst.training.process espnet2.bin.st_train ...`.

It starts in seconds (see `simulst.machine.light_import`), and adds six things to ESPnet. First, a training that is
killed while it writes a checkpoint can resume from the checkpoint before, and has the weights of all epochs up to it.
Second, each process leaves its process group at the end. Otherwise gloo's threads may outlive the group and abort a
process whose training has succeeded. Third, there is the front end `log_mel_pitch` (see pitch_frontend.py). Fourth,
BLSTM encoders and Conformers train faster on the CPU (see packed_lstm.py and channels_last.py). Fifth, it ends if what
started it has died (see `end_without_reader`). Sixth, RapidFuzz counts edits (see `count_edits`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import re
import select
import stat
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein

from simulst.files.folder import replacing
from simulst.machine.light_import import leave_out_compiler, leave_out_unused, skip_type_checks
from simulst.training import channels_last, packed_lstm

CHECKPOINT = "checkpoint.pth"
_write = torch.save


def save(thing: object, file: Any, *args: Any, **options: Any) -> None:
    """torch.save, but the file is whole at any time: it is either the old file or the new one.

    ESPnet writes its checkpoint before the weights of the epoch. Here the weights are written first, so that a training
    that resumes from the checkpoint has them.
    """
    if not isinstance(file, str | Path):
        _write(thing, file, *args, **options)
        return
    file = Path(file)
    if file.name == CHECKPOINT and isinstance(thing, dict) and {"model", "reporter"} <= thing.keys():
        save(thing["model"], file.with_name(f"{thing['reporter']['epoch']}epoch.pth"), *args, **options)
    with replacing(file, alone=True) as part:
        _write(thing, part, *args, **options)


def names(pattern: str, arguments: list[str]) -> bool:
    """Whether the options, or the configuration that they name, have a match of this regular expression."""
    texts = list(arguments)
    for option, value in pairwise(arguments):
        if option == "--config" and Path(value).is_file():
            texts.append(Path(value).read_text(encoding="utf-8", errors="replace"))
    return any(re.search(pattern, text) for text in texts)


def end_without_reader() -> None:
    """End this process when nobody reads its output any more: the program that started it has died.

    That program's lock is free then, so the next run may begin. Through ssh, a process learns of it in no other way.
    """
    if not (sys.stdout and stat.S_IFMT(os.fstat(1).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK)):
        return
    hung_up = select.poll()
    hung_up.register(1, 0)  # errors and hang-ups are always told

    def watch() -> None:
        hung_up.poll()
        os._exit(1)  # files are whole at any time

    threading.Thread(target=watch, daemon=True).start()


def count_edits() -> None:
    """Let ESPnet's error rates be counted by RapidFuzz: editdistance has no wheels from Python 3.13 on."""
    module = ModuleType("editdistance")
    module.eval = Levenshtein.distance  # type: ignore[attr-defined]
    sys.modules["editdistance"] = module


def leave() -> None:
    """Leave the process group, if there is one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ in ("__main__", "__mp_main__"):  # ESPnet's process for each GPU imports this file as __mp_main__
    end_without_reader()
    torch.save = save  # type: ignore[assignment]
    atexit.register(leave)
    count_edits()
    skip_type_checks()
    leave_out_unused(keep=["transformers"] if names("hugging_?face", sys.argv) else [])
    leave_out_compiler()
    if names("vgg_rnn", sys.argv):
        packed_lstm.install()
    if names("conformer", sys.argv):
        channels_last.install()
    if names("log_mel_pitch", sys.argv):
        from simulst.training.pitch_frontend import register

        # Training for wait-k is a program of our own, for the task `st`.
        for task in re.findall(r"espnet2\.bin\.(\w+)_train", " ".join(sys.argv)) or ["st"]:
            register(task)

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    program = importlib.import_module(sys.argv[0])
    gc.freeze()  # Python looks for garbage once more at the end, and would go through all that was imported
    program.main()
