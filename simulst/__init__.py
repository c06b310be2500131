"""Simultaneous speech translation: speech comes in piece by piece, words go out and are never taken back."""

__version__ = "0.1.0"

from simulst.machine.threads import add_alike_in_numpy, sleep_while_waiting

sleep_while_waiting()
add_alike_in_numpy()
