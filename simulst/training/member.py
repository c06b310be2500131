"""One of several processes of a training: `python -m simulst.training.member espnet2.bin.st_train ...`.

ESPnet does not leave the process group in the end. Gloo's threads may then outlive what they belong to, and abort a
process whose training has ended well.
"""

from __future__ import annotations

import atexit
import runpy
import sys


def leave() -> None:
    """Leave the process group, if there is one."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    atexit.register(leave)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
