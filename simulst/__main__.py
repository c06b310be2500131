"""`python -m simulst` is `simulst`."""

from simulst.cli import entry

entry()
