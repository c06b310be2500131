"""The three decisions of the loop, each a small class: READ (read.py), STOP (stop.py), COMMIT (commit.py).

A policy is a frozen dataclass of options. READ and STOP are opened for each stream (context.py has what they may use).
docs/policy.md shows how to write your own.
"""
