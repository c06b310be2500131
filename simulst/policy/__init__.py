"""The three decisions of the loop, each a small class: READ (read.py), STOP (stop.py), COMMIT (commit.py).

A policy never sees audio or a model, only times, hypotheses and counts. To write your own, give a dataclass with the
same methods and name it in the decoding configuration by its import path (`type: my_package.my_module.MyCommit`).
"""
