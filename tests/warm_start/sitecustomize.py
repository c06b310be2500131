"""Python imports this module before a program, where tests/warm.py asks for it, and the warm process runs the program.

This process waits for its end, passes signals on, and ends in the same way.
"""

import os
import sys


def hand_over(address: str, program: list[str]) -> None:
    """Let the warm process run a program. Does not return."""
    import json
    import signal
    import socket

    files = [int(name) for name in os.listdir("/proc/self/fd")]
    files = [number for number in files if _is_inherited(number)]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    call = {"program": program, "folder": os.getcwd(), "environment": dict(os.environ), "path": sys.path}
    message = json.dumps({**call, "files": files}).encode()
    socket.send_fds(connection, [len(message).to_bytes(8, "big")], files)
    connection.sendall(message)
    for number in files:
        if number > 2:
            os.close(number)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    status = int.from_bytes(connection.recv(2), "big", signed=True)
    if status < 0:
        if status != -signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # the list of the files had this number
        return False


# Of a program without options of Python's own, but for -B, which multiprocessing adds where Python shall keep nothing
# compiled, and pytest-xdist's -u. What keeps track of the shared memory of processes is best left alone.
_, *rest = sys.orig_argv
if rest[:1] in (["-B"], ["-u"]):
    del rest[0]
own_options = not rest or (rest[0].startswith("-") and rest[0] not in ("-m", "-c"))
if "WARM" in os.environ and not own_options and "resource_tracker" not in rest[-1]:
    hand_over(os.environ["WARM"], rest)
