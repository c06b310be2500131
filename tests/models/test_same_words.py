"""The same features and words for any number of threads, in processes of their own: libraries read it as they begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import tiny_espnet
import tiny_huggingface
import tiny_whisper

COMPUTE = """
import hashlib, json, sys
import simulst, numpy as np, soxr, torch
from simulst.audio.features import LogMel
from simulst.audio.mel import MelBands, mel_filters
from simulst.audio.pitch import pitch_features
from simulst.audio.vad import start_of_stream
from simulst.config import parse_decoding
from simulst.models import load_model
from simulst.models.whisper.features import log_mel
from simulst.streams import open_stream

folders, threads = json.loads(sys.argv[1]), int(sys.argv[2])
decoding = parse_decoding({"read": {"type": "chunk", "ms": 700}, "commit": {"type": "hold", "n": 2}}, "test")
audio = np.random.default_rng(0).uniform(-0.3, 0.3, 60_000).astype(np.float32)
found = {}
def keep(name, *arrays):
    found[name] = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
for name, folder in folders.items():
    model = load_model(folder, threads)
    stream = open_stream(model, decoding, "es" if "whisper" in name else "en", "en" if "whisper" in name else "de")
    stream.push(audio, finished=True)
    found[name] = [(word.text, word.delay_ms) for word in stream.emissions]
    extractor = getattr(getattr(model, "architecture", None), "inputs", None)
    if extractor:
        keep("features of " + name, *(value.numpy() for value in extractor([audio]).values()))
torch.set_num_threads(threads)
bands = MelBands(mel_filters(80, 400, 16000))
keep("whisper's features", *(log_mel(audio[:n], n // 160, bands) for n in (9600, 48000)))
log_mels = LogMel(torch.from_numpy(mel_filters(80, 512, 16000).T), 512, 400, 160)
keep("log-mel", *(log_mels.frames(audio, 0, 0, n).numpy() for n in (10, 300)))
keep("pitch", pitch_features(audio, 0, 0, 300, 160))
keep("resampled", soxr.resample(audio, 44100, 16000))
hearing = start_of_stream()
for start in range(0, 51200, 512):
    hearing = hearing.next(audio[start : start + 512])
keep("detector", hearing.state.numpy())
values = torch.randn(200, 2048, generator=torch.Generator().manual_seed(0))
keep("products", *((values[:n] @ values[:256].T).numpy() for n in (1, 16, 200)))
print(json.dumps(found))
"""


def computed(folders: dict[str, str], threads: int, **environment: str) -> dict[str, object]:
    """What a process finds whose libraries have so many threads. environment: what it has besides."""
    names = ("MKL_CBWR", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    given = {name: value for name, value in os.environ.items() if name not in names}
    given |= {"OMP_NUM_THREADS": str(threads)} | environment
    command = [sys.executable, "-W", "ignore", "-c", COMPUTE, json.dumps(folders), str(threads)]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_number_of_threads_changes_nothing(tmp_path: Path) -> None:
    folders = {"whisper": tiny_whisper.write(tmp_path / "whisper", eos=6)}
    for kind in tiny_huggingface.KINDS:
        seed = {"speech_to_text": 1}.get(kind)  # another one says nothing
        folders[f"huggingface, {kind}"] = tiny_huggingface.write(tmp_path / kind, kind, seed)
    for encoder in ("contextual_block_conformer", "conformer", "vgg_rnn"):
        changes = tiny_espnet.VGG_BLSTM if encoder == "vgg_rnn" else {"encoder": encoder}
        tiny_espnet.write(tmp_path / encoder, **changes)
        folders[f"espnet, {encoder}"] = tmp_path / encoder / "exp" / "st"
    named = {name: str(folder) for name, folder in folders.items()}
    # OpenBLAS's products for processors with AVX2 depend on its threads in more sizes than those with AVX-512.
    one, other = (computed(named, threads, OPENBLAS_CORETYPE="Haswell") for threads in (1, 3))
    assert [name for name, value in one.items() if not value] == []
    assert {name: other[name] == value for name, value in one.items()} == dict.fromkeys(one, True)
