"""Lag of several clients of `simulst serve` at once, each with a recording at the speed of speech.

    python benchmarks/serve_clients.py ws://localhost:8080/ 8 --source-lang en --target-lang de RECORDING...

The lag of a word is the time from when its audio (as far as it was heard) was sent until the word came, so it has
computation, waiting for the others and the way there and back, but not what the policy waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

import numpy as np
from websockets.asyncio.client import connect

from simulst.audio.read import as_int16, load_audio
from simulst.audio.units import SAMPLE_RATE

PIECE = SAMPLE_RATE // 10


async def speak(uri: str, samples: np.ndarray, languages: dict[str, str], delay: float) -> dict[str, Any]:
    """One client, `delay` seconds later than the first. Returns lags of its words in s, and what it has computed."""
    await asyncio.sleep(delay)
    lags: list[float] = []
    last: dict[str, Any] = {}
    async with connect(uri, max_size=None, ping_timeout=None) as connection:
        await connection.send(json.dumps({"details": True, **languages}))
        began = time.monotonic()

        async def send() -> None:
            for start in range(0, len(samples), PIECE):
                due = began + min(start + PIECE, len(samples)) / SAMPLE_RATE
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await connection.send(as_int16(samples[start : start + PIECE]).tobytes())
            await connection.send(json.dumps({"end_of_stream": True}))

        sending = asyncio.create_task(send())
        async for message in connection:
            answer = json.loads(message)
            if "error" in answer:
                raise SystemExit(answer["error"])
            if "end_of_processing" in answer:
                break
            last = answer["simulst"]
            now = time.monotonic() - began
            lags += [now - delay_ms / 1000 for _, delay_ms, _ in last["words"]]
        await sending
    return {"lags": lags, **{name: last[f"{name}_ms"] / 1000 for name in ("heard", "computed", "waited")}}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri")
    parser.add_argument("clients", type=int)
    parser.add_argument("recordings", nargs="+")
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    given = parser.parse_args()
    languages = {"source_lang": given.source_lang, "target_lang": given.target_lang}
    audio = [load_audio(given.recordings[i % len(given.recordings)]) for i in range(given.clients)]
    began = time.monotonic()
    streams = (speak(given.uri, samples, languages, 0.3 * i) for i, samples in enumerate(audio))
    found = await asyncio.gather(*streams)
    for one in found:
        middle, high = np.percentile(one["lags"], [50, 95]) if one["lags"] else (np.nan, np.nan)
        print(
            f"{len(one['lags']):4} words, lag {middle:5.2f} s (median) {high:5.2f} s (95 %), {one['heard']:6.1f} s "
            f"heard, {one['computed']:6.1f} s computed, {one['waited']:6.1f} s waited"
        )
    middle, high, worst = np.percentile([lag for one in found for lag in one["lags"]], [50, 95, 100])
    spoken = sum(samples.size for samples in audio) / SAMPLE_RATE
    print(f"all: lag {middle:.2f} s (median), {high:.2f} s (95 %), {worst:.2f} s (worst)")
    print(f"{spoken:.0f} s of audio in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    asyncio.run(main())
