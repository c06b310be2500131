"""A port that answers, but is no Dask scheduler."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port that sends this to whoever comes, and closes; None: says nothing and keeps the connection."""
    held: list[socket.socket] = []

    def serve() -> None:
        with contextlib.suppress(OSError):  # in the end the socket is closed
            while True:
                connection, _ = listener.accept()
                held.append(connection)
                if answer is not None:
                    connection.sendall(answer)
                    connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()
