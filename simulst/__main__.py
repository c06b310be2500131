"""`python -m simulst` is `simulst`."""

from simulst.commands.main import entry

entry()
