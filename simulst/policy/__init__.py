"""The policies of the loop: READ (read.py), STOP (stop.py), COMMIT (commit.py), SEGMENT (segment.py), LATE (late.py).

Each is a frozen dataclass of options (base.py). READ and STOP decide with what they have seen of a stream, so they are
opened for each stream: `open(context)` returns an object of another class, which may remember things (context.py has
what it may use). COMMIT is a pure function of the last beams, and SEGMENT and LATE only say what a stream is to do: of
these there is nothing to open. docs/policy.md shows how to write your own.
"""
