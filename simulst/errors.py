"""The one exception that users see: a sentence that names what is wrong and how to fix it."""


class SimulstError(Exception):
    """Bad input, found early. The command line prints the message and exits with status 1."""
