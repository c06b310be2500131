"""How late the words of `simulst serve` are, for several clients at once, each with a recording at the speed of speech.

    python benchmarks/serve_clients.py ws://localhost:8080/ 1 4 --source-lang en --target-lang de --recording A.wav \
        --settings '{}' --settings '{"chunk_ms": 500}' --settings '{"commit": "hold"}'

A row for each number of clients and each choice of settings (as the page has them). "After the word": from a word's
end, where the model can tell it, to its text at the client; that is what a listener waits for. "After hearing": from
when the audio, as far as it was heard for the word, was sent; it has computation, waiting for others and the way there
and back, but not what the policy waits for.
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


async def speak(uri: str, samples: np.ndarray, asked: dict[str, Any], delay: float) -> dict[str, Any]:
    """One client, `delay` seconds later than the first. Returns the two lags of its words in s, and what it took."""
    await asyncio.sleep(delay)
    came: list[float] = []  # seconds at which words came
    heard: list[float] = []
    spoken: list[float] = []
    last: dict[str, Any] = {}
    async with connect(uri, max_size=None, ping_timeout=None) as connection:
        await connection.send(json.dumps({"details": True, **asked}))
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
            came += [now] * len(last["words"])
            heard += [delay_ms / 1000 for _, delay_ms, _ in last["words"]]
            spoken += [end_ms / 1000 for _, end_ms in last["spoken"]]
        await sending
    took = {name: last[f"{name}_ms"] / 1000 for name in ("heard", "computed", "waited")}
    return {"spoken": np.subtract(came[: len(spoken)], spoken), "lag": np.subtract(came, heard), **took}


def shown(lags: list[np.ndarray]) -> str:
    """Median and 95th percentile of lags, in s."""
    every = np.concatenate(lags)
    return "{:7.2f} {:7.2f}".format(*np.percentile(every, [50, 95])) if every.size else "      –       –"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uri")
    parser.add_argument("clients", type=int, nargs="+")
    parser.add_argument("--recording", dest="recordings", action="append", required=True)
    parser.add_argument("--settings", type=json.loads, action="append")
    parser.add_argument("--source-lang", required=True)
    parser.add_argument("--target-lang", required=True)
    given = parser.parse_args()
    languages = {"source_lang": given.source_lang, "target_lang": given.target_lang}
    audio = [load_audio(path) for path in given.recordings]
    print("clients  words   after the word    after hearing   s heard  computed   waited  settings")
    print("                median    95 %   median    95 %")
    for settings in given.settings or [{}]:
        asked = {**languages, **({"decoding": settings} if settings else {})}
        for count in given.clients:
            streams = (speak(given.uri, audio[i % len(audio)], asked, 0.3 * i) for i in range(count))
            found = await asyncio.gather(*streams)
            heard, computed, waited = (sum(one[name] for one in found) for name in ("heard", "computed", "waited"))
            lags = " ".join(shown([one[name] for one in found]) for name in ("spoken", "lag"))
            words = sum(len(one["lag"]) for one in found)
            times = f"{heard:9.1f} {computed:9.1f} {waited:8.1f}"
            print(f"{count:7} {words:6} {lags} {times}  {json.dumps(settings)}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
