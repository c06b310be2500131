"""simulstream's own programs, run as its commands run them, in threads of this process."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import yaml
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server import websocket_server
from simulstream.server.speech_processors.remote import http_speech_processor_server as http_server
from waiting import HANGS

METRICS_LOGGER.setLevel(logging.INFO)  # simulstream relies on the root logger's level, which pytest has taken

LA2 = {"read": {"type": "chunk", "ms": 1000}, "commit": {"type": "local_agreement", "n": 2}}
FAKE = {
    "type": "simulst.serve.simulstream.StreamProcessor",
    "model": "fake:FakeModel",
    "decoding": LA2,
    "source_lang": "es",
    "target_lang": "en",
    "detokenizer_type": "simuleval",
    "latency_unit": "char",
}


def write_yaml(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def write_wavs(folder: Path, samples: tuple[int, ...], rate: int = 16000) -> Path:
    """Recordings of noise, 16 bits, and the list of their names that simulstream's programs read."""
    noise = np.random.default_rng(0)
    names = []
    for i, size in enumerate(samples):
        names.append(f"talk{i}.wav")
        soundfile.write(folder / names[-1], noise.uniform(-0.5, 0.5, size), rate, subtype="PCM_16")
    (folder / "wavs.txt").write_text("".join(f"{name}\n" for name in names))
    return folder / "wavs.txt"


@contextmanager
def websockets(folder: Path, processor: dict[str, Any], pool: int = 2) -> Iterator[str]:
    """simulstream_server; gives its address. Its log of metrics is folder/metrics.jsonl."""
    server = {
        "hostname": "127.0.0.1",
        "port": 0,  # any
        "pool_size": pool,
        "acquire_timeout": HANGS,
        "metrics": {"enabled": True, "filename": str(folder / "metrics.jsonl")},
    }
    arguments = Namespace(
        server_config=str(write_yaml(folder / "server.yaml", server)),
        speech_processor_config=str(write_yaml(folder / "processor.yaml", processor)),
    )
    loop = asyncio.new_event_loop()
    task = loop.create_task(websocket_server.main(arguments))
    listening: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    original = websocket_server.serve

    @asynccontextmanager
    async def told(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        async with original(*arguments, **options) as server:
            listening.put(next(iter(server.sockets)).getsockname()[1])
            yield server

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        listening.put(None)

    thread = threading.Thread(target=serve)
    try:
        websocket_server.serve = told
        thread.start()
        port = listening.get()
        assert port, "the server does not listen"
        yield f"ws://127.0.0.1:{port}/"
    finally:
        websocket_server.serve = original
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
        close_metrics()


@contextmanager
def http(folder: Path, processor: dict[str, Any], pool: int = 2, ttl: float = 60) -> Iterator[dict[str, Any]]:
    """The server of sessions over HTTP; gives the configuration of a processor that hands on to it."""
    manager = http_server.SpeechProcessorSessionManager(
        http_server.yaml_config(str(write_yaml(folder / "remote.yaml", processor))), pool, ttl
    )
    handler = http_server.partial(http_server.HttpSpeechProcessorHandler, speech_processor_manager=manager)
    server = http_server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = False  # closing it waits for all requests
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield {
            "type": "simulstream.server.speech_processors.remote.http_proxy_speech_processor.HttpProxySpeechProcessor",
            "hostname": "127.0.0.1",
            "port": server.server_address[1],
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        manager._cleanup_stop_event.set()  # its thread is a daemon, asleep


def close_metrics() -> None:
    for handler in list(METRICS_LOGGER.handlers):
        handler.close()
        METRICS_LOGGER.removeHandler(handler)
