"""Whose push is computed when, of the streams of one loaded model. Nothing else in a server knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from simulst.audio.units import SAMPLE_RATE
from simulst.streams.base import OpenStream

TURN = SAMPLE_RATE  # samples; whoever has more to push asks for another turn
T = TypeVar("T")


class Turns:
    """One push after the other, in the order in which they are asked for, in a thread beside the server's."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turns")

    async def open(self, make: Callable[[], OpenStream]) -> OpenStream:
        """Open a stream, which may compute something, too. Raises what `make` raises."""
        return (await self._in_turn(make))[0]

    async def push(self, stream: OpenStream, samples: np.ndarray, finished: bool = False) -> float:
        """Push samples, (n,) float32 with n at most TURN; the stream's emissions have the words.

        Returns: seconds for which the push has waited for other streams.
        Raises what `OpenStream.push` raises.
        """
        _, waited = await self._in_turn(lambda: stream.push(samples, finished))
        stream.wait(waited)  # only now: a step that has waited for its turn is not left out for that
        return waited

    def close(self) -> None:
        """End what has not begun; wait for what has."""
        self._thread.shutdown(cancel_futures=True)

    async def _in_turn(self, call: Callable[[], T]) -> tuple[T, float]:
        """What a call returns, and the seconds for which it has waited."""
        asked = time.perf_counter()

        def run() -> tuple[T, float]:
            waited = time.perf_counter() - asked
            return call(), waited

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)
