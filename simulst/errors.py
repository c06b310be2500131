"""The one exception that users see. Its message is a sentence that says what is wrong and how to fix it."""


class SimulstError(Exception):
    """The input is wrong. The command line prints the message and exits with status 1."""
