"""Simultaneous speech translation: speech comes in piece by piece, words go out and are never taken back."""

__version__ = "0.1.0"

from simulst.machine.threads import sleep_while_waiting

sleep_while_waiting()
