"""Decode a file of a client in a process of its own: `python -m simulst.serve.pcm FILE OUT SECONDS BYTES WORK`.

A damaged or hostile file may crash its decoder, or make it take much memory; the server and its other clients go on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

from simulst.audio.read import as_int16, audio_in_parts, seconds_of
from simulst.errors import SimulstError

MOST = 4 << 30, 600  # bytes of memory, as compressed files are decoded as a whole, and seconds of computation
QUICK = 1 << 30, 10  # the same of files that are decoded side by side
PART = 30.0  # seconds that are read at once


class TooMuch(SimulstError):
    """A file needs more than the bounds of its decoder allow, or has made it crash."""


async def decode_apart(path: Path, out: Path, longest: float, bounds: tuple[int, int]) -> float:
    """Write a file's audio to `out`: integers of 16 bits, 16 kHz, mono. Returns its seconds.

    bounds: bytes of memory, and seconds of computation.
    Raises SimulstError: it can't be read, or lasts longer; TooMuch.
    """
    import asyncio  # here, as its import takes a third of the time in which a decoder starts

    command = [sys.executable, "-m", __name__, *map(str, (path, out, longest, *bounds))]
    one = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's takes 40 MB of addresses for each thread
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=one)
    try:
        said, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode == 0:
        return float(said)
    kind = SimulstError if process.returncode == 1 else TooMuch
    raise kind(said.decode() or f"{path}: its decoder failed; give WAV or FLAC.")


def main(file: str, out: str, longest: str, memory: str, work: str) -> None:
    """Decode, and print the seconds, or what is wrong with the file. Ends with 2 where memory is short."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(work), int(work)))
    path = Path(file)
    try:
        seconds = seconds_of(path)
        if seconds > float(longest):
            raise SimulstError(f"{path}: lasts {seconds:.0f} s; give at most {float(longest):g} s.")
        with Path(out).open("wb") as opened:
            for samples in audio_in_parts(path, PART):
                opened.write(as_int16(samples).astype("<i2").tobytes())
    except (SimulstError, MemoryError, OSError) as error:
        needs = "memory" if isinstance(error, MemoryError) else "room on the server's disk"
        told = str(error) if isinstance(error, SimulstError) else f"{path}: needs too much {needs}; give a shorter one."
        print(told, end="")
        sys.exit(2 if isinstance(error, MemoryError) else 1)
    print(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
