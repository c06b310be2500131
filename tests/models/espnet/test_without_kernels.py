"""Words with compiled kernels and without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_espnet

DECODE = """
import json, logging, sys
if sys.argv[2] == "hidden":
    for name in ("numba", "llvmlite"):
        sys.modules[name] = None
logging.basicConfig(level=logging.WARNING, format="WARNED %(message)s", stream=sys.stderr)
import numpy as np
import torch
from simulst.config import Decoding
from simulst.models import load_model
from simulst.policy.commit import LocalAgreement
from simulst.policy.read import Chunk
from simulst.search import BWBS, JointBeamSearch
from simulst.streams import open_stream

audio = (np.random.default_rng(0).standard_normal(40_000) * 0.1).astype(np.float32)
found = []
for precision in ("float32", "int8"):
    model = load_model(sys.argv[1], precision=precision, threads=1)
    for search in (JointBeamSearch(3, 0.3, max_length_ratio=0.4), BWBS(3, 0.3)):
        stream = open_stream(model, Decoding(Chunk(600), LocalAgreement(2), search=search), "en", "de")
        outputs = [stream.push(audio[:25_000]), stream.push(audio[25_000:], True)]
        found.append([(word.text, word.delay_ms) for output in outputs for word in output])
print(json.dumps(found))
"""


@pytest.mark.long
def test_the_words_are_the_same_without_numba(tmp_path: Path) -> None:
    tiny_espnet.write(tmp_path, seed=1)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", DECODE, str(tmp_path / "exp" / "st"), numba],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for numba in ("there", "hidden")
    ]
    ends = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], ends
    compiled, plain = (json.loads(out) for out, _ in ends)
    assert compiled == plain and all(compiled)
    warned = [err.count("WARNED nothing is compiled") for _, err in ends]
    assert warned == [0, 1]
