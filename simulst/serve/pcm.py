"""Decode a file that a client has sent, in a process of its own: `python -m simulst.serve.pcm FILE OUT SECONDS`.

A damaged or hostile file may crash its decoder, or make it take much memory; the server and its other clients go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
from pathlib import Path

from simulst.audio.read import as_int16, audio_in_parts, seconds_of
from simulst.errors import SimulstError

MEMORY = 4 << 30  # bytes; compressed files are decoded as a whole
WORK = 600  # seconds of computation
PART = 30.0  # seconds that are read at once


async def decode_apart(path: Path, out: Path, longest: float) -> float:
    """Write a file's audio to `out`: integers of 16 bits, 16 kHz, mono. Returns its seconds.

    Raises SimulstError: it can't be read, or lasts longer.
    """
    command = [sys.executable, "-m", __name__, str(path), str(out), str(longest)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        said, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode == 0:
        return float(said)
    raise SimulstError(said.decode() or f"{path}: its decoder failed; give WAV or FLAC.")


def main(file: str, out: str, longest: str) -> None:
    """Decode, and print the seconds, or what is wrong with the file."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (WORK, WORK))
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
        sys.exit(1)
    print(seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
